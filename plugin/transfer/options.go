// Package transfer is the directive of that name: it gives whole zones of other directives to other servers (AXFR, RFC 5936; IXFR, RFC
// 1995, as far as it says that nothing changed), and tells them of changes (NOTIFY, RFC 1996).
package transfer

import (
	"net/netip"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
)

// Options is one transfer directive.
type Options struct {
	Zones  zones.Set
	All    bool             // everybody may transfer
	Nets   []netip.Prefix   // these may
	Notify []netip.AddrPort // these may as well, and are told of changes
	Source netip.Addr       // where they are told from; the zero value leaves that to the system
}

// Shown has all that lines say to transfer to in one.
func (o Options) Shown() []directive.Value {
	var to []string
	if o.All {
		to = append(to, "*")
	}
	for _, n := range o.Nets {
		to = append(to, n.String())
	}
	for _, ap := range o.Notify {
		to = append(to, ap.String())
	}
	source := ""
	if o.Source.IsValid() {
		source = o.Source.String()
	}
	return []directive.Value{{Name: "zones", Value: o.Zones.String()}, {Name: "to", Value: strings.Join(to, " ")}, {Name: "source", Value: source}}
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "to", Usage: "ADDRESS...", Min: 1, Max: directive.Many, Repeat: true, Help: "who may transfer: * for all, networks, and addresses, which are told of changes as well", Set: setTo},
		{Name: "source", Usage: "ADDRESS", Min: 1, Max: 1, Help: "the address of this host that they are told from",
			Set: func(o *Options, l *directive.Line) (err error) {
				if o.Source, err = netip.ParseAddr(l.Args[0].Text); err != nil {
					return l.Args[0].Errorf("%q is not an address", l.Args[0].Text)
				}
				o.Source = o.Source.Unmap()
				return nil
			}},
	}
}

// Parse reads one transfer directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	var err error
	if o.Zones, err = zones.Parse(in, in.Args); err != nil {
		return o, err
	}
	if err := directive.ParseOptions(in, &o, Rows()); err != nil {
		return o, err
	}
	if !o.All && len(o.Nets) == 0 && len(o.Notify) == 0 {
		return o, in.Name.Errorf("transfer: needs a line such as: to *")
	}
	return o, nil
}

func setTo(o *Options, l *directive.Line) error {
	for _, a := range l.Args {
		if a.Text == "*" {
			o.All = true
			continue
		}
		if addr, err := netip.ParseAddr(a.Text); err == nil {
			o.Notify = append(o.Notify, netip.AddrPortFrom(addr.Unmap(), 53))
			continue
		}
		if ap, err := netip.ParseAddrPort(a.Text); err == nil {
			o.Notify = append(o.Notify, netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()))
			continue
		}
		n, err := directive.Network(a.Text)
		if err != nil {
			return a.Errorf("%q is neither *, an address, an address with a port, nor a network", a.Text)
		}
		o.Nets = append(o.Nets, n)
	}
	return nil
}

// allows says whether a client may transfer.
func (o *Options) allows(client netip.Addr) bool {
	if o.All {
		return true
	}
	for _, n := range o.Nets {
		if n.Contains(client) {
			return true
		}
	}
	for _, ap := range o.Notify {
		if ap.Addr() == client {
			return true
		}
	}
	return false
}
