// Package cancel is the directive of that name: it sets how long a query of a server block may wait.
package cancel

import (
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
)

// defaultTimeout is a hair more than resolvers wait before they give up (resolv.conf(5)).
const defaultTimeout = 5001 * time.Millisecond

// Options are those of the directive.
type Options struct {
	Timeout time.Duration
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{Timeout: defaultTimeout}
	if err := in.NoBlock(); err != nil {
		return o, err
	}
	switch len(in.Args) {
	case 0:
		return o, nil
	case 1:
		// An hour is more than anybody waits for a name.
		d, err := in.Args[0].Duration(time.Millisecond, time.Hour, 0)
		o.Timeout = d
		return o, err
	}
	return o, in.Args[1].Errorf("cancel: takes one time, found %q as well", in.Args[1].Text)
}

// Apply sets the limit of a block. The directive has no handler.
func (o Options) Apply(to *server.Options) { to.Patience = o.Timeout }
