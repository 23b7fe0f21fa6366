package loadbalance

import (
	"net/netip"
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
)

// Options are what a loadbalance directive says. They are equal in the sense of reflect.DeepEqual when two directives mean the same.
type Options struct {
	File   string         // of weights; "" for round_robin
	Reload time.Duration  // how often File is looked at; 0 for never again
	Prefer []netip.Prefix // addresses within come first, in the order of the prefixes
}

// Shown has the policy with its file.
func (o Options) Shown() []directive.Value {
	policy, reload := "round_robin", ""
	if o.File != "" {
		policy, reload = "weighted "+o.File, o.Reload.String()
	}
	var prefer []string
	for _, p := range o.Prefer {
		prefer = append(prefer, p.String())
	}
	return []directive.Value{{Name: "policy", Value: policy}, {Name: "reload", Value: reload}, {Name: "prefer", Value: strings.Join(prefer, " ")}}
}

// Shuffle says whether the server puts address records into random order when they are written.
func (o *Options) Shuffle() bool { return o.File == "" }

const (
	// defaultReload is CoreDNS's.
	defaultReload = 30 * time.Second
	// minReload keeps a mistyped unit from reading the file all the time.
	minReload = time.Second
	maxReload = 365 * 24 * time.Hour // only a bound that a mistyped unit is likely to exceed
)

// Table is the table of options of the directive.
func Table() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "reload", Usage: "DURATION", Min: 1, Max: 1, Help: "how often the file of weights is looked at; 0s for never", Set: setReload},
		{Name: "prefer", Usage: "CIDR…", Min: 1, Max: directive.Many, Help: "networks whose addresses come first", Set: setPrefer},
	}
}

// Parse reads "loadbalance [round_robin | weighted FILE] { … }".
func Parse(in *directive.Input) (Options, error) {
	var o Options
	policy, rest := "round_robin", in.Args
	if len(rest) > 0 {
		policy, rest = rest[0].Text, rest[1:]
	}
	switch policy {
	case "round_robin":
	case "weighted":
		if len(rest) == 0 {
			return o, in.Args[0].Errorf("loadbalance: weighted needs the file of weights")
		}
		o.File, o.Reload = in.Path(rest[0].Text), defaultReload
		rest = rest[1:]
	default:
		return o, in.Args[0].Errorf("loadbalance: unknown policy %q; known are round_robin, weighted", policy)
	}
	if len(rest) > 0 {
		return o, rest[0].Errorf("loadbalance: %s takes no argument %q", policy, rest[0].Text)
	}
	return o, directive.ParseOptions(in, &o, Table())
}

func setReload(o *Options, l *directive.Line) error {
	if o.File == "" {
		return l.Name.Errorf("only the policy weighted has a file to look at")
	}
	a := l.Args[0]
	if a.Text == "0" {
		a.Text = "0s"
	}
	d, err := a.Duration(0, maxReload, 0)
	if err != nil {
		return err
	}
	if d > 0 {
		d = max(d, minReload)
	}
	o.Reload = d
	return nil
}

func setPrefer(o *Options, l *directive.Line) error {
	for _, a := range l.Args {
		p, err := directive.Network(a.Text)
		if err != nil {
			return a.Errorf("%q is not a network; write it like 10.1.0.0/16", a.Text)
		}
		o.Prefer = append(o.Prefer, p)
	}
	return nil
}
