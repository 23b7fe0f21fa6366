package config

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/forward"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/autopath"
	"github.com/clusterdns/clusterdns/plugin/hosts"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Lint looks for what is allowed but most likely not meant. It is for people who look at a Corefile, not for a start.
func (c *Config) Lint() []error {
	l := &linter{config: c}
	l.sharedPorts()
	for _, b := range c.Blocks {
		l.block = b
		l.nothingAnswers()
		l.unreachable()
		l.pointless()
		for _, u := range b.Uses {
			l.repeated(u)
			l.fallthroughs(u)
			l.hostsOnly(u)
			l.outside(u)
			l.itself(u)
			l.autopath(u)
		}
	}
	return Errors(inOrder(l.found))
}

type linter struct {
	config *Config
	block  *Block
	found  []error
}

func (l *linter) say(at directive.Arg, format string, args ...any) {
	l.found = append(l.found, at.Errorf(format, args...))
}

// sharedPorts finds transports that have one TCP port of one address: both get some of its connections, as it happens.
func (l *linter) sharedPorts() {
	first, told := map[string]Zone{}, map[string]bool{}
	for _, b := range l.config.Blocks {
		hosts := bindWords(b)
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		for _, z := range b.Zones {
			for _, h := range hosts {
				at := net.JoinHostPort(h, z.Port)
				other, found := first[at]
				switch {
				case !found:
					first[at] = z
				case other.Transport != z.Transport && !told[at]:
					told[at] = true
					l.say(z.at, "%s and %s (line %d) are different transports on one TCP port, where it is chance which of them gets a connection: give one another port", z, other, other.at.Line)
				}
			}
		}
	}
}

// answers says whether a directive answers queries of its own accord.
func answers(name string) bool {
	for _, d := range answerers() {
		if d.Name == name {
			return !slices.Contains([]string{"cache", "loop", "dns64", "transfer", "import"}, name)
		}
	}
	return false
}

func (l *linter) nothingAnswers() {
	for _, u := range l.block.Uses {
		if answers(u.Directive.Name) || u.Directive.Name == "acl" || u.Directive.Name == "chaos" {
			return
		}
	}
	l.say(l.block.At, "no directive of this server block answers anything: every query is refused or fails")
}

// pointless finds directives that have nothing to work on.
func (l *linter) pointless() {
	if u := l.block.use("k8s_external"); u != nil && l.block.use("kubernetes") == nil {
		l.say(u.Input.Name, "k8s_external answers from kubernetes, which this server block does not have: it does nothing")
	}
	if l.block.use("forward") != nil {
		return
	}
	if u := l.block.use("cache"); u != nil {
		l.say(u.Input.Name, "cache keeps answers of forward, which this server block does not have")
	}
	if u := l.block.use("loop"); u != nil {
		l.say(u.Input.Name, "loop looks at the upstream servers of forward, which this server block does not have")
	}
}

// repeated finds zones that stand twice in the arguments of a directive.
func (l *linter) repeated(u *Use) {
	switch u.Directive.Name {
	case "kubernetes", "cache", "log", "hosts", "template", "metadata", "acl":
	default:
		return
	}
	args := u.Input.Args
	if u.Directive.Name == "template" {
		args = args[min(2, len(args)):] // class and type, which may both be ANY
	}
	seen := map[string]bool{}
	for _, a := range args {
		z := strings.TrimSuffix(strings.ToLower(a.Text), ".")
		if seen[z] {
			l.say(a, "%s: %q stands there twice", u.Directive.Name, a.Text)
		}
		seen[z] = true
	}
}

// fallthroughs finds queries that fall through to nothing.
func (l *linter) fallthroughs(u *Use) {
	if !answers(u.Directive.Name) {
		return
	}
	i := slices.Index(l.block.Uses, u)
	if slices.ContainsFunc(l.block.Uses[i+1:], func(o *Use) bool { return answers(o.Directive.Name) }) {
		return
	}
	for _, line := range u.Input.Lines {
		if line.Name.Text == "fallthrough" {
			l.say(line.Name, "%s: nothing behind it answers what falls through: that is SERVFAIL", u.Directive.Name)
		}
	}
}

// hostsOnly finds a hosts directive that keeps all names to itself that it does not have. One with zones of its own may mean it.
func (l *linter) hostsOnly(u *Use) {
	o, ok := u.Options.(hosts.Options)
	if !ok || o.Fallthrough.On || len(u.Input.Args) > 1 {
		return
	}
	i := slices.Index(l.block.Uses, u)
	for _, behind := range l.block.Uses[i+1:] {
		if answers(behind.Directive.Name) {
			l.say(u.Input.Name, "hosts: without fallthrough all names that it does not have are SERVFAIL, and %s at line %d gets only reverse ones", behind.Directive.Name, behind.Input.Name.Line)
			return
		}
	}
}

// outside finds zones of kubernetes and forward that never get a query, because their server block does not serve them.
func (l *linter) outside(u *Use) {
	var zones []wire.Zone
	switch o := u.Options.(type) {
	case kubernetes.Options:
		zones = o.Zones
	case forward.Options:
		zones = o.From
	}
	for _, z := range zones {
		within := func(s Zone) bool {
			served := wire.NewZone(wire.MustCanonical(s.Name))
			return served.Contains(z.Name()) || z.Contains(served.Name())
		}
		if !slices.ContainsFunc(l.block.Zones, within) {
			l.say(u.Input.Name, "%s: the zone %s is not within this server block, so no query for it gets here", u.Directive.Name, z)
		}
	}
}

// autopath finds clients that cannot be known.
func (l *linter) autopath(u *Use) {
	o, ok := u.Options.(autopath.Options)
	if !ok || o.From != "kubernetes" {
		return
	}
	if k := l.block.use("kubernetes"); k == nil {
		l.say(u.Input.Name, "autopath: this server block has no kubernetes to know clients by: it does nothing")
	} else {
		if ko, ok := k.Options.(kubernetes.Options); ok && ko.Pods != kubernetes.PodsVerified {
			l.say(u.Input.Name, "autopath: without \"pods verified\" in kubernetes no client is known, so nothing is completed")
		}
	}
}

// itself finds upstreams that are addresses of this server at which queries come back to the same server block, as far as the Corefile tells. An upstream that
// is another server block is none: that is how upstreams with options of their own are put together.
func (l *linter) itself(u *Use) {
	o, ok := u.Options.(forward.Options)
	if !ok {
		return
	}
	for _, to := range o.To {
		if slices.ContainsFunc(l.served(o.From), func(z wire.Zone) bool { return l.comesBack(to, z.Name(), map[*Block]bool{}) }) {
			l.say(u.Input.Name, "forward: the upstream %s is this server: queries go in a circle", to.Text)
		}
	}
}

// comesBack says whether a name that is asked of an upstream is forwarded until it is in the server block that is looked at. seen are the blocks it has been in.
func (l *linter) comesBack(to forward.To, name wire.Canonical, seen map[*Block]bool) bool {
	if !to.Addr.IsValid() || to.TLS {
		return false
	}
	for _, b := range l.asked(to.Addr, name) {
		if b == l.block {
			return b.use("view") == nil // which may be for other clients than this server
		}
		if seen[b] {
			continue
		}
		seen[b] = true
		for _, u := range b.Uses {
			o, ok := u.Options.(forward.Options)
			if !ok || !within(o.From, name) || within(o.Except, name) {
				continue
			}
			if slices.ContainsFunc(o.To, func(to forward.To) bool { return l.comesBack(to, name, seen) }) {
				return true
			}
		}
	}
	return false
}

func within(zones []wire.Zone, name wire.Canonical) bool {
	return slices.ContainsFunc(zones, func(z wire.Zone) bool { return z.Contains(name) })
}

// asked are the server blocks that get a query for a name at an address: those of the longest zone, of which views make several.
func (l *linter) asked(addr netip.AddrPort, name wire.Canonical) (out []*Block) {
	most := -1
	for _, b := range l.config.Blocks {
		words := bindWords(b)
		if !(len(words) == 0 && addr.Addr().IsLoopback()) && !slices.Contains(words, addr.Addr().String()) {
			continue
		}
		for _, z := range b.Zones {
			served := wire.NewZone(wire.MustCanonical(z.Name))
			if z.Transport != "dns" || z.Port != strconv.Itoa(int(addr.Port())) || !served.Contains(name) || served.Labels() < most {
				continue
			}
			if served.Labels() > most {
				most, out = served.Labels(), nil
			}
			out = append(out, b)
		}
	}
	return out
}
