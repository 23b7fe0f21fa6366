package forward

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/clusterdns/clusterdns/server"
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
	// moreReasons is how many upstreams besides the last one are named where none answered: what clients are told has to fit into a datagram.
	moreReasons = 2
)

// exchange is one question on its way to the upstreams of a group and the reply on its way back. It has no goroutine: it is moved on by the one that
// asks, by those that read from upstreams, and by its timer, each of which holds its lock. Whoever decides it lands it.
type exchange struct {
	group    *group
	mu       sync.Mutex
	question question // does not change while an attempt is registered
	atts     []*attempt
	timer    *time.Timer
	armed    time.Time    // when the timer fires; zero if it does not. It is not stopped for less: most replies come long before
	turn     *server.Turn // of the goroutine that has the lock
	gen      uint64       // odd while somebody uses it, and never again the same
	leaving  int          // what has still to come or be done before it can be used again, once it is decided
	waiters  []call       // guarded by the lock of its flight shard once that has it
	key      key
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
	once    bool // a probe: the first outcome is the result
	pending int

	until    time.Time // when to stop waiting
	deadline time.Time // when to stop whatever happens
	again    time.Time // when the next attempt is due; zero if there is none
	last     error
	lastOf   *upstream // that last speaks of; nil for none
	best     *message  // a reply to fall back on
	partial  bool      // best is cut off
	from     string    // the upstream that best, or the answer, is of

	asking  bool // open has been called
	decided bool // there is a result, and nothing more is to happen
	msg     *message
	result  result
}

// start begins to ask. begun is when the query came.
func (x *exchange) start(begun time.Time, t *server.Turn) {
	t, own := x.group.turnOr(t)
	x.mu.Lock()
	x.turn = t
	x.open(begun)
	x.moved(t, own)
}

// turnOr gives t, or a turn for the caller alone, which it ends.
func (g *group) turnOr(t *server.Turn) (_ *server.Turn, own bool) {
	if t != nil {
		return t, false
	}
	if t, ok := g.turns.Get().(*server.Turn); ok {
		return t, true
	}
	return server.NewTurn(), true
}

// moved unlocks x, which is decided now or goes on, and ends t if it is the caller's own.
func (x *exchange) moved(t *server.Turn, own bool) {
	g, over := x.group, x.decided
	x.turn = nil
	x.mu.Unlock()
	if over {
		x.land(t)
	}
	if own {
		t.End()
		g.turns.Put(t)
	}
}

// open is start under the lock.
func (x *exchange) open(begun time.Time) {
	defer x.rescue()
	if err := x.group.order(x); err != nil {
		x.decide(nil, err)
		return
	}
	now := time.Now()
	o := &x.group.opts
	x.asking = true
	x.deadline = begun.Add(min(max(overall, o.ReadTimeout), overallMost))
	if !now.Before(x.deadline) { // no upstream could reply in time, and none is to be blamed for it
		x.decide(nil, &unreachable{last: errSilent})
		return
	}
	x.launch(now)
	x.proceed(now)
}

// event takes the outcome of an attempt.
func (x *exchange) event(a *attempt, m *message, f fit, err error, t *server.Turn) {
	x.mu.Lock()
	a.done = true
	if x.decided { // it was on its way by then
		x.group.recycle(m)
		x.mu.Unlock()
		x.release()
		return
	}
	t, own := x.group.turnOr(t)
	a.msg, a.fit, a.err = m, f, err
	x.turn = t
	x.settled(a)
	x.moved(t, own)
}

// settled is event under the lock.
func (x *exchange) settled(a *attempt) {
	defer x.rescue()
	x.pending--
	if x.once {
		x.decide(nil, a.err)
		return
	}
	now := time.Now()
	if x.settle(a, now) {
		m := a.msg
		a.msg, x.from = nil, a.up.to
		x.decide(m, nil)
		return
	}
	x.proceed(now)
}

// elapsed is called by the timer.
func (x *exchange) elapsed() {
	x.mu.Lock()
	x.armed = time.Time{}
	if !x.asking || x.decided {
		x.mu.Unlock()
		return
	}
	t, own := x.group.turnOr(nil)
	x.turn = t
	x.onTime(time.Now())
	x.moved(t, own)
}

// onTime does what is due, if anything is: the timer may have been set for what the exchange did before.
func (x *exchange) onTime(now time.Time) {
	defer x.rescue()
	switch {
	case !x.again.IsZero() && !now.Before(x.again):
		x.overdue(now)
	case !now.Before(x.until):
		x.silent()
		x.fallback()
		return
	}
	x.proceed(now)
}

// proceed sees to it that the exchange goes on, or ends it when no more replies will come.
func (x *exchange) proceed(now time.Time) {
	switch {
	case x.decided:
		return
	case x.pending == 0:
		x.fallback()
		return
	case !now.Before(x.deadline):
		x.silent()
		x.fallback()
		return
	}
	wake := earlier(x.until, x.deadline)
	if !x.again.IsZero() {
		wake = earlier(wake, x.again)
	}
	if !x.armed.IsZero() && !x.armed.After(wake) {
		return // it will look again then
	}
	x.armed = wake
	if x.timer == nil {
		x.timer = time.AfterFunc(wake.Sub(now), x.elapsed)
	} else {
		x.timer.Reset(wake.Sub(now))
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// decide ends the exchange with a reply or the reason why there is none. What is still registered is given up.
func (x *exchange) decide(m *message, err error) {
	if x.decided {
		return
	}
	x.decided, x.msg, x.result = true, m, result{err: err}
	if m != nil {
		x.result = result{msg: m.b, partial: x.partial && m.b[2]&byte(wire.FlagTC>>8) != 0, from: x.from}
	}
	x.leaving = 1 // land
	for _, a := range x.atts[:x.n] {
		if !a.done && a.at != nil && !a.at.giveUp(a) {
			x.leaving++ // its outcome is on the way
		}
		a.done = true
	}
}

// rescue makes a panic under the lock the result.
func (x *exchange) rescue() {
	if p := recover(); p != nil {
		x.decide(nil, errPanic)
		x.result = result{err: errPanic, panicked: &caught{p, debug.Stack()}}
	}
}

// abandon ends the use of x that gen names, if it is not over, unless others than c, for whom it was begun, wait for it too.
func (x *exchange) abandon(gen uint64, c call, err error) {
	x.mu.Lock()
	if x.gen != gen || x.decided {
		x.mu.Unlock()
		return
	}
	if x.group.flights.leave(x) {
		x.mu.Unlock()
		c.result <- result{err: &unreachable{last: err}}
		return
	}
	x.last, x.lastOf = err, nil
	x.fallback()
	x.moved(x.group.turnOr(nil))
}

// fallback ends the exchange when no more replies will come.
func (x *exchange) fallback() {
	m := x.best
	if m == nil {
		x.decide(nil, &unreachable{x.next, x.last, x.others()})
		return
	}
	x.best = nil
	x.decide(m, nil)
}

// because notes why an attempt came to nothing.
func (x *exchange) because(a *attempt, err error) {
	a.why = fmt.Errorf("%s over %s: %w", a.up.to, a.over, err)
	x.last, x.lastOf = a.why, a.up
}

// others are why the upstreams that x.last does not speak of have not answered, the latest reason of each.
func (x *exchange) others() []error {
	said := []*upstream{x.lastOf}
	var out []error
	for i := x.n - 1; i >= 0 && len(out) < moreReasons; i-- {
		if a := x.atts[i]; a.why != nil && !slices.Contains(said, a.up) {
			said, out = append(said, a.up), append(out, a.why)
		}
	}
	return out
}

// silent notes the upstreams that have not replied until the end.
func (x *exchange) silent() {
	for _, a := range x.atts[:x.n] {
		if !a.done {
			x.because(a, errSilent)
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
	for _, a := range x.atts[:x.n] {
		if !a.done && !a.up.repliedSince(a.sent) {
			a.up.trouble()
		}
	}
	if x.best != nil && x.partial && x.next >= x.nups && x.blocked() {
		x.fallback()
		return
	}
	x.stream = false // a client that came over TCP takes an answer that came by UDP
	x.launch(now)
}

// blocked says whether all that is under way is by TCP, to upstreams that it did not come through to the last time.
func (x *exchange) blocked() bool {
	for _, a := range x.atts[:x.n] {
		if !a.done && !(a.over == overTCP && a.up.faults.has(overTCP)) {
			return false
		}
	}
	return true
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

// dispatch sends a and sets when the next attempt is due. A second round through the upstreams is twice as patient, and so on, as far as read_timeout goes.
func (x *exchange) dispatch(a *attempt, round int, now time.Time) bool {
	if err := a.up.send(a, x.turn); err != nil {
		a.done = true
		x.failed(a, err)
		return false
	}
	x.pending++
	x.until = now.Add(x.group.opts.ReadTimeout)
	if x.next < x.budget {
		x.again = now.Add(min(a.up.patience(a.over)<<min(round, 4), patienceCeiling, x.group.opts.ReadTimeout))
	}
	return true
}

// failed notes that an attempt came to nothing.
func (x *exchange) failed(a *attempt, err error) {
	x.because(a, err)
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
	if a.stripped && q != refusesEx {
		a.up.plain.Store(now.Add(plainFor).UnixNano()) // so it was EDNS that it refused
	}
	switch {
	case q == refusesEx && !a.plain:
		x.repeat(a, a.over, true, now)
		return false
	case a.fit == bare:
		x.because(a, fmt.Errorf("%s without the question", rcode))
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
	x.best, x.partial, x.from = a.msg, partial, a.up.to
	a.msg = nil
}

// repeat asks the same upstream once more, in another way.
func (x *exchange) repeat(a *attempt, over proto, plain bool, now time.Time) {
	if x.n == maxAttempts {
		return
	}
	b := x.attempt(a.up, over, now)
	b.followUp, b.plain, b.stripped = true, plain, plain && !a.plain
	if !x.dispatch(b, 0, now) {
		x.goOn(b, now)
	}
}

// goOn begins the next attempt at once if nothing else is under way that began later.
func (x *exchange) goOn(a *attempt, now time.Time) {
	for _, b := range x.atts[:x.n] {
		if !b.done && (b.sent.After(a.sent) || b.followUp) {
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
