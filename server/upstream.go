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
}
