// Package cache keeps the replies that had to be waited for, packed as they came, and answers with them as long as they are good. It stands
// right before forward: what other handlers have in memory is never kept a second time, so an answer about the cluster is never older
// than the last event of its watch, whatever the cache's TTL is.
//
// A reply is judged once, when it is stored (RFC 2308 for denials, RFC 9520 for failures): it must answer the question, records that do not
// belong to it are left out, and all of it expires together, with its shortest-lived record. Expired replies may be used while there is
// nothing newer (RFC 8767).
package cache

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Cache is what one cache directive keeps, and the handler that answers with it. A new configuration whose Options are equal goes on with the same Cache.
type Cache struct {
	opts    Options
	zones   []wire.Zone
	noPos   []wire.Zone
	noNeg   []wire.Zone
	metrics *Metrics
	store   *store
	base    time.Time // zero of the clock

	uses    atomic.Pointer[[]use]
	mu      sync.Mutex
	running context.Context // nil unless Run runs
	waiting sync.WaitGroup  // refreshes in flight
	fetches int
}

// New makes an empty cache. It starts nothing; see Run.
func New(o Options, m *Metrics) *Cache {
	c := &Cache{
		opts: o, zones: parseZones(o.Zones), noPos: parseZones(o.NoSuccess), noNeg: parseZones(o.NoDenial),
		metrics: m, store: newStore(&o), base: time.Now(),
	}
	c.uses.Store(new([]use))
	return c
}

// parseZones reads zones in presentation form, which Parse has checked. The root alone needs no look at names: it gives nil for "none" and
// one zone for "all".
func parseZones(names []string) []wire.Zone {
	var out []wire.Zone
	for _, n := range names {
		if c, err := wire.ParseCanonical(n); err == nil {
			out = append(out, wire.NewZone(c))
		}
	}
	return out
}

// Options are what the cache was made with.
func (c *Cache) Options() Options { return c.opts }

// Metrics are what the cache counts into.
func (c *Cache) Metrics() *Metrics { return c.metrics }

// Run lets the cache refresh entries in the background until ctx ends; then it stops the refreshes in flight and waits for them. Before
// Run, and after it, expired entries are served as the options say but not refreshed on the side.
func (c *Cache) Run(ctx context.Context) error {
	c.mu.Lock()
	c.running = ctx
	c.mu.Unlock()
	c.metrics.add(c)
	<-ctx.Done()
	c.mu.Lock()
	c.running = nil
	c.mu.Unlock()
	c.metrics.remove(c)
	c.waiting.Wait()
	return nil
}

// begin says whether one more refresh may start, and gives the context that it ends with. end is called when it is over.
func (c *Cache) begin() (ctx context.Context, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil || c.fetches == maxFetches {
		return nil, false
	}
	c.fetches++
	c.waiting.Add(1)
	return c.running, true
}

func (c *Cache) end() {
	c.mu.Lock()
	c.fetches--
	c.mu.Unlock()
	c.waiting.Done()
}

// use is a cache as the blocks of one listener and view use it.
type use struct {
	labels labels
	n      *counters
}

// counters are those for the block that the query fell into. Blocks come with the configuration, so a cache finds few in its time; they are kept in a
// slice that is replaced as a whole, and searched without a lock.
func (c *Cache) counters(q *server.Query) *counters {
	var server, view string
	if q.Block != nil {
		server, view = q.Block.Server, q.Block.View
	}
	if n := usedBy(*c.uses.Load(), server, view); n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := *c.uses.Load()
	if n := usedBy(before, server, view); n != nil {
		return n
	}
	l := labels{server: server, zones: strings.Join(c.opts.Zones, ","), view: view}
	n := c.metrics.counters(l)
	after := append(slices.Clone(before), use{l, n})
	c.uses.Store(&after)
	return n
}

func usedBy(uses []use, server, view string) *counters {
	for i := range uses {
		if uses[i].labels.server == server && uses[i].labels.view == view {
			return uses[i].n
		}
	}
	return nil
}

func (c *Cache) now(t time.Time) int64 { return int64(t.Sub(c.base)) }

// bounds are those of a kind of answer.
func (c *Cache) bounds(k kind) Bounds {
	if k == denial {
		return c.opts.Denial
	}
	return c.opts.Success
}

// level gives the TTL in seconds that is kept and shown, for one that a message has.
func (b *Bounds) level(ttl uint32) uint32 {
	return uint32(min(max(time.Duration(ttl)*time.Second, b.MinTTL), b.TTL) / time.Second)
}

// disabled says whether answers of that kind to q are not kept.
func (c *Cache) disabled(q *server.Query, k kind) bool {
	if k == success {
		return inZones(c.noPos, q)
	}
	return inZones(c.noNeg, q)
}

func inZones(zones []wire.Zone, q *server.Query) bool {
	for i := range zones {
		if _, ok := q.Name.Cut(zones[i]); ok {
			return true
		}
	}
	return false
}

// everyTTL takes a message's TTLs to 0, so that Splice's MinTTL is what they become.
const everyTTL = math.MaxUint32

// cacheable says whether questions of that kind are looked up at all. Zone transfers and the other types that only mean something to
// one exchange (RFC 6895 3.1) are not.
func (c *Cache) cacheable(q *server.Query) bool {
	return (q.Type < 128 || q.Type >= wire.TypeANY || q.Type == 0) && inZones(c.zones, q)
}

// Answer serves a kept reply, or passes the query on and stores its reply at the end.
func (c *Cache) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if !c.cacheable(q) {
		return server.Pass
	}
	k := c.store.key(q)
	now := c.now(q.Received)
	f := c.store.find(&k, now)
	switch {
	case f.entry == nil:
		return c.miss(r, q, &k)
	case !f.stale:
		if c.opts.Prefetch.Amount > 0 && f.kind != failure {
			c.prefetch(q, &k, f.entry, now)
		}
		return c.serve(r, q, &k, f, now)
	case c.opts.Stale.Verify && now >= f.retry.Load() && !f.denied:
		return server.Wait
	}
	if now >= f.retry.Load() && !f.denied {
		c.fetch(q, &k, f.entry)
	}
	return c.serve(r, q, &k, f, now)
}

// miss passes the query on, and has its reply stored.
func (c *Cache) miss(r *server.Reply, q *server.Query, k *key) server.Verdict {
	c.counters(q).cell(q.Shard).misses.Add(1)
	r.OnFinish(c, k.hash)
	return server.Pass
}

// prefetch asks for a popular entry again when little of its TTL is left.
func (c *Cache) prefetch(q *server.Query, k *key, e *entry, now int64) {
	p := &c.opts.Prefetch
	if !e.popular(now, p) || now < e.retry.Load() {
		return
	}
	// The last second counts as little, or short TTLs would never be refreshed in time.
	due := max(int64(e.ttl)*int64(time.Second)/100*int64(p.Percent), int64(time.Second))
	if e.expires()-now <= due {
		if _, begun := c.fetch(q, k, e); begun {
			c.counters(q).prefetches.Add(1)
		}
	}
}

// serve makes the entry the reply. The caller has no other answer, so one that cannot be spliced in is a miss.
func (c *Cache) serve(r *server.Reply, q *server.Query, k *key, f found, now int64) server.Verdict {
	ttl := f.left(now)
	switch {
	case f.stale:
		ttl = uint32(c.opts.Stale.TTL / time.Second)
	case c.opts.KeepTTL:
		ttl = f.ttl
	}
	if err := r.Splice(f.msg, server.Splice{Age: everyTTL, MinTTL: ttl, Flags: wire.FlagRA | wire.FlagAD}); err != nil {
		return c.miss(r, q, k)
	}
	c.counters(q).hit(q.Shard, &f)
	if f.kind != failure {
		// Some clients take no notice of replies without AA, so hits have it, as they have from CoreDNS.
		r.SetAA()
	}
	if q.Followed() {
		r.LevelTTL(0, everyTTL)
	}
	c.explain(r, &f)
	return server.Done
}

// explain adds what is to be said about the reply by Extended DNS Errors (RFC 8914).
func (c *Cache) explain(r *server.Reply, f *found) {
	if !r.WantsEDE() {
		return
	}
	switch {
	case f.stale && wire.Flags(uint16(f.msg[2])<<8|uint16(f.msg[3])).RCode() == wire.RCodeNXDomain:
		r.AddEDE(server.EDEStaleNXDomain, "")
	case f.stale:
		r.AddEDE(server.EDEStaleAnswer, "")
	case f.kind == failure:
		r.AddEDE(server.EDECachedError, "")
	}
	if f.ede != nil {
		for i := range *f.ede {
			r.AddEDE((*f.ede)[i].Code, (*f.ede)[i].Text)
		}
	}
}

// Finish stores the reply to a query that had been a miss.
func (c *Cache) Finish(r *server.Reply, q *server.Query, state uint64) {
	k := c.store.key(q)
	if r.Dropped() || k.hash != state {
		return // another name by now: what the reply says is not about the one that was looked up
	}
	msg := r.Spliced()
	if msg == nil {
		// A failure of the server itself, such as too many queries waiting, says nothing about the name.
		if r.RCode() == wire.RCodeServFail && r.By() != "" && !errors.Is(r.Cause(), server.ErrOverload) {
			c.keepFailure(q, &k, wire.FlagQR|wire.FlagRD|wire.Flags(wire.RCodeServFail), r.EDE())
		}
		return
	}
	if j := c.keep(q, &k, msg, r.EDE(), nil); j.answers {
		r.LevelTTL(j.minTTL, j.ttl)
	}
}

// judged is what keep made of a reply.
type judged struct {
	kind kind
	// answers: it answers the question, with data or a denial, whether it may be kept or not.
	answers bool
	// ttl is what such a reply shows to clients, and minTTL what it would show at least.
	ttl, minTTL uint32
}

// keep judges a reply and stores it if it may. before is the entry that it refreshes, nil for none.
func (c *Cache) keep(q *server.Query, k *key, msg []byte, ede []server.ExtendedError, before *entry) judged {
	m, v := inspect(msg, k)
	if v.alien {
		c.counters(q).drops.Add(1)
	}
	if m == nil {
		return judged{}
	}
	if len(m.ede) > 0 {
		ede = m.ede
	}
	if v.kind == failure {
		if before == nil {
			c.keepFailure(q, k, m.h.Flags, ede)
		}
		return judged{kind: failure}
	}
	b := c.bounds(v.shown)
	j := judged{kind: v.kind, answers: true, ttl: b.level(v.ttl)}
	j.minTTL = min(uint32(b.MinTTL/time.Second), j.ttl)
	// A reply to a question that did not want recursion may be less than what others should get.
	if v.kind != other && j.ttl > 0 && q.RD() && !c.disabled(q, v.kind) {
		if packed := m.pack(); packed != nil {
			c.insert(q, k, &entry{msg: packed, ttl: j.ttl, kind: v.kind}, ede, before)
		}
	}
	return j
}

// keepFailure stores that nobody could answer. Without RD upstreams fail by policy, which must not fail those who ask with it.
func (c *Cache) keepFailure(q *server.Query, k *key, f wire.Flags, ede []server.ExtendedError) {
	ttl := uint32((c.opts.ServFail + time.Second - 1) / time.Second) // part of a second is remembered for one (RFC 9520 3.2)
	if ttl == 0 || !q.RD() || c.disabled(q, failure) {
		return
	}
	c.insert(q, k, &entry{msg: failed(k, f), ttl: ttl, kind: failure}, ede, nil)
}

func (c *Cache) insert(q *server.Query, k *key, e *entry, ede []server.ExtendedError, before *entry) {
	now := c.now(time.Now())
	e.stored, e.bits, e.qend = now, k.bits, uint16(wire.HeaderLen+len(k.name)+4)
	if len(ede) > 0 {
		own := append([]server.ExtendedError(nil), ede...)
		e.ede = &own
	}
	if n := c.store.insert(k, e, before, now); n > 0 {
		c.counters(q).evictions[e.kind.label()].Add(n)
	}
}

// clone is k with a name of its own.
func (k key) clone() key {
	k.name = bytes.Clone(k.name)
	return k
}
