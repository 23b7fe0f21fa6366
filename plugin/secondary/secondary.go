package secondary

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/plugin/internal/zone"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

const (
	// firstRetry is how long after a failure a zone that was never there is asked for again.
	firstRetry = 10 * time.Second
	// Refreshing and retrying is spread over these times, so that many zones of one primary do not all come at once.
	refreshJitter = 5 * time.Second
	retryJitter   = 2 * time.Second
	// patience is how long a primary may take to answer, or between two messages of a transfer.
	patience = 10 * time.Second
	// changePatience is patience for what changed: who takes longer, or goes on waiting behind a lone SOA record, is asked for the whole zone.
	changePatience = 3 * time.Second
	// longest is how long a whole transfer may take: at 1 Mbit/s that is 75 MB.
	longest = 10 * time.Minute
	// leastTimer bounds the timers of an SOA record from below, for the primary's sake.
	leastTimer = time.Second
)

// errCut is a transfer that ended in the middle.
var errCut = errors.New("the transfer ended before the zone was whole")

// Secondary answers for the zones of all secondary directives of a server block.
type Secondary struct {
	all     []Options
	table   zone.Table
	cares   atomic.Pointer[map[wire.Canonical]*care] // by zone
	log     *slog.Logger
	changed func(origin wire.Zone)

	running sync.WaitGroup
	mu      sync.Mutex // guards members, and is held by who changes cares
	members map[wire.Canonical]*member
}

// care is how one zone is looked after.
type care struct {
	from    []netip.AddrPort
	fall    zones.Fallthrough
	catalog bool
	members zones.Set     // which a catalog may name, with those below them; none means all
	now     chan struct{} // holds one: what comes while an update runs is worth one more
}

func newCare(o *Options) *care {
	return &care{o.From, o.Fallthrough, o.Catalog, o.Members, make(chan struct{}, 1)}
}

// New makes the handler. changed is called, if it is not nil, when another version of a zone is served. Run transfers the zones.
func New(all []Options, log *slog.Logger, changed func(origin wire.Zone)) *Secondary {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Secondary{all: all, log: log, changed: changed, members: map[wire.Canonical]*member{}}
	cares := map[wire.Canonical]*care{}
	for _, o := range all {
		for _, z := range o.Zones {
			h.table.Own(z, o.Fallthrough)
			cares[z.Name()] = newCare(&o)
		}
	}
	h.cares.Store(&cares)
	return h
}

// find gives how a zone is looked after, or nil.
func (h *Secondary) find(name wire.Canonical) *care { return (*h.cares.Load())[name] }

// set says how a zone is looked after; nil is not at all.
func (h *Secondary) set(name wire.Canonical, w *care) {
	m := maps.Clone(*h.cares.Load())
	if w == nil {
		delete(m, name)
	} else {
		m[name] = w
	}
	h.cares.Store(&m)
}

// Run transfers the zones and keeps them up to date until ctx ends.
func (h *Secondary) Run(ctx context.Context) error {
	for _, o := range h.all {
		for _, z := range o.Zones {
			h.running.Go(func() { h.keep(ctx, z, h.find(z.Name())) })
		}
	}
	h.running.Wait()
	return nil
}

// keep looks after one zone.
func (h *Secondary) keep(ctx context.Context, origin wire.Zone, w *care) {
	good := time.Now() // when a primary last said what is current; a zone that is here at the start came from another catalog
	failing := false
	for {
		err := h.update(ctx, origin, w.from)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err == nil:
			good = time.Now()
			if z, _ := h.table.Get(origin); w.catalog && z != nil {
				h.reconcile(ctx, origin, z)
			}
		case !failing:
			h.log.Error(fmt.Sprintf("zone %s could not be transferred", origin), "error", err)
		}
		failing = err != nil
		if !w.rest(ctx, h.next(ctx, origin, good, failing)) {
			return
		}
	}
}

// rest waits until the zone is due, or somebody told of a change, and says whether to go on. Notices are gathered for a moment: a forged one
// must not make us ask the primary without end.
func (w *care) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-w.now:
		timer.Reset(min(d, leastTimer))
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// serve puts a zone into the table, unless it is looked after no longer: a member of a catalog may have gone in the meantime.
func (h *Secondary) serve(ctx context.Context, origin wire.Zone, z *zone.Zone) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	h.table.Set(origin, z)
	return true
}

// next is how long to wait. A zone that no primary confirmed for its expire time is given up (RFC 1034 4.3.5).
func (h *Secondary) next(ctx context.Context, origin wire.Zone, good time.Time, failing bool) time.Duration {
	z, _ := h.table.Get(origin)
	if z == nil {
		return firstRetry
	}
	refresh, retry, expire := z.Timers()
	if !failing {
		return spread(refresh, refreshJitter)
	}
	if time.Since(good) >= time.Duration(expire)*time.Second {
		h.log.Error(fmt.Sprintf("zone %s has expired; its names are SERVFAIL", origin))
		h.serve(ctx, origin, nil)
		return firstRetry
	}
	return spread(retry, retryJitter)
}

// spread is a timer of an SOA record and something on top, at most as much again.
func spread(seconds uint32, jitter time.Duration) time.Duration {
	d := max(leastTimer, time.Duration(seconds)*time.Second)
	return d + rand.N(min(d, jitter))
}

// update asks the primaries in turn until one gives the zone, or says that the one served is current.
func (h *Secondary) update(ctx context.Context, origin wire.Zone, from []netip.AddrPort) error {
	old, _ := h.table.Get(origin)
	var errs []error
	for _, primary := range from {
		if old != nil {
			serial, err := serialAt(ctx, origin, primary)
			if err == nil && int32(serial-old.Serial()) <= 0 { // RFC 1982
				return nil
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", primary, err))
				continue
			}
		}
		z, err := transfer(ctx, origin, old, primary)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", primary, err))
			continue
		}
		if !h.serve(ctx, origin, z) {
			return ctx.Err()
		}
		h.log.Info(fmt.Sprintf("zone %s: serial %d with %d records from %s", origin, z.Serial(), z.Len(), primary))
		if h.changed != nil {
			h.changed(origin)
		}
		return nil
	}
	return errors.Join(errs...)
}

// serialAt asks a primary for the serial of a zone.
func serialAt(ctx context.Context, origin wire.Zone, primary netip.AddrPort) (uint32, error) {
	m := new(dns.Msg)
	m.SetQuestion(origin.String(), dns.TypeSOA)
	c := dns.Client{Timeout: patience}
	r, _, err := c.ExchangeContext(ctx, m, primary.String())
	if err != nil {
		return 0, err
	}
	for _, rr := range r.Answer {
		if soa, ok := rr.(*dns.SOA); ok {
			return soa.Serial, nil
		}
	}
	return 0, fmt.Errorf("no SOA record in its answer, which is %s", dns.RcodeToString[r.Rcode])
}

// transfer gets a zone from a primary: what changed, or all of it where there is nothing yet or the changes cannot be had.
func transfer(ctx context.Context, origin wire.Zone, old *zone.Zone, primary netip.AddrPort) (*zone.Zone, error) {
	if old != nil {
		if z, err := incremental(ctx, old, primary); err == nil {
			return z, nil
		}
	}
	m := new(dns.Msg)
	m.SetAxfr(origin.String())
	all, err := exchange(ctx, m, primary, patience, zone.NewList(zone.MaxRecords))
	if err != nil {
		return nil, err
	}
	if len(all) < 2 {
		return nil, errCut
	}
	return zone.New(origin, all)
}

// exchange gives the records of a transfer in their order, which all gathers. That they begin and end with the SOA record, miekg/dns checks. No
// message may let itself be waited for longer than between.
func exchange(ctx context.Context, m *dns.Msg, primary netip.AddrPort, between time.Duration, all *zone.List) ([]server.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	d := net.Dialer{Timeout: patience}
	conn, err := d.DialContext(ctx, "tcp", primary.String())
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	t := dns.Transfer{Conn: &dns.Conn{Conn: conn}, ReadTimeout: between, WriteTimeout: patience}
	messages, err := t.In(m, primary.String())
	if err != nil {
		conn.Close()
		return nil, err
	}
	for e := range messages {
		if err != nil {
			continue // until the other side sees that the connection is closed
		}
		if err = take(all, e); err != nil {
			conn.Close()
		}
	}
	return all.Records(), err
}

// take adds the records of one message of a transfer.
func take(all *zone.List, e *dns.Envelope) error {
	for _, rr := range e.RR {
		rec, err := records.From(rr)
		if err == nil {
			err = all.Add(rec)
		}
		if err != nil {
			return err
		}
	}
	return e.Error
}

// Answer answers for names in the zones. Until a zone has been transferred its names are SERVFAIL.
func (h *Secondary) Answer(r *server.Reply, q *server.Query) server.Verdict {
	return h.table.Answer(r, q)
}

// Notify has a zone looked at if one of its primary servers says that it changed.
func (h *Secondary) Notify(q *server.Query) bool {
	w := h.find(wire.Canonical(q.Name.Folded()))
	if w == nil {
		return false
	}
	client := q.Client.Addr().Unmap()
	for _, primary := range w.from {
		if primary.Addr().Unmap() == client {
			select {
			case w.now <- struct{}{}:
			default:
			}
			return true
		}
	}
	return false
}

// TransferZone gives what a transfer of a zone consists of (see transfer).
func (h *Secondary) TransferZone(origin wire.Zone) (all iter.Seq[server.Record], serial uint32, ok bool) {
	return h.table.TransferZone(origin)
}
