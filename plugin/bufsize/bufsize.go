// Package bufsize is the directive of that name: it limits how long replies over UDP are, whatever the client says it takes.
package bufsize

import (
	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
)

// defaultSize never fragments where an IPv6 packet of the least MTU gets through (DNS flag day 2020).
const defaultSize = 1232

// Options are those of the directive.
type Options struct {
	Size uint16 // bytes
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{Size: defaultSize}
	if err := in.NoBlock(); err != nil {
		return o, err
	}
	switch len(in.Args) {
	case 0:
		return o, nil
	case 1:
		n, err := in.Args[0].Int(512, 4096)
		o.Size = uint16(n)
		return o, err
	}
	return o, in.Args[1].Errorf("bufsize: takes one size, found %q as well", in.Args[1].Text)
}

// Apply sets the limit of a block. The directive has no handler.
func (o Options) Apply(to *server.Options) { to.MaxUDP = o.Size }
