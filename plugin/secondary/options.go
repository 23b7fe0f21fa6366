// Package secondary is the directive of that name: it answers authoritatively from zones that it transfers from other servers (AXFR, RFC
// 5936; IXFR, RFC 1995) and keeps up to date by the timers of their SOA records (RFC 1034 4.3.5).
package secondary

import (
	"net/netip"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
)

// Options is one secondary directive.
type Options struct {
	Zones       zones.Set
	From        []netip.AddrPort // primary servers, asked in this order
	Catalog     bool             // the zones are catalogs of others, which are transferred as well
	Members     zones.Set        // a catalog may name these zones and those below them; none means all
	Fallthrough zones.Fallthrough
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "transfer", Usage: "from ADDRESS...", Min: 2, Max: directive.Many, Repeat: true, Help: "servers that the zones are transferred from; the next is asked when one does not work", Set: setTransfer},
		{Name: "catalog", Usage: "[ZONE...]", Max: directive.Many, Repeat: true, Help: "takes up the zones that the transferred ones name (RFC 9432): all of them, or those that are a ZONE or below one",
			Set: setCatalog},
		{Name: "fallthrough", Usage: "[ZONE...]", Max: directive.Many, Help: "passes names on that do not exist",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.Fallthrough, err = zones.ParseFallthrough(l)
				return err
			}},
	}
}

// Parse reads one secondary directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	var err error
	if o.Zones, err = zones.Parse(in, in.Args); err != nil {
		return o, err
	}
	if err := directive.ParseOptions(in, &o, Rows()); err != nil {
		return o, err
	}
	if len(o.From) == 0 {
		return o, in.Name.Errorf("secondary: needs a line such as: transfer from 192.0.2.1")
	}
	return o, nil
}

func setTransfer(o *Options, l *directive.Line) error {
	if l.Args[0].Text != "from" {
		return l.Args[0].Errorf("from must follow, not %q; the transfer directive gives zones to others", l.Args[0].Text)
	}
	for _, a := range l.Args[1:] {
		if addr, err := netip.ParseAddr(a.Text); err == nil {
			o.From = append(o.From, netip.AddrPortFrom(addr, 53))
			continue
		}
		ap, err := netip.ParseAddrPort(a.Text)
		if err != nil {
			return a.Errorf("%q is neither an address nor an address with a port", a.Text)
		}
		o.From = append(o.From, ap)
	}
	return nil
}

func setCatalog(o *Options, l *directive.Line) error {
	o.Catalog = true
	if len(l.Args) == 0 {
		return nil
	}
	more, err := zones.Parse(&directive.Input{Line: *l}, l.Args)
	o.Members = append(o.Members, more...)
	return err
}
