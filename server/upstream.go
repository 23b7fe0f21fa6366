package server

import (
	"context"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Forwarder is a handler that asks other servers, as the loop directive sees it.
type Forwarder interface {
	// Upstreams are the servers that it asks now. One that stays in the list stays the same value.
	Upstreams() []Upstream
}

// Upstream is one server that queries are forwarded to. Its methods may be called at any time, also when it is no longer in use.
type Upstream interface {
	// String is its address, as logs and metrics have it.
	String() string
	// Zone is what names that it is asked for are in.
	Zone() wire.Zone
	// Probe asks it one question, once, whatever is known of its health and though it is suspended, and waits for a reply until ctx ends.
	// nil means that it replied, with whatever rcode.
	Probe(ctx context.Context, qu Question) error
	// Suspend keeps queries from it, or lets them go there again. A query that has no other upstream fails at once.
	Suspend(on bool)
	// State says whether queries go to it at the moment, and if they do not, or not gladly, why, in a few words for people.
	State() (s UpstreamState, why string)
}

// UpstreamState is what becomes of queries to an upstream.
type UpstreamState uint8

// The states of upstreams.
const (
	UpstreamUp        UpstreamState = iota
	UpstreamFailing                 // failed a moment ago: others are asked first, and it is probed
	UpstreamDown                    // probes fail too: it is asked when there is no other
	UpstreamSuspended               // by Suspend: it is not asked
)

// String is the state in a word.
func (s UpstreamState) String() string { return [...]string{"up", "failing", "down", "suspended"}[s] }
