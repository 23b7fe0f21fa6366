// Package acl is the directive of that name: it decides by the client's address and by what is asked whether a query is answered.
package acl

import (
	"net/netip"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Action is what becomes of a query.
type Action uint8

// The actions.
const (
	Allow  Action = iota // it is answered
	Block                // REFUSED
	Filter               // NOERROR without records
	Drop                 // no reply
)

// String is the word that a line begins with.
func (a Action) String() string {
	switch a {
	case Block:
		return "block"
	case Filter:
		return "filter"
	case Drop:
		return "drop"
	}
	return "allow"
}

// actions are the words of the syntax in the order of the constants.
var actions = []string{"allow", "block", "filter", "drop"}

// Options is one acl directive.
type Options struct {
	Zones    zones.Set
	Policies []Policy // the first that is for a query counts
}

// Policy is one line.
type Policy struct {
	Action Action
	Types  []wire.Type    // none means all
	Nets   []netip.Prefix // none means all
}

// String is the line.
func (p Policy) String() string {
	words := []string{p.Action.String()}
	for i, t := range p.Types {
		if i == 0 {
			words = append(words, "type")
		}
		words = append(words, t.String())
	}
	for i, n := range p.Nets {
		if i == 0 {
			words = append(words, "net")
		}
		if n.IsSingleIP() {
			words = append(words, n.Addr().String())
		} else {
			words = append(words, n.String())
		}
	}
	return strings.Join(words, " ")
}

// Shown has the lines in the order in which they are tried.
func (o Options) Shown() []directive.Value {
	var lines []string
	for _, p := range o.Policies {
		lines = append(lines, p.String())
	}
	return []directive.Value{{Name: "zones", Value: o.Zones.String()}, {Name: "rules", Value: strings.Join(lines, "; ")}}
}

// Words are all words of the syntax.
func Words() []string { return []string{"allow", "block", "filter", "drop", "type", "net", "*"} }

// Parse reads one acl directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	var err error
	if o.Zones, err = zones.Parse(in, in.Args); err != nil {
		return o, err
	}
	if len(in.Lines) == 0 {
		in.Warn(in.Name, "acl: decides nothing without lines in braces such as: block type A net 192.0.2.0/24")
	}
	for i := range in.Lines {
		p, err := policy(&in.Lines[i])
		if err != nil {
			return o, err
		}
		o.Policies = append(o.Policies, p)
	}
	return o, nil
}

func policy(l *directive.Line) (Policy, error) {
	p := Policy{Action: Drop + 1}
	for i, a := range actions {
		if strings.EqualFold(l.Name.Text, a) {
			p.Action = Action(i)
		}
	}
	switch {
	case p.Action > Drop:
		return p, l.Name.Errorf("acl: unknown action %q; known are %s", l.Name.Text, strings.Join(actions, ", "))
	case l.HasBlock:
		return p, l.Name.Errorf("acl: %s takes no lines in braces", l.Name.Text)
	}
	for args := l.Args; len(args) > 0; {
		n := 1
		for n < len(args) && !keyword(args[n].Text) {
			n++
		}
		if err := p.section(l.Name.Text, args[0], args[1:n]); err != nil {
			return p, err
		}
		args = args[n:]
	}
	return p, nil
}

// section reads the word type or net and what stands behind it.
func (p *Policy) section(action string, word directive.Arg, values []directive.Arg) (err error) {
	switch {
	case !keyword(word.Text):
		err = word.Errorf("acl: type or net must follow %s, found %q", action, word.Text)
	case len(values) == 0:
		err = word.Errorf("acl: %s needs something behind it", word.Text)
	case strings.EqualFold(word.Text, "type"):
		p.Types, err = types(p.Types, values)
	default:
		p.Nets, err = nets(p.Nets, values)
	}
	return err
}

func keyword(s string) bool { return strings.EqualFold(s, "type") || strings.EqualFold(s, "net") }

func types(to []wire.Type, args []directive.Arg) ([]wire.Type, error) {
	for _, a := range args {
		if a.Text == "*" {
			return nil, nil
		}
		t, ok := records.ParseType(a.Text)
		if !ok {
			return nil, a.Errorf("acl: %q is not a record type", a.Text)
		}
		to = append(to, t)
	}
	return to, nil
}

func nets(to []netip.Prefix, args []directive.Arg) ([]netip.Prefix, error) {
	for _, a := range args {
		if a.Text == "*" {
			return nil, nil
		}
		if addr, err := netip.ParseAddr(a.Text); err == nil {
			addr = addr.Unmap().WithZone("")
			to = append(to, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		n, err := directive.Network(a.Text)
		if err != nil {
			return nil, a.Errorf("acl: %q is neither an address nor a network such as 192.0.2.0/24", a.Text)
		}
		to = append(to, n)
	}
	return to, nil
}
