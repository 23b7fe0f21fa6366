// Package loop finds out whether an upstream of forward leads back to this server: the loop directive. Each upstream is asked for a name that
// nobody can guess. If a query for that name arrives here, that upstream is cut off, and the rest goes on: names of the cluster do not depend
// on it. It is asked again and again, and used again as soon as it does not lead back any more.
package loop

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are what a loop directive says: nothing but where it stands.
type Options struct {
	Zones []string // of the server block, in presentation form
}

// Parse reads "loop".
func Parse(in *directive.Input) (Options, error) {
	if err := in.NoArgs(); err != nil {
		return Options{}, err
	}
	return Options{Zones: in.Zones}, in.NoBlock()
}

const (
	// probeTimeout is how long a reply to a probe is waited for. One that comes back here later still counts.
	probeTimeout = 2 * time.Second
	// checkPeriod is how often upstreams that lead elsewhere are asked: a loop can arise while serving, when somebody changes an upstream.
	checkPeriod = time.Minute
	// loopPeriod is how often those that lead back are asked: service is back that long after the loop is gone.
	loopPeriod = 5 * time.Second
	// startPeriod is how often those are asked that have not replied yet, for startTime: this server and its upstreams may be starting.
	startPeriod = 2 * time.Second
	startTime   = 30 * time.Second
	// silences is how many probes in a row without any sign end a loop: a single one may be a lost packet.
	silences = 3
	// lookPeriod is how often the list of upstreams is looked at.
	lookPeriod = time.Second
)

// Loop is the handler that recognises its own probes, and the part that sends them.
type Loop struct {
	zones []wire.Zone
	log   *slog.Logger
	seen  chan struct{} // something was seen; holds one

	mu        sync.RWMutex
	tokens    map[wire.Canonical]*token // those under way and each upstream's last
	forwarder server.Forwarder
}

// token is one probe.
type token struct {
	name wire.Canonical
	back bool // it arrived here
}

// New makes the handler. It knows no upstream until Watch, and starts nothing.
func New(o Options, log *slog.Logger) *Loop {
	l := &Loop{log: log, seen: make(chan struct{}, 1), tokens: map[wire.Canonical]*token{}}
	for _, z := range o.Zones {
		if c, err := wire.ParseCanonical(z); err == nil {
			l.zones = append(l.zones, wire.NewZone(c))
		}
	}
	return l
}

// Watch makes f the one whose upstreams are looked at, in place of the one before. nil is none. It may be called at any time.
func (l *Loop) Watch(f server.Forwarder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forwarder = f
}

// Answer recognises probes that came back, and ends them here. Other queries cost a look at their type.
func (l *Loop) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Type != wire.TypeHINFO {
		return server.Pass
	}
	if !l.recognise(q) {
		return server.Pass
	}
	r.SetRCode(wire.RCodeNXDomain)
	return server.Done
}

func (l *Loop) recognise(q *server.Query) bool {
	l.mu.RLock()
	_, mine := l.tokens[wire.Canonical(q.Name.Folded())]
	l.mu.RUnlock()
	if !mine {
		return false
	}
	l.mu.Lock()
	if t := l.tokens[wire.Canonical(q.Name.Folded())]; t != nil {
		t.back = true
	}
	l.mu.Unlock()
	select {
	case l.seen <- struct{}{}:
	default: // Run has not looked at the one before yet, and will see this one as well
	}
	return true
}

// watched is what is known of one upstream.
type watched struct {
	up      server.Upstream
	token   *token // of the last probe; nil before the first
	next    time.Time
	since   time.Time // known since
	probing bool
	replied bool // ever
	looping bool
	silent  int // probes in a row that neither came back nor were replied to
}

// result is what came of a probe.
type result struct {
	w   *watched
	err error
}

// Run probes until ctx ends. Then all upstreams are let go.
func (l *Loop) Run(ctx context.Context) error {
	state := map[server.Upstream]*watched{}
	results := make(chan result)
	var probes sync.WaitGroup
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	for {
		l.refresh(state)
		for _, w := range state {
			if !w.probing && !time.Now().Before(w.next) {
				l.begin(ctx, &probes, w, results)
			}
		}
		select {
		case <-ctx.Done():
			probes.Wait()
			for _, w := range state {
				l.forget(w)
			}
			return nil
		case <-look.C:
		case <-l.seen:
			for _, w := range state {
				if l.back(w) {
					w.silent = 0
					l.cut(w)
				}
			}
		case res := <-results:
			l.settle(res)
		}
	}
}

// settle draws the conclusion of a probe that has ended. One that came back has done so before it was replied to.
func (l *Loop) settle(res result) {
	w := res.w
	w.probing = false
	switch {
	case l.back(w):
		w.replied, w.silent = true, 0
		l.cut(w)
	case res.err == nil:
		w.replied, w.silent = true, 0
		l.use(w)
	default:
		l.log.Debug("loop: no reply to a probe", "upstream", w.up.String(), "cause", res.err)
		if w.silent++; w.silent >= silences {
			l.use(w)
		}
	}
	w.next = time.Now().Add(w.pause())
}

// pause is how long the next probe is waited for.
func (w *watched) pause() time.Duration {
	switch {
	case w.looping:
		return loopPeriod
	case !w.replied && time.Since(w.since) < startTime:
		return startPeriod
	}
	return checkPeriod
}

// refresh brings the state up to date with the list of upstreams.
func (l *Loop) refresh(state map[server.Upstream]*watched) {
	l.mu.RLock()
	f := l.forwarder
	l.mu.RUnlock()
	var ups []server.Upstream
	if f != nil {
		ups = f.Upstreams()
	}
	now := map[server.Upstream]bool{}
	for _, u := range ups {
		now[u] = true
		if state[u] == nil {
			state[u] = &watched{up: u, since: time.Now()}
		}
	}
	for u, w := range state {
		if !now[u] && !w.probing {
			l.forget(w)
			delete(state, u)
		}
	}
}

// forget lets an upstream go that is not watched any more.
func (l *Loop) forget(w *watched) {
	l.replace(w, nil)
	if w.looping {
		w.up.Suspend(false)
	}
}

// begin sends a probe with a new token. The one before is not recognised any more.
func (l *Loop) begin(ctx context.Context, probes *sync.WaitGroup, w *watched, results chan<- result) {
	t := &token{name: l.name(w.up.Zone())}
	if t.name == "" {
		w.next = time.Now().Add(checkPeriod) // no name of this block goes there
		return
	}
	l.replace(w, t)
	w.probing = true
	probes.Go(func() {
		limit, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		err := w.up.Probe(limit, server.Question{Name: []byte(t.name), Type: wire.TypeHINFO, Class: wire.ClassIN, RD: true})
		select {
		case results <- result{w, err}:
		case <-ctx.Done():
		}
	})
}

// replace makes t the token of w.
func (l *Loop) replace(w *watched, t *token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.token != nil {
		delete(l.tokens, w.token.name)
	}
	if w.token = t; t != nil {
		l.tokens[t.name] = t
	}
}

// back says whether the last probe of w arrived here.
func (l *Loop) back(w *watched) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return w.token != nil && w.token.back
}

// cut keeps queries from an upstream that leads back.
func (l *Loop) cut(w *watched) {
	if w.looping {
		return
	}
	w.looping = true
	w.up.Suspend(true)
	l.log.Error("loop: upstream leads back to this server and is not used until it does not", "upstream", w.up.String(), "zone", w.up.Zone().String())
}

// use lets queries go to an upstream again.
func (l *Loop) use(w *watched) {
	if !w.looping {
		return
	}
	w.looping = false
	w.up.Suspend(false)
	l.log.Info("loop: upstream does not lead back any more and is used again", "upstream", w.up.String(), "zone", w.up.Zone().String())
}

// name is a name that nobody can guess, of those that an upstream is asked for and that come to this handler if they come back. It is "" if
// there are none.
func (l *Loop) name(zone wire.Zone) wire.Canonical {
	var best wire.Canonical
	for _, z := range l.zones {
		under := z.Name()
		switch {
		case z.Contains(zone.Name()):
			under = zone.Name()
		case !zone.Contains(z.Name()):
			continue
		}
		if best == "" || len(under) < len(best) {
			best = under
		}
	}
	// CoreDNS's probes have two random labels as well, so that filters for them fit.
	const label = 16
	if best == "" || len(best)+2*(label+1) > wire.MaxName {
		return ""
	}
	var b [label]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	text := hex.EncodeToString(b[:])
	return wire.Canonical(string(rune(label))+text[:label]+string(rune(label))+text[label:]) + best
}
