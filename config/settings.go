package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
)

// rootOptions are what a root directive says.
type rootOptions struct{ Dir string }

func parseRoot(in *directive.Input) (rootOptions, error) {
	if len(in.Args) != 1 {
		return rootOptions{}, in.Name.Errorf("root: takes one argument, the folder")
	}
	return rootOptions{Dir: in.Path(in.Args[0].Text)}, in.NoBlock()
}

// importOptions are nothing: imports have been resolved when directives are parsed.
type importOptions struct{}

func parseImport(in *directive.Input) (importOptions, error) {
	return importOptions{}, in.Name.Errorf("import: must be written out, and not come from a variable")
}

// debugOptions are nothing but that the directive is there.
type debugOptions struct{}

func parseDebug(in *directive.Input) (debugOptions, error) {
	if err := in.NoArgs(); err != nil {
		return debugOptions{}, err
	}
	return debugOptions{}, in.NoBlock()
}

// The bounds and defaults of reload are CoreDNS's.
const (
	defaultInterval = 30 * time.Second
	defaultJitter   = 15 * time.Second
	minInterval     = 2 * time.Second
	minJitter       = time.Second
	maxInterval     = 365 * 24 * time.Hour // only a bound that a mistyped unit is likely to exceed
)

// reloadOptions are what a reload directive says.
type reloadOptions struct{ Interval, Jitter time.Duration }

func parseReload(in *directive.Input) (reloadOptions, error) {
	o := reloadOptions{defaultInterval, defaultJitter}
	if len(in.Args) > 2 {
		return o, in.Args[2].Errorf("reload: takes an interval and a jitter, found %q behind them", in.Args[2].Text)
	}
	var err error
	if len(in.Args) > 0 {
		if o.Interval, err = in.Args[0].Duration(0, maxInterval, 0); err != nil {
			return o, err
		}
		o.Interval = atLeast(in, in.Args[0], o.Interval, minInterval)
	}
	if len(in.Args) > 1 {
		if o.Jitter, err = in.Args[1].Duration(0, maxInterval, 0); err != nil {
			return o, err
		}
		o.Jitter = atLeast(in, in.Args[1], o.Jitter, minJitter)
	}
	o.Jitter = min(o.Jitter, o.Interval/2)
	return o, in.NoBlock()
}

// atLeast raises a duration to the least that makes sense, and warns if that changes it.
func atLeast(in *directive.Input, at directive.Arg, d, least time.Duration) time.Duration {
	if d >= least {
		return d
	}
	in.Warn(at, "reload: %s is raised to %s, the least that there is", d, least)
	return least
}

// timeoutsOptions are what a timeouts directive says.
type timeoutsOptions struct {
	Read, Write, Idle time.Duration
	Maxtcpqueries     int
}

// maxTimeout is CoreDNS's bound.
const maxTimeout = 24 * time.Hour

// timeouts is what the server is given.
func (o timeoutsOptions) timeouts() server.Timeouts {
	return server.Timeouts{Read: o.Read, Write: o.Write, Idle: o.Idle, Queries: max(o.Maxtcpqueries, 0)}
}

func parseTimeouts(in *directive.Input) (timeoutsOptions, error) {
	var o timeoutsOptions
	if err := in.NoArgs(); err != nil {
		return o, err
	}
	duration := func(field func(*timeoutsOptions) *time.Duration) func(*timeoutsOptions, *directive.Line) error {
		return func(o *timeoutsOptions, l *directive.Line) (err error) {
			*field(o), err = l.Args[0].Duration(time.Second, maxTimeout, time.Second)
			return err
		}
	}
	return o, directive.ParseOptions(in, &o, []directive.Option[timeoutsOptions]{
		{Name: "read", Usage: "DURATION", Min: 1, Max: 1, Set: duration(func(o *timeoutsOptions) *time.Duration { return &o.Read })},
		{Name: "write", Usage: "DURATION", Min: 1, Max: 1, Set: duration(func(o *timeoutsOptions) *time.Duration { return &o.Write })},
		{Name: "idle", Usage: "DURATION", Min: 1, Max: 1, Set: duration(func(o *timeoutsOptions) *time.Duration { return &o.Idle })},
		{Name: "maxtcpqueries", Usage: "NUMBER", Min: 1, Max: 1, Set: func(o *timeoutsOptions, l *directive.Line) (err error) {
			o.Maxtcpqueries, err = l.Args[0].Int(-1, math.MaxInt32)
			return err
		}},
	})
}

// multisocketOptions are what a multisocket directive says.
type multisocketOptions struct{ Sockets int }

// maxSockets is CoreDNS's bound.
const maxSockets = 1024

func parseMultisocket(in *directive.Input) (multisocketOptions, error) {
	o := multisocketOptions{Sockets: runtime.GOMAXPROCS(0)}
	if len(in.Args) > 1 {
		return o, in.Args[1].Errorf("multisocket: takes one number, found %q behind it", in.Args[1].Text)
	}
	if len(in.Args) == 1 {
		var err error
		if o.Sockets, err = in.Args[0].Int(1, maxSockets); err != nil {
			return o, err
		}
	}
	return o, in.NoBlock()
}

// bindOptions are what a bind directive says. Names of interfaces are resolved when the configuration is built.
type bindOptions struct{ Hosts, Except []string }

func parseBind(in *directive.Input) (bindOptions, error) {
	o := bindOptions{Hosts: in.Texts()}
	if len(in.Args) == 0 {
		return o, in.Name.Errorf("bind: an address or the name of an interface must follow")
	}
	return o, directive.ParseOptions(in, &o, []directive.Option[bindOptions]{{
		Name: "except", Usage: "ADDRESS|INTERFACE…", Min: 1, Max: directive.Many, Repeat: true, Help: "leaves these out",
		Set: func(o *bindOptions, l *directive.Line) error {
			o.Except = append(o.Except, l.Texts()...)
			return nil
		},
	}})
}

// bindWords are the addresses and interfaces of a block as written: what tells server blocks apart before names are resolved.
func bindWords(b *Block) (out []string) {
	for _, u := range b.Uses {
		if o, ok := u.Options.(bindOptions); ok {
			out = append(out, o.Hosts...)
		}
	}
	return out
}

// resolve gives the addresses that a bind directive stands for: an interface is all its addresses but link-local ones, which only a scope would make usable.
func (o bindOptions) resolve() ([]string, error) {
	left := map[string]bool{}
	for _, w := range o.Except {
		addrs, err := addresses(w)
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			left[a] = true
		}
	}
	var out []string
	for _, w := range o.Hosts {
		addrs, err := addresses(w)
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if !left[a] {
				left[a] = true
				out = append(out, a)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("bind: no address is left to listen on")
	}
	return out, nil
}

// addresses are those of one word: an address, or an interface.
func addresses(word string) ([]string, error) {
	if a, err := netip.ParseAddr(word); err == nil {
		return []string{a.String()}, nil
	}
	ifi, err := net.InterfaceByName(word)
	if err != nil {
		return nil, fmt.Errorf("bind: %q is neither an address nor an interface of this host", word)
	}
	addrs, err := ifi.Addrs()
	if err != nil {
		return nil, fmt.Errorf("bind: the addresses of interface %s: %w", word, err)
	}
	var out []string
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLinkLocalUnicast() && !p.Addr().IsLinkLocalMulticast() {
			out = append(out, p.Addr().Unmap().String())
		}
	}
	return out, nil
}
