package forward

import (
	"time"

	"github.com/clusterdns/clusterdns/server"
)

// attempt is one question sent to one upstream. It belongs to its exchange, and what it holds is guarded by that one's lock; while it is
// registered with a socket or connection, that one's lock guards where.
type attempt struct {
	x        *exchange
	up       *upstream
	over     proto
	plain    bool  // without EDNS
	followUp bool  // asks the same upstream again over TCP or without EDNS
	stripped bool  // a followUp without EDNS to one with it
	redials  uint8 // how often its connection broke and it was sent again
	sent     time.Time
	at       carrier // where it is registered
	id       uint16
	stream   *stream // for streams alone, which may move it

	msg  *message // the reply
	fit  fit
	err  error // or why there is none
	why  error // the same in words for whoever asked, of whatever came to nothing
	done bool  // its outcome is known, or nobody waits for it
}

// carrier is a socket or connection that an attempt is registered with. Its lock may be taken under that of the attempt's exchange, never the
// other way round.
type carrier interface {
	// giveUp takes the attempt out, and says false if it is out already: then its finish has been called or will be.
	giveUp(a *attempt) bool
}

// finish tells the exchange of a reply or failure. Whoever has taken the attempt out of its carrier calls it once, without a lock. It goes on with all queries
// that wait for this reply, on the caller's goroutine; t is that one's turn, or nil.
func (a *attempt) finish(m *message, f fit, err error, t *server.Turn) { a.x.event(a, m, f, err, t) }

// attempt makes an attempt that is not sent yet. The caller has made sure that there is room.
func (x *exchange) attempt(u *upstream, over proto, now time.Time) *attempt {
	if x.n == len(x.atts) {
		x.atts = append(x.atts, new(attempt))
	}
	a := x.atts[x.n]
	x.n++
	*a = attempt{x: x, up: u, over: over, sent: now, plain: u.plain.Load() > now.UnixNano()}
	return a
}
