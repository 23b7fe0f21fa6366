package forward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterdns/clusterdns/server/wire"
)

const (
	// overall is the longest that a query waits. Clients give up on a server after 5 seconds (resolv.conf(5)), and SERVFAIL has to reach them
	// before that.
	overall = 4 * time.Second
	// overallMost is how far a longer read_timeout may stretch it: the client's 5 seconds less the way back.
	overallMost = 4800 * time.Millisecond
	// maxAttempts bounds the attempts of one query, second ones over TCP included: 15 upstreams twice are 30.
	maxAttempts = 32
)

// attempt is one question sent to one upstream. It belongs to its exchange; while it is registered with a socket or connection, that
// one's lock guards what finish sets.
type attempt struct {
	x        *exchange
	up       *upstream
	over     proto
	plain    bool  // without EDNS
	followUp bool  // asks the same upstream again over TCP or without EDNS
	redials  uint8 // how often its connection broke and it was sent again
	sent     time.Time
	at       carrier // where it is registered
	id       uint16
	stream   *stream // for streams alone, which may move it

	msg  *message // the reply
	fit  fit
	err  error // or why there is none
	done bool  // for the exchange alone: its event was received
}

// carrier is a socket or connection that an attempt is registered with.
type carrier interface {
	// giveUp takes the attempt out, and says false if it is finished already. Afterwards no event of it can come.
	giveUp(a *attempt) bool
}

// finish tells the exchange of a reply or failure. It is called once for an attempt, under the lock of its carrier, and never blocks.
func (a *attempt) finish(m *message, f fit, err error) {
	a.msg, a.fit, a.err = m, f, err
	a.x.events <- a
}

// exchange is one question on its way to the upstreams of a group and the reply on its way back. All its methods run on the goroutine
// that asks.
type exchange struct {
	group    *group
	question question
	out      []byte // the datagram being sent
	events   chan *attempt
	timer    *time.Timer
	atts     [maxAttempts]attempt
	progress
}

// progress is what an exchange forgets when it is recycled.
type progress struct {
	n       int                     // of atts
	ups     [maxUpstreams]*upstream // in the order of asking
	nups    int
	next    int // attempts begun, follow-ups not counted
	budget  int
	stream  bool // ask over TCP first
	pending int

	until    time.Time // when to stop waiting
	deadline time.Time // when to stop whatever happens
	again    time.Time // when the next attempt is due; zero if there is none
	last     error
	best     *message // a reply to fall back on
	partial  bool     // best is cut off
	key      key
	waiters  []chan *result
}

// begin takes an exchange. It goes back with end.
func (g *group) begin() *exchange {
	x, _ := g.exchanges.Get().(*exchange)
	if x == nil {
		x = &exchange{group: g, events: make(chan *attempt, maxAttempts), timer: time.NewTimer(time.Hour)}
	}
	return x
}

// end gives up what is still registered and recycles everything.
func (g *group) end(x *exchange) {
	x.timer.Stop()
	for i := range x.n {
		if a := &x.atts[i]; !a.done && a.at != nil {
			a.at.giveUp(a)
		}
	}
	for len(x.events) > 0 {
		<-x.events
	}
	for i := range x.n {
		g.recycle(x.atts[i].msg)
		x.atts[i] = attempt{}
	}
	g.recycle(x.best)
	x.progress = progress{}
	g.exchanges.Put(x)
}

// attempt makes an attempt that is not sent yet. The caller has made sure that there is room.
func (x *exchange) attempt(u *upstream, over proto, now time.Time) *attempt {
	a := &x.atts[x.n]
	x.n++
	*a = attempt{x: x, up: u, over: over, sent: now, plain: u.plain.Load() > now.UnixNano()}
	return a
}

// run asks until there is a reply, and gives it, or the reason why there is none. The reply is the caller's to recycle.
func (x *exchange) run(ctx context.Context, begun time.Time) (*message, error) {
	o := &x.group.opts
	now := time.Now()
	x.deadline = begun.Add(min(max(overall, o.ReadTimeout), overallMost))
	x.launch(now)
	for x.pending > 0 && now.Before(x.deadline) {
		wake := earlier(x.until, x.deadline)
		if !x.again.IsZero() {
			wake = earlier(wake, x.again)
		}
		x.timer.Reset(wake.Sub(now))
		select {
		case a := <-x.events:
			x.pending--
			a.done = true
			now = time.Now()
			if x.settle(a, now) {
				m := a.msg
				a.msg = nil
				return m, nil
			}
		case <-x.timer.C:
			now = time.Now()
			if !x.again.IsZero() && !now.Before(x.again) {
				x.overdue(now)
			} else if !now.Before(x.until) {
				x.silent()
				return x.fallback()
			}
		case <-ctx.Done():
			x.last = ctx.Err()
			return x.fallback()
		}
	}
	if x.pending > 0 {
		x.silent()
	}
	return x.fallback()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// fallback is what to do when no more replies will come.
func (x *exchange) fallback() (*message, error) {
	if x.best == nil {
		return nil, &unreachable{x.next, x.last}
	}
	m := x.best
	x.best = nil
	return m, nil
}

// silent notes the upstreams that have not replied until the end.
func (x *exchange) silent() {
	for i := range x.n {
		if a := &x.atts[i]; !a.done {
			x.last = fmt.Errorf("%s over %s: %w", a.up.to, a.over, errSilent)
			if a.up.repliedSince(a.sent) {
				continue
			}
			a.up.trouble()
			if x.group.opts.MaxFails == 0 || a.over != x.group.over(a.up, false) {
				a.up.faults.failed(a.up, a.over, errSilent)
			} // else a probe by the same protocol finds out whether it is the upstream or the name
		}
	}
}

// overdue begins the next attempt while the one before may still be answered.
func (x *exchange) overdue(now time.Time) {
	for i := range x.n {
		if a := &x.atts[i]; !a.done && !a.up.repliedSince(a.sent) {
			a.up.trouble()
		}
	}
	x.stream = false // a client that came over TCP takes an answer that came by UDP
	x.launch(now)
}

// launch begins the next attempt that can be sent, if there is one left.
func (x *exchange) launch(now time.Time) {
	x.again = time.Time{}
	for x.next < x.budget && x.n < maxAttempts {
		u, round := x.ups[x.next%x.nups], x.next/x.nups
		x.next++
		if x.next > 1 {
			u.metrics.repeats.Inc()
		}
		a := x.attempt(u, x.group.over(u, x.stream), now)
		if x.dispatch(a, round, now) {
			return
		}
	}
}

// dispatch sends a and sets when the next attempt is due. A second round through the upstreams is twice as patient, and so on.
func (x *exchange) dispatch(a *attempt, round int, now time.Time) bool {
	if err := a.up.send(a); err != nil {
		a.done = true
		x.failed(a, err)
		return false
	}
	x.pending++
	x.until = now.Add(x.group.opts.ReadTimeout)
	if x.next < x.budget {
		x.again = now.Add(min(a.up.patience(a.over)<<min(round, 4), patienceCeiling))
	}
	return true
}

// failed notes that an attempt came to nothing.
func (x *exchange) failed(a *attempt, err error) {
	x.last = fmt.Errorf("%s over %s: %w", a.up.to, a.over, err)
	x.stream = false
	if errors.Is(err, errCrowded) {
		return // our own bound, not the upstream's fault
	}
	a.up.faults.failed(a.up, a.over, err)
	a.up.trouble()
}

// settle looks at the outcome of an attempt and says whether it is the answer. If not, it sees to what comes next.
func (x *exchange) settle(a *attempt, now time.Time) bool {
	if a.err != nil {
		x.failed(a, a.err)
		x.goOn(a, now)
		return false
	}
	took := now.Sub(a.sent)
	q, rcode := judge(a.msg.b)
	a.up.metrics.replied(rcode, took)
	a.up.heard(a.over, took, now)
	if a.plain && a.followUp && q != refusesEx {
		a.up.plain.Store(now.Add(plainFor).UnixNano()) // so it was EDNS that it refused
	}
	switch {
	case q == refusesEx && !a.plain:
		x.repeat(a, a.over, true, now)
		return false
	case a.fit == bare:
		x.last = fmt.Errorf("%s over %s: %s without the question", a.up.to, a.over, rcode)
		x.goOn(a, now)
		return false
	case a.fit == fitsCase && a.over == overUDP:
		x.repeat(a, overTCP, a.plain, now)
		return false
	case q == whole || q == refusesEx:
		return x.accept(a, rcode, now)
	}
	return x.incomplete(a, q, now)
}

// accept says whether a whole reply is the answer: it is, unless failover wants another upstream's and one is there to ask or is asked.
func (x *exchange) accept(a *attempt, rcode wire.RCode, now time.Time) bool {
	more := x.next < min(x.budget, x.nups)
	if !x.group.failover.has(rcode) || !more && x.pending == 0 {
		return true
	}
	x.keep(a, false)
	if more {
		x.goOn(a, now)
	}
	return false
}

// incomplete asks over TCP for a reply that does not say all. What came in its place over TCP is of no use, nor is what nobody can read.
func (x *exchange) incomplete(a *attempt, q quality, now time.Time) bool {
	switch {
	case a.over == overUDP:
		switch q {
		case cut:
			x.keep(a, true)
		case stops512:
			x.keep(a, false)
		}
		x.repeat(a, overTCP, a.plain, now)
		return false
	case q == stops512:
		return true // that long by chance: nothing cuts a stream
	}
	x.failed(a, fmt.Errorf("malformed reply"))
	x.goOn(a, now)
	return false
}

// keep remembers a reply to fall back on. A whole one is better than one that is cut off.
func (x *exchange) keep(a *attempt, partial bool) {
	if x.best != nil && partial && !x.partial {
		return
	}
	x.group.recycle(x.best)
	x.best, x.partial = a.msg, partial
	a.msg = nil
}

// repeat asks the same upstream once more, in another way.
func (x *exchange) repeat(a *attempt, over proto, plain bool, now time.Time) {
	if x.n == maxAttempts {
		return
	}
	b := x.attempt(a.up, over, now)
	b.followUp, b.plain = true, plain
	if !x.dispatch(b, 0, now) {
		x.goOn(b, now)
	}
}

// goOn begins the next attempt at once if nothing else is under way that began later.
func (x *exchange) goOn(a *attempt, now time.Time) {
	for i := range x.n {
		if b := &x.atts[i]; !b.done && (b.sent.After(a.sent) || b.followUp) {
			return
		}
	}
	x.launch(now)
}

// rcodeSet is a set of response codes.
type rcodeSet uint32

func newRCodeSet(codes []wire.RCode) (s rcodeSet) {
	for _, c := range codes {
		s |= 1 << (c & 31)
	}
	return s
}

func (s rcodeSet) has(c wire.RCode) bool { return c < 32 && s>>c&1 == 1 }
