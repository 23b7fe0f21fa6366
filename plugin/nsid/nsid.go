// Package nsid is the directive of that name: it tells clients that ask by EDNS which server answered (RFC 5001).
package nsid

import (
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
)

// option is the EDNS option code of NSID (RFC 5001 2.3).
const option = 3

// Options are those of the directive.
type Options struct {
	Data string // "" for the host's name
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{Data: strings.Join(in.Texts(), " ")}
	if len(o.Data) > 512 {
		return o, in.Args[0].Errorf("nsid: more than 512 bytes")
	}
	return o, in.NoBlock()
}

// NSID adds the identity to replies.
type NSID struct{ data string }

// New makes the handler; hostname is this machine's.
func New(o Options, hostname string) *NSID {
	if o.Data == "" {
		o.Data = hostname
	}
	return &NSID{o.Data}
}

// Answer passes every query on, and has the identity go with the reply if the client asked for it.
func (n *NSID) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if _, asked := q.EDNS.Option(option); asked && !q.Followed() {
		r.AddOption(option, n.data)
	}
	return server.Pass
}
