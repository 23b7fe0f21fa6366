// Package whoami is the whoami directive: it answers every question with who asked it, which helps to see what stands between a
// client and the server.
package whoami

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

// Handler answers with the client's address as an A or AAAA record and its port and transport as an SRV record, all in the
// Additional section. The Answer section stays empty, whatever is asked.
type Handler struct{}

// New makes the handler.
func New(Options) Handler { return Handler{} }

// The labels that the SRV record's owner begins with (RFC 2782).
const (
	overUDP = "\x04_udp"
	overTCP = "\x04_tcp"
)

// Answer answers every query.
func (Handler) Answer(r *server.Reply, q *server.Query) server.Verdict {
	r.SetAA()
	r.Addr(server.Additional, server.Owner, 0, q.Client.Addr().Unmap())
	label := overUDP
	if q.Transport != server.UDP {
		label = overTCP
	}
	if len(label)+q.Name.Len() <= wire.MaxName {
		owner := append(r.Scratch(wire.MaxName)[:0], label...)
		r.BeginName(server.Additional, append(owner, q.Name.Bytes()...), wire.TypeSRV, 0)
		r.PutUint32(0) // priority and weight
		r.PutUint16(q.Client.Port())
		r.PutName([]byte{0})
		r.End()
	}
	return server.Done
}
