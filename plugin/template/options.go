// Package template is the directive of that name: it answers from records that are written as Go templates of the question.
package template

import (
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/match"
	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options is one template directive.
type Options struct {
	Class wire.Class // ANY for all
	Type  wire.Type  // ANY for all
	Zones zones.Set
	Match []string // regular expressions; none means every name

	Answer, Additional, Authority []string
	RCode                         wire.RCode
	HasError                      bool // an Extended DNS Error goes with the reply
	ErrorCode                     uint16
	ErrorText                     string
	Fallthrough                   zones.Fallthrough
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "match", Usage: "REGEX...", Min: 1, Max: directive.Many, Repeat: true,
			Help: "answers only names that one of the regular expressions matches; the first that does counts", Set: setMatch},
		{Name: "answer", Usage: "RR...", Min: 1, Max: directive.Many, Repeat: true, Help: "a record of the answer",
			Set: func(o *Options, l *directive.Line) error { return addTemplates(&o.Answer, l) }},
		{Name: "additional", Usage: "RR...", Min: 1, Max: directive.Many, Repeat: true, Help: "a record of the additional section",
			Set: func(o *Options, l *directive.Line) error { return addTemplates(&o.Additional, l) }},
		{Name: "authority", Usage: "RR...", Min: 1, Max: directive.Many, Repeat: true, Help: "a record of the authority section",
			Set: func(o *Options, l *directive.Line) error { return addTemplates(&o.Authority, l) }},
		{Name: "rcode", Usage: "CODE", Min: 1, Max: 1, Help: "the response code; NOERROR if there is none", Set: setRCode},
		{Name: "ederror", Usage: "CODE [TEXT]", Min: 1, Max: 2, Help: "an Extended DNS Error (RFC 8914) that goes with the reply", Set: setError},
		{Name: "fallthrough", Usage: "[ZONE...]", Max: directive.Many, Help: "passes names on that no regular expression matches",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.Fallthrough, err = zones.ParseFallthrough(l)
				return err
			}},
		{Name: "upstream", Usage: "[ADDRESS...]", Max: directive.Many, Help: "does nothing any more: CNAMEs are always followed here",
			Set: func(*Options, *directive.Line) error { return nil }},
	}
}

// Parse reads one template directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	if len(in.Args) < 2 {
		return o, in.Name.Errorf("template: a class and a type must follow, such as IN A or ANY ANY")
	}
	var ok bool
	if o.Class, ok = records.ParseClass(in.Args[0].Text); !ok {
		return o, in.Args[0].Errorf("template: %q is not a class; known are IN, CH, HS, ANY", in.Args[0].Text)
	}
	if o.Type, ok = records.ParseType(in.Args[1].Text); !ok {
		return o, in.Args[1].Errorf("template: %q is not a record type", in.Args[1].Text)
	}
	var err error
	if o.Zones, err = zones.Parse(in, in.Args[2:]); err != nil {
		return o, err
	}
	if err := directive.ParseOptions(in, &o, Rows()); err != nil {
		return o, err
	}
	if in.Warn != nil {
		remark(in)
	}
	return o, nil
}

func setMatch(o *Options, l *directive.Line) error {
	for _, a := range l.Args {
		if _, err := match.Compile(a.Text); err != nil {
			return a.Errorf("%q is not a regular expression: %w", a.Text, err)
		}
		o.Match = append(o.Match, a.Text)
	}
	return nil
}

func addTemplates(to *[]string, l *directive.Line) error {
	for _, a := range l.Args {
		if _, err := compile(a.Text); err != nil {
			return a.Errorf("%q is not a template: %w", a.Text, err)
		}
		*to = append(*to, a.Text)
	}
	return nil
}

// remark warns of what is no error and most likely not meant.
func remark(in *directive.Input) {
	if len(in.Lines) == 0 {
		in.Warn(in.Name, "template: without options it answers everything with nothing")
	}
	for _, l := range in.Lines {
		switch l.Name.Text {
		case "upstream":
			in.Warn(l.Name, "template: upstream does nothing any more; CNAMEs are always followed here")
		case "answer", "additional", "authority":
			warnFields(in.Warn, l.Args)
		}
	}
}

// warnFields remarks on fields that templates do not have. Each query would fail by them, and it is no error for CoreDNS.
func warnFields(warn func(at directive.Arg, format string, args ...any), templates []directive.Arg) {
	for _, a := range templates {
		p, err := compile(a.Text)
		if err != nil {
			continue // the option has said so
		}
		unknownFields(p.Root, func(field string) {
			warn(a, "template: there is no .%s, so queries that need it fail with SERVFAIL; known are .%s", field, strings.Join(fields(), ", ."))
		})
	}
}

func setRCode(o *Options, l *directive.Line) (err error) {
	var ok bool
	if o.RCode, ok = records.ParseRCode(l.Args[0].Text); !ok {
		err = l.Args[0].Errorf("%q is not a response code", l.Args[0].Text)
	}
	return err
}

func setError(o *Options, l *directive.Line) error {
	code, err := l.Args[0].Int(0, 0xFFFF)
	if err != nil {
		return err
	}
	o.HasError, o.ErrorCode = true, uint16(code)
	if len(l.Args) == 2 {
		o.ErrorText = l.Args[1].Text
	}
	return nil
}
