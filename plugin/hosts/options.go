// Package hosts is the directive of that name: it answers from lines such as those of /etc/hosts (hosts(5)), in a file and in the Corefile.
package hosts

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
)

// defaultFile is where every Unix has its names.
const defaultFile = "/etc/hosts"

// Options are those of a hosts directive.
type Options struct {
	File        string
	Zones       zones.Set
	Inline      []string // lines of hosts(5)
	TTL         uint32
	NoReverse   bool
	Reload      time.Duration // 0 reads the file once
	Fallthrough zones.Fallthrough
	Unsupported bool // types other than A, AAAA and PTR fall through although the name is known
}

// Rows are the directive's options. What is none of them has to be a line of hosts(5).
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "ttl", Usage: "SECONDS", Min: 1, Max: 1, Help: "TTL of the records; 3600 by default",
			Set: func(o *Options, l *directive.Line) error {
				n, err := l.Args[0].Int(1, 65535)
				o.TTL = uint32(n)
				return err
			}},
		{Name: "no_reverse", Help: "makes no PTR records", Set: func(o *Options, _ *directive.Line) error { o.NoReverse = true; return nil }},
		{Name: "reload", Usage: "DURATION", Min: 1, Max: 1, Help: "how often the file is looked at; 5s by default, 0s for never",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.Reload, err = l.Args[0].Duration(0, math.MaxInt64, 0)
				return err
			}},
		{Name: "fallthrough", Usage: "[ZONE...]", Max: directive.Many, Help: "passes names on that are not known",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.Fallthrough, err = zones.ParseFallthrough(l)
				return err
			}},
		{Name: "fallthrough_unsupported", Help: "passes other types than A, AAAA and PTR on, although the name is known; needs fallthrough",
			Set: func(o *Options, _ *directive.Line) error { o.Unsupported = true; return nil }},
	}
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{File: defaultFile, TTL: 3600, Reload: 5 * time.Second}
	var names []directive.Arg
	if len(in.Args) > 0 {
		o.File, names = in.Path(in.Args[0].Text), in.Args[1:]
	}
	var err error
	if o.Zones, err = zones.Parse(in, names); err != nil {
		return o, err
	}
	rest := *in
	rest.Lines = nil
	for _, l := range in.Lines {
		switch _, err := netip.ParseAddr(l.Name.Text); {
		case option(l.Name.Text):
			rest.Lines = append(rest.Lines, l)
		case err != nil:
			warnLine(in, l.Name)
		case len(l.Args) == 0:
			in.Warn(l.Name, "hosts: a name must follow the address %s; this line does nothing", l.Name.Text)
		default:
			o.Inline = append(o.Inline, l.Name.Text+" "+strings.Join(l.Texts(), " "))
		}
	}
	if err := directive.ParseOptions(&rest, &o, Rows()); err != nil {
		return o, err
	}
	if o.Unsupported && !o.Fallthrough.On {
		return o, in.Name.Errorf("hosts: fallthrough_unsupported needs fallthrough")
	}
	return o, nil
}

func option(word string) bool {
	return slices.ContainsFunc(Rows(), func(o directive.Option[Options]) bool { return o.Name == word })
}

// warnLine warns of a line that is neither an option nor one of hosts(5). It is no error because hosts(5) has such lines ignored, and
// Corefiles are full of them.
func warnLine(in *directive.Input, word directive.Arg) {
	var names []string
	for _, o := range Rows() {
		names = append(names, o.Name)
	}
	hint := ""
	if n := directive.Nearest(word.Text, names); n != "" {
		hint = fmt.Sprintf("; did you mean %q?", n)
	}
	in.Warn(word, "hosts: %q is neither an address nor an option, so this line does nothing%s", word.Text, hint)
}
