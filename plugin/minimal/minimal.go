// Package minimal is the directive of that name: it takes the records away that a successful answer does not need.
package minimal

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

// Minimal shortens replies.
type Minimal struct{}

// New makes the handler.
func New(Options) Minimal { return Minimal{} }

// Answer passes every query on.
func (m Minimal) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if !q.Followed() {
		r.OnFinish(m, 0)
	}
	return server.Pass
}

// Finish leaves the answer of a NOERROR reply that has one. Negative answers keep their SOA, and referrals all they are made of.
func (Minimal) Finish(r *server.Reply, _ *server.Query, _ uint64) {
	if r.RCode() == wire.RCodeNoError && r.Count(server.Answer) > 0 {
		r.AnswerOnly()
	}
}
