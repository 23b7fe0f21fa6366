package config

import (
	"slices"

	"github.com/clusterdns/clusterdns/config/directive"
)

// modernise turns directives of old Corefiles into those of today, with a warning that says what to write instead. ok is false for those that are
// left out, among them directives of today that change no answer: names must be answered even if nobody hears of it.
func (c *Config) modernise(l directive.Line) (line directive.Line, ok bool, err error) {
	switch l.Name.Text {
	case "proxy":
		line, err = c.proxy(l)
		return line, err == nil, err
	case "federation":
		c.warn(l.Name, "federation: does nothing any more, as federated clusters do not exist any more; leave it out")
		return l, false, nil
	case "startup", "shutdown":
		c.warn(l.Name, "%s: commands are not run; leave it out", l.Name.Text)
		return l, false, nil
	case "trace", "dnstap":
		c.warn(l.Name, "%s: does nothing here: queries are answered without being reported; leave it out", l.Name.Text)
		return l, false, nil
	case "shed":
		c.warn(l.Name, "shed: does nothing here: what waits is bounded without it; leave it out")
		return l, false, nil
	}
	return l, true, nil
}

// proxy makes a forward line of a proxy line. What has no counterpart is left out: forward finds failing upstreams by itself.
func (c *Config) proxy(l directive.Line) (directive.Line, error) {
	c.warn(l.Name, "proxy: is read as forward; write that instead")
	out := l
	out.Name.Text = "forward"
	out.Lines = nil
	for _, o := range l.Lines {
		switch o.Name.Text {
		case "policy":
			out.Lines = append(out.Lines, c.proxyPolicy(o))
		case "max_fails", "except":
			out.Lines = append(out.Lines, o)
		case "protocol":
			words := o.Texts()
			switch {
			case slices.Equal(words, []string{"dns"}):
			case slices.Equal(words, []string{"dns", "force_tcp"}):
				o.Name.Text, o.Args = "force_tcp", nil
				out.Lines = append(out.Lines, o)
			default:
				return l, o.Name.Errorf("proxy: the protocol %q is not supported; forward speaks DNS, and DNS over TLS to upstreams written as tls://ADDRESS", texts(o.Args))
			}
		case "fail_timeout", "health_check", "spray":
			c.warn(o.Name, "proxy: %s does nothing any more; leave it out", o.Name.Text)
		default:
			return l, o.Name.Errorf("proxy: unknown option %q; write forward instead, whose options clusterdns check lists", o.Name.Text)
		}
	}
	out.HasBlock = len(out.Lines) > 0
	return out, nil
}

// proxyPolicy turns proxy's policies into forward's.
func (c *Config) proxyPolicy(o directive.Line) directive.Line {
	if len(o.Args) != 1 {
		return o
	}
	args := slices.Clone(o.Args)
	switch args[0].Text {
	case "first":
		args[0].Text = "sequential"
	case "least_conn":
		c.warn(args[0], "proxy: the policy least_conn is read as random")
		args[0].Text = "random"
	}
	o.Args = args
	return o
}
