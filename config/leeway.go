package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
)

// Again is what becomes of a directive that stands in a server block once more, though nothing comes of it twice.
type Again uint8

const (
	againError Again = iota // it is an error
	againFirst              // the first one is in effect
	againMerge              // they are read as one: where both say something, the last one is in effect
)

// again takes a further occurrence of a directive. With a warning it is taken where CoreDNS takes it, and means what it means there.
func (c *Config) again(d *Directive, first *Use, l *directive.Line) error {
	at := first.Input.Name.Line
	switch d.Again {
	case againFirst:
		c.warn(l.Name, "%s: stands at line %d already, and here does nothing; leave it out", d.Name, at)
	case againMerge:
		c.warn(l.Name, "%s: stands at line %d already; both are read as one; write it once", d.Name, at)
		first.Input.Line = merged(&first.Input.Line, l)
	default:
		return l.Name.Errorf("%s: may stand once in a server block, and does at line %d already", d.Name, at)
	}
	return nil
}

// merged is a line with what another says put over it: its arguments, if it has any, and its options instead of those of the same name.
func merged(first, last *directive.Line) directive.Line {
	out := *first
	if len(last.Args) > 0 {
		out.Args = last.Args
	}
	replaced := func(o directive.Line) bool {
		return slices.ContainsFunc(last.Lines, func(n directive.Line) bool { return n.Name.Text == o.Name.Text })
	}
	out.Lines = append(slices.DeleteFunc(slices.Clone(first.Lines), replaced), last.Lines...)
	out.HasBlock = out.HasBlock || last.HasBlock
	return out
}

// closes checks the closing braces that stand behind an option on its line. CoreDNS takes such a brace for one more argument, unless it reads the
// option word by word; where it can do with that argument it takes the Corefile, and so it is taken here, as it was meant.
func (c *Config) closes(d *Directive, l *directive.Line) error {
	for i := range l.Lines {
		in := &l.Lines[i]
		if err := c.closes(d, in); err != nil {
			return err
		}
		said := strings.TrimSpace(in.Name.Text + " " + texts(in.Args))
		switch {
		case !in.Closes || among(d.OneLine, in):
		case among(d.Swallows, in):
			c.warn(in.Name, "%s: the closing brace behind %q is read as one; CoreDNS takes it for an argument: put it on a line of its own", d.Name, said)
		default:
			return in.Name.Errorf("%s: the closing brace behind %q must stand on a line of its own", d.Name, said)
		}
	}
	return nil
}

// among says whether a list has an option: by its name, by its name and number of arguments ("success 3"), or by "*", which is all.
func among(options []string, l *directive.Line) bool {
	return slices.Contains(options, "*") || slices.Contains(options, l.Name.Text) ||
		slices.Contains(options, l.Name.Text+" "+strconv.Itoa(len(l.Args)))
}
