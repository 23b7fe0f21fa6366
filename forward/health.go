package forward

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/server/wire"
)

// probeTimeout is how long a probe is waited for. An upstream that takes longer for the root's NS, which it has in memory, helps no client.
const probeTimeout = time.Second

// faultPause is the least time between two lines about one upstream and protocol, should it come and go.
const faultPause = 10 * time.Second

var errSilent = errors.New("no reply in time")

// trouble notes that an upstream failed or has been silent for longer than it usually takes. It is asked after the others from now on, and
// probed at once and until it replies again.
func (u *upstream) trouble() {
	if u.group.opts.MaxFails == 0 {
		return
	}
	u.ailing.Store(true)
	u.health.Lock()
	defer u.health.Unlock()
	if u.health.probing || u.gone.Load() || !u.group.life.attend(u.probe) {
		return
	}
	u.health.probing = true
	u.health.since = time.Now()
}

// probe asks until the upstream replies to anybody or is dropped.
func (u *upstream) probe(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		if !u.sick() {
			return
		}
		over := u.group.over(u, false)
		took, err := u.group.probe(ctx, u, over)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			u.heard(over, took, time.Now())
			pause.Reset(0)
			continue
		}
		u.probeFailed(over, err)
		pause.Reset(u.group.opts.HealthCheck.Interval)
	}
}

// sick says whether to probe on. When it says no, the next sign of trouble begins a probe of its own: both are decided under the lock, or
// an upstream could be left ailing with nobody asking it.
func (u *upstream) sick() bool {
	u.health.Lock()
	defer u.health.Unlock()
	u.health.probing = u.ailing.Load() && !u.gone.Load()
	return u.health.probing
}

func (u *upstream) probeFailed(over proto, err error) {
	u.metrics.probes.Inc()
	u.health.Lock()
	defer u.health.Unlock()
	if !u.ailing.Load() {
		return // it has replied to a query meanwhile: this is not the first failure of the next time
	}
	u.health.fails++
	u.health.cause = err
	if u.health.fails == u.group.opts.MaxFails && !u.gone.Load() {
		u.down.Store(true)
		u.log.Warn("upstream is down", "proto", over.String(), "probes", u.health.fails, "cause", err)
	}
}

// recovered ends a time of trouble.
func (u *upstream) recovered() {
	u.health.Lock()
	defer u.health.Unlock()
	if !u.ailing.Load() {
		return
	}
	u.ailing.Store(false)
	u.health.fails, u.health.cause = 0, nil
	if u.down.Swap(false) {
		u.log.Info("upstream is up again", "after", time.Since(u.health.since).Round(time.Millisecond).String())
	}
}

// probe asks one upstream the health check's question.
func (g *group) probe(ctx context.Context, u *upstream, over proto) (time.Duration, error) {
	flags := wire.FlagRD
	if g.opts.HealthCheck.NoRec {
		flags = 0
	}
	sent := time.Now()
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := u.once(limited, over, func(q *question) {
		q.set([]byte(g.opts.HealthCheck.Domain), wire.TypeNS, wire.ClassIN, flags, false, nil)
	})
	if limited.Err() != nil && ctx.Err() == nil && err != nil {
		err = errSilent
	}
	return time.Since(sent), err
}

// faults tells the log of an upstream's failures: one line when a protocol begins to fail, one when it works again, whatever the number
// of queries.
type faults struct {
	any   atomic.Bool // whether a protocol is bad
	mu    sync.Mutex
	state [protos]fault
}

type fault struct {
	bad  bool
	said bool
	last time.Time
}

// failed notes a failed attempt.
func (f *faults) failed(u *upstream, p proto, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.any.Store(true)
	s := &f.state[p]
	now := time.Now()
	if s.bad || (!s.last.IsZero() && now.Sub(s.last) < faultPause) {
		s.bad = true
		return
	}
	*s = fault{bad: true, said: true, last: now}
	u.log.Warn("upstream fails", "proto", p.String(), "cause", cause)
}

// has says whether a protocol fails.
func (f *faults) has(p proto) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state[p].bad
}

// cleared notes a reply.
func (f *faults) cleared(u *upstream, p proto) {
	if !f.any.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.state[p]
	if !s.bad {
		return
	}
	if s.said {
		u.log.Info("upstream works", "proto", p.String())
	}
	s.bad, s.said = false, false
	f.any.Store(f.state[overUDP].bad || f.state[overTCP].bad || f.state[overTLS].bad)
}

// unreachable is why a query got no answer.
type unreachable struct {
	attempts int
	last     error
	others   []error // of other upstreams
}

func (e *unreachable) Error() string {
	switch {
	case e.last == nil:
		return "no upstream server"
	case e.attempts == 0:
		return e.last.Error()
	}
	s := fmt.Sprintf("no upstream answered in %d attempts: %v", e.attempts, e.last)
	for _, err := range e.others {
		s += "; " + err.Error()
	}
	return s
}

func (e *unreachable) Unwrap() error { return e.last }
