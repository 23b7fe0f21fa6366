// Package any is the directive of that name: it answers questions of type ANY with one small record (RFC 8482 4.2).
package any

import (
	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are nothing but that the directive is there.
type Options struct{}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	if err := in.NoArgs(); err != nil {
		return Options{}, err
	}
	return Options{}, in.NoBlock()
}

// Any answers questions of type ANY.
type Any struct{}

// New makes the handler.
func New(Options) Any { return Any{} }

// The record: its TTL is the number of the RFC, which is what it says too.
const (
	ttl  = 8482
	data = "\x0dANY obsoleted\x0cSee RFC 8482"
)

// Answer answers type ANY.
func (Any) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Type != wire.TypeANY {
		return server.Pass
	}
	r.Begin(server.Answer, server.Owner, wire.TypeHINFO, ttl)
	r.PutString(data)
	r.End()
	return server.Done
}
