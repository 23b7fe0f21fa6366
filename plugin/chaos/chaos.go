// Package chaos is the directive of that name: it answers the TXT questions of class CH by which servers tell who they are.
package chaos

import (
	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are those of the directive.
type Options struct {
	Version string // "" for this program's own
	Authors []string
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	if err := in.NoBlock(); err != nil {
		return o, err
	}
	for i, a := range in.Args {
		switch {
		case len(a.Text) > 255:
			return o, a.Errorf("chaos: a text of more than 255 bytes does not fit into a TXT record")
		case i == 0:
			o.Version = a.Text
		default:
			o.Authors = append(o.Authors, a.Text)
		}
	}
	return o, nil
}

// Chaos answers what a server is asked about itself (RFC 4892).
type Chaos struct {
	texts map[wire.Canonical][]string
}

// New makes the handler. version is told where the directive names none; hostname is this machine's.
func New(o Options, version, hostname string) *Chaos {
	if o.Version != "" {
		version = o.Version
	}
	v, h := []string{version}, []string{hostname}
	return &Chaos{map[wire.Canonical][]string{
		wire.MustCanonical("version.bind"):   v,
		wire.MustCanonical("version.server"): v,
		wire.MustCanonical("authors.bind"):   o.Authors,
		wire.MustCanonical("hostname.bind"):  h,
		wire.MustCanonical("id.server"):      h,
	}}
}

// Answer answers TXT questions of class CH for the five names.
func (c *Chaos) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Class != wire.ClassCH || q.Type != wire.TypeTXT {
		return server.Pass
	}
	texts, ok := c.texts[wire.Canonical(q.Name.Folded())]
	if !ok {
		return server.Pass
	}
	for _, t := range texts {
		r.TXT(server.Answer, server.Owner, 0, t)
	}
	return server.Done
}
