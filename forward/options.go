package forward

import (
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options is one forward line of a Corefile.
type Options struct {
	// From are the zones that are forwarded: one, or the reverse zones of a network.
	From []wire.Zone
	// To are the upstream servers in the order written, files and host names not yet looked up.
	To []To
	// Except are zones within From that are not forwarded.
	Except []wire.Zone

	ForceTCP  bool // ask over TCP whatever the client came by
	PreferUDP bool // ask over UDP whatever the client came by

	Expire       time.Duration // how long a socket or connection is kept without use
	MaxAge       time.Duration // how long one is used at the most; 0 for no bound
	MaxIdleConns int           // how many unused ones are kept per upstream; 0 for no bound of their own

	ReadTimeout        time.Duration // how long after the last attempt its reply is waited for
	MaxFails           int           // failed probes in a row that mark an upstream as down; 0 for never
	MaxConnectAttempts int           // attempts a query; 0 for no cap, DefaultAttempts for twice the number of upstreams
	MaxConcurrent      int           // queries that wait at one time; 0 for no bound of their own

	TLS           TLS
	TLSServerName string // the name in the certificate of upstreams that give none of their own

	Policy      Policy
	HealthCheck HealthCheck
	FailFast    bool // SERVFAIL at once while all upstreams are down

	Next         []wire.RCode // rcodes on which the next forward line is asked
	NextOnNoData bool         // whether it is for NODATA as well
	Failover     []wire.RCode // rcodes on which the next upstream is asked

	SourceAddress netip.Addr       // the address that questions are sent from; the zero value leaves it to the system
	Resolver      []netip.AddrPort // who resolves host names in To; nil for the system's
	RandomCase    bool             // letters of the question are sent in random case and compared (0x20)
}

// TLS names the files of the tls option.
type TLS struct{ Cert, Key, CA string }

// String is the files in the order of the option.
func (t TLS) String() string { return strings.Join(strings.Fields(t.Cert+" "+t.Key+" "+t.CA), " ") }

// HealthCheck is how an upstream in trouble is probed.
type HealthCheck struct {
	Interval time.Duration
	NoRec    bool           // without recursion desired
	Domain   wire.Canonical // the name that is asked for
}

// String is the value as the option takes it.
func (h HealthCheck) String() string {
	s := h.Interval.String()
	if h.NoRec {
		s += " no_rec"
	}
	if h.Domain != wire.Root {
		s += " domain " + h.Domain.String()
	}
	return s
}

// Policy is the order in which upstreams are asked.
type Policy uint8

// The policies of CoreDNS.
const (
	Random Policy = iota
	RoundRobin
	Sequential
)

// String is the word that the option takes.
func (p Policy) String() string {
	switch p {
	case RoundRobin:
		return "round_robin"
	case Sequential:
		return "sequential"
	}
	return "random"
}

// DefaultAttempts as MaxConnectAttempts is twice the number of upstreams, and at least three: two datagrams of one upstream are
// lost together too often to give up on it after that.
const DefaultAttempts = -1

// The defaults are CoreDNS's.
const (
	defaultExpire      = 10 * time.Second
	defaultReadTimeout = 2 * time.Second
	defaultMaxFails    = 2
	defaultInterval    = 500 * time.Millisecond
)

// maxUpstreams is how many servers one line may have. It is CoreDNS's limit; so many that fail in turn already take longer than clients wait.
const maxUpstreams = 15

// longest bounds durations of the configuration: only a mistyped unit is likely to exceed it.
const longest = 365 * 24 * time.Hour

// Parse reads one forward line. It opens and resolves nothing.
func Parse(in *directive.Input) (Options, error) {
	o := Options{
		Expire:             defaultExpire,
		ReadTimeout:        defaultReadTimeout,
		MaxFails:           defaultMaxFails,
		MaxConnectAttempts: DefaultAttempts,
		HealthCheck:        HealthCheck{Interval: defaultInterval, Domain: wire.Root},
	}
	if len(in.Args) < 2 {
		return o, in.Name.Errorf("forward: needs a zone and at least one upstream: forward FROM TO...")
	}
	var err error
	if o.From, err = zones(in.Args[:1]); err != nil {
		return o, err
	}
	if len(in.Args)-1 > maxUpstreams {
		return o, in.Args[maxUpstreams+1].Errorf("forward: more than %d upstreams", maxUpstreams)
	}
	for _, a := range in.Args[1:] {
		to, err := parseTo(a.Text, in.Path)
		if err != nil {
			return o, a.Errorf("forward: %w", err)
		}
		o.To = append(o.To, to)
	}
	if err := directive.ParseOptions(in, &o, rows(in)); err != nil {
		return o, err
	}
	return o, o.check(in)
}

// check finds options that contradict each other.
func (o *Options) check(in *directive.Input) error {
	if o.MaxAge > 0 && o.MaxAge < o.Expire {
		return in.Name.Errorf("forward: max_age %s is less than expire %s", o.MaxAge, o.Expire)
	}
	for i, to := range o.To {
		if to.ServerName != "" && o.TLSServerName != "" {
			return in.Args[i+1].Errorf("forward: %s has a server name of its own, so tls_servername %s must not be given as well", to.Text, o.TLSServerName)
		}
		if to.Addr.IsValid() && o.SourceAddress.IsValid() && to.Addr.Addr().Is4() != o.SourceAddress.Is4() {
			if in.Warn != nil {
				in.Warn(in.Args[i+1], "forward: %s cannot be reached from source_address %s, which is of the other IP family", to.Text, o.SourceAddress)
			}
		}
	}
	return nil
}

func zones(args []directive.Arg) ([]wire.Zone, error) {
	var out []wire.Zone
	for _, a := range args {
		names, _, err := directive.SplitZone(a.Text)
		if err != nil {
			return nil, a.Errorf("forward: %w", err)
		}
		for _, n := range names {
			c, err := wire.ParseCanonical(n)
			if err != nil {
				return nil, a.Errorf("forward: %w", err)
			}
			out = append(out, wire.NewZone(c))
		}
	}
	return out, nil
}

type row = directive.Option[Options]
type line = directive.Line

// rows is the table of options.
func rows(in *directive.Input) []row {
	return []row{
		{Name: "except", Usage: "ZONE...", Min: 1, Max: directive.Many, Repeat: true, Help: "zones that are not forwarded", Set: setExcept},
		{Name: "force_tcp", Help: "ask over TCP even for clients that came over UDP", Set: func(o *Options, _ *line) error { o.ForceTCP = true; return nil }},
		{Name: "prefer_udp", Help: "ask over UDP first even for clients that came over TCP", Set: func(o *Options, _ *line) error { o.PreferUDP = true; return nil }},
		{Name: "expire", Usage: "DURATION", Min: 1, Max: 1, Help: "how long an unused socket or connection is kept", Set: duration(func(o *Options) *time.Duration { return &o.Expire })},
		{Name: "max_age", Usage: "DURATION", Min: 1, Max: 1, Help: "how long a socket or connection is used at the most; 0 for no bound", Set: duration(func(o *Options) *time.Duration { return &o.MaxAge })},
		{Name: "max_idle_conns", Usage: "N", Min: 1, Max: 1, Help: "unused sockets and connections kept per upstream; 0 for no bound", Set: number(func(o *Options) *int { return &o.MaxIdleConns })},
		{Name: "read_timeout", Usage: "DURATION", Min: 1, Max: 1, Help: "how long an upstream may take to reply", Set: setReadTimeout},
		{Name: "max_fails", Usage: "N", Min: 1, Max: 1, Help: "failed probes in a row that mark an upstream as down; 0 for never", Set: number(func(o *Options) *int { return &o.MaxFails })},
		{Name: "max_connect_attempts", Usage: "N", Min: 1, Max: 1, Help: "attempts for one query; 0 for no cap", Set: number(func(o *Options) *int { return &o.MaxConnectAttempts })},
		{Name: "doh_method", Usage: "GET|POST", Min: 1, Max: 1, Help: "not supported: there are no https:// upstreams", Set: func(_ *Options, l *line) error {
			return l.Name.Errorf("upstreams over HTTPS are not supported; use tls://")
		}},
		{Name: "tls", Usage: "[CA | CERT KEY [CA]]", Max: 3, Help: "files for TLS", Set: setTLS(in)},
		{Name: "tls_servername", Usage: "NAME", Min: 1, Max: 1, Help: "the name in the upstreams' certificate", Set: func(o *Options, l *line) error { o.TLSServerName = l.Args[0].Text; return nil }},
		{Name: "policy", Usage: "random|round_robin|sequential", Min: 1, Max: 1, Help: "the order in which upstreams are asked", Set: setPolicy},
		{Name: "health_check", Usage: "DURATION [no_rec] [domain NAME]", Min: 1, Max: 4, Help: "how upstreams in trouble are probed", Set: setHealthCheck},
		{Name: "max_concurrent", Usage: "N", Min: 1, Max: 1, Help: "queries that wait at one time; more are REFUSED; 0 for no bound", Set: number(func(o *Options) *int { return &o.MaxConcurrent })},
		{Name: "next", Usage: "RCODE...", Min: 1, Max: directive.Many, Repeat: true, Help: "rcodes on which the next forward line is asked", Set: rcodes(func(o *Options) *[]wire.RCode { return &o.Next }, true)},
		{Name: "next_on_nodata", Help: "ask the next forward line on an empty answer too", Set: func(o *Options, _ *line) error { o.NextOnNoData = true; return nil }},
		{Name: "failfast_all_unhealthy_upstreams", Help: "SERVFAIL at once while all upstreams are down", Set: func(o *Options, _ *line) error { o.FailFast = true; return nil }},
		{Name: "failover", Usage: "RCODE...", Min: 1, Max: directive.Many, Repeat: true, Help: "rcodes on which the next upstream is asked", Set: rcodes(func(o *Options) *[]wire.RCode { return &o.Failover }, false)},
		{Name: "source_address", Usage: "IP", Min: 1, Max: 1, Help: "the address that questions are sent from", Set: setSource},
		{Name: "resolver", Usage: "IP[:PORT]...", Min: 1, Max: directive.Many, Help: "who resolves host names among the upstreams", Set: setResolver},
		{Name: "random_case", Help: "send the question in random letter case and compare it (0x20)", Set: func(o *Options, _ *line) error { o.RandomCase = true; return nil }},
	}
}

func setExcept(o *Options, l *line) error {
	z, err := zones(l.Args)
	o.Except = append(o.Except, z...)
	return err
}

func duration(of func(*Options) *time.Duration) func(*Options, *line) error {
	return func(o *Options, l *line) (err error) {
		*of(o), err = l.Args[0].Duration(0, longest, 0)
		return err
	}
}

func number(of func(*Options) *int) func(*Options, *line) error {
	return func(o *Options, l *line) (err error) {
		*of(o), err = l.Args[0].Int(0, 1<<31-1)
		return err
	}
}

func setReadTimeout(o *Options, l *line) (err error) {
	o.ReadTimeout, err = l.Args[0].Duration(time.Millisecond, longest, 0)
	return err
}

func setTLS(in *directive.Input) func(*Options, *line) error {
	return func(o *Options, l *line) error {
		p := make([]string, len(l.Args))
		for i, a := range l.Args {
			p[i] = in.Path(a.Text)
		}
		switch len(p) {
		case 1:
			o.TLS = TLS{CA: p[0]}
		case 2:
			o.TLS = TLS{Cert: p[0], Key: p[1]}
		case 3:
			o.TLS = TLS{Cert: p[0], Key: p[1], CA: p[2]}
		}
		return nil
	}
}

func setPolicy(o *Options, l *line) error {
	switch l.Args[0].Text {
	case "random":
		o.Policy = Random
	case "round_robin":
		o.Policy = RoundRobin
	case "sequential":
		o.Policy = Sequential
	default:
		return l.Args[0].Errorf("unknown policy %q; known are random, round_robin, sequential", l.Args[0].Text)
	}
	return nil
}

func setHealthCheck(o *Options, l *line) error {
	d, err := l.Args[0].Duration(0, longest, 0)
	if err != nil {
		return err
	}
	if d == 0 {
		d = defaultInterval // without a pause probes would be all that the machine does
	}
	o.HealthCheck = HealthCheck{Interval: d, Domain: wire.Root}
	for args := l.Args[1:]; len(args) > 0; args = args[1:] {
		switch args[0].Text {
		case "no_rec":
			o.HealthCheck.NoRec = true
		case "domain":
			if len(args) == 1 {
				return args[0].Errorf("domain needs a name")
			}
			args = args[1:]
			if o.HealthCheck.Domain, err = wire.ParseCanonical(args[0].Text); err != nil {
				return args[0].Errorf("%w", err)
			}
		default:
			return args[0].Errorf("unknown argument %q; known are no_rec, domain NAME", args[0].Text)
		}
	}
	return nil
}

// rcodes reads mnemonics. NOERROR makes no sense for failover, since it is the answer.
func rcodes(of func(*Options) *[]wire.RCode, noError bool) func(*Options, *line) error {
	return func(o *Options, l *line) error {
		for _, a := range l.Args {
			c, ok := parseRCode(a.Text)
			if !ok {
				return a.Errorf("%q is not a response code; write it like SERVFAIL", a.Text)
			}
			if c == wire.RCodeNoError && !noError {
				return a.Errorf("NOERROR cannot be used here")
			}
			*of(o) = append(*of(o), c)
		}
		return nil
	}
}

// maxRCode is the highest response code that has a name.
const maxRCode = 23

func parseRCode(s string) (wire.RCode, bool) {
	for c := range wire.RCode(maxRCode + 1) {
		if name := c.String(); strings.EqualFold(name, s) && !strings.HasPrefix(name, "RCODE") {
			return c, true
		}
	}
	return 0, false
}

func setSource(o *Options, l *line) error {
	a, err := netip.ParseAddr(l.Args[0].Text)
	if err != nil {
		return l.Args[0].Errorf("%q is not an IP address", l.Args[0].Text)
	}
	o.SourceAddress = a.Unmap()
	return nil
}

func setResolver(o *Options, l *line) error {
	for _, a := range l.Args {
		ap, err := addrPort(a.Text, dnsPort)
		if err != nil {
			return a.Errorf("%q is neither an IP address nor IP:PORT", a.Text)
		}
		o.Resolver = append(o.Resolver, ap)
	}
	return nil
}

var errNoAddress = errors.New("not an IP address")
