// Package server is everything between the sockets and the answer: it receives queries, judges and parses them, walks the chain
// of handlers that their server block has, and seals and sends the reply. It also holds the contract that every handler keeps.
//
// # The contract
//
// A handler is asked on the goroutine that received the query, one of a few that serve all of them. So Answer never waits, takes no
// contended lock, and on its common path does not allocate. A handler that has to wait (for an upstream, a lookup of its own) says Wait
// and is then called again, through AwaitAnswer, on a goroutine of the query's own. Nothing in a chain runs twice for that.
//
// A *Query and a *Reply belong to one query. They and all that they point to are reused as soon as it is answered: a handler keeps
// neither, and copies whatever has to live on.
package server

import (
	"context"
	"time"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Verdict is what a handler did with a query. It is not an rcode, which is set on the Reply, and not an error, which is recorded
// there with Fault.
type Verdict uint8

const (
	// Pass means: not mine. Nothing was written; the next handler is asked. A query that every handler passes is SERVFAIL.
	Pass Verdict = iota
	// Done means: the reply is complete, its rcode included.
	Done
	// Follow means: the handler appended a CNAME and called Query.SetTarget. The server block for the target is found on the same
	// listener and its chain asked from its start, at most MaxFollows times for a query; then it is SERVFAIL with the CNAMEs found.
	Follow
	// Wait means: I have to wait. Only a Waiter says so; what it wrote to the reply before is kept. AwaitAnswer is called next.
	Wait
	// Drop means: no reply at all.
	Drop
)

// MaxFollows is how many CNAMEs one query follows through the chain. Real chains are one or two long; CoreDNS stops at 8 as well.
const MaxFollows = 8

// Handler answers queries, passes them on, or changes them for the handlers behind it. Its methods are called concurrently.
type Handler interface {
	// Answer is called once per query and per start of the chain. See the package comment for what it must not do.
	Answer(r *Reply, q *Query) Verdict
}

// Waiter is a Handler whose Answer may say Wait.
type Waiter interface {
	Handler
	// AwaitAnswer goes on where Answer said Wait, on a goroutine of the query's own, and may block until ctx ends. ctx ends when the
	// query is too old to be of use to its client, or the server stops. It says any verdict but Wait.
	AwaitAnswer(ctx context.Context, r *Reply, q *Query) Verdict
}

// Parker is a Waiter that needs no goroutine to wait: what it waits for tells it by a goroutine of the handler's own. Thousands of queries that
// wait for a server which does not reply then cost no stacks.
type Parker interface {
	Waiter
	// Park is called in place of AwaitAnswer, on the goroutine that asked Answer, and does not wait. It may begin something and leave; then it has
	// p.Resume called exactly once, from any goroutine, which may happen before it returns, and touches r and q no more after that. What
	// it sends should leave with p.Turn. It says false, with nothing begun, if AwaitAnswer is to be called after all. A panic counts as nothing begun.
	Park(p Parked, r *Reply, q *Query) bool
}

// Finisher is called once, when the reply to a query is final but not yet sealed, if a handler registered it with Reply.OnFinish; those
// of one query run in reverse order of their registration. state is the value given to OnFinish. It is the place to
// store a reply in a cache or to turn rewritten names back. It runs on whichever goroutine completed the reply and must not wait.
type Finisher interface {
	Finish(r *Reply, q *Query, state uint64)
}

// Observer sees each query of a server block once, after the last byte of its reply is known and before it is sent: metrics, log,
// errors. A query that is dropped is seen too, with Reply.Dropped true. It must not wait or change anything.
type Observer interface {
	Observe(r *Reply, q *Query)
}

// Notified is a Handler that has zones of other servers.
type Notified interface {
	Handler
	// Notify is called when somebody says that a zone changed (NOTIFY, RFC 1996); the zone is q.Name. It says whether it has the zone and
	// the sender is one that may say so. It must not wait.
	Notify(q *Query) bool
}

// Stage is one handler of a chain under the name of its directive, which metrics and logs show.
type Stage struct {
	Name    string
	Handler Handler
}

// Block is one zone of one server block on one listener: what a query that falls into the zone runs through.
// Blocks are immutable once they are given to a Server.
type Block struct {
	Zone      wire.Zone
	ZoneName  string            // presentation form, "cluster.local." or ".": the label of metrics
	Server    string            // the listener as CoreDNS writes it, "dns://:53": the label of metrics
	View      string            // name of the view, or empty
	Match     func(*Query) bool // nil, or whether the view takes the query; the first block of a zone that does is used
	Chain     []Stage           // in the order of asking; empty means REFUSED
	Observers []Observer        // in the order of calling
	Options   Options
	Providers []MetadataProvider
}

// Options are what directives set on the server itself for the queries of one block.
type Options struct {
	Shuffle   bool          // loadbalance: address records leave in random order
	MaxUDP    uint16        // bufsize: the largest UDP reply, whatever the client takes; 0 for no limit of our own
	PanicHard bool          // debug: a panic ends the process instead of becoming SERVFAIL
	NoEDE     bool          // no Extended DNS Errors in replies
	Reserved  bool          // not every client may ask for every name (acl, view): replies say nothing of names that were not asked for
	Patience  time.Duration // cancel: how long a query may wait; 0 for the usual 5 seconds
	AnyClass  bool          // something in the chain is for classes other than IN: they are asked as well, otherwise they are REFUSED
}

// MetadataProvider knows facts about a query by label, such as "kubernetes/client-namespace". They are computed when asked for, so a
// label that nobody uses costs nothing.
type MetadataProvider interface {
	// Metadata gives the value of a label, without its slashes and braces; known is false for a label of somebody else.
	Metadata(q *Query, label string) (value string, known bool)
}

// Metadata asks the block's providers for a label. It is "" when none knows it.
func (q *Query) Metadata(label string) string {
	if q.Block == nil {
		return ""
	}
	for _, p := range q.Block.Providers {
		if v, ok := p.Metadata(q, label); ok {
			return v
		}
	}
	return ""
}

// Runner is a part that has work of its own besides answering. Constructors start nothing: Run does it, and returns when ctx ends, with nil
// or the error that kept it from working.
type Runner interface {
	Run(ctx context.Context) error
}

// Readiness is a part that may not be able to answer yet. Once it said true it may say false again; the ready directive decides what that means.
type Readiness interface {
	Ready() bool
}
