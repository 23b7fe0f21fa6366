// Package rewrite is the directive of that name: it changes what the handlers behind it look for, and turns the names, TTLs and
// response codes of their replies back or into others. The question of the reply is always what the client asked.
package rewrite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/match"
	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Field is what a rule rewrites.
type Field string

// The fields.
const (
	Name  Field = "name"
	Type  Field = "type"
	Class Field = "class"
	EDNS  Field = "edns0"
	TTL   Field = "ttl"
	CNAME Field = "cname"
	RCode Field = "rcode"
)

// Match is how a name is compared.
type Match string

// The ways of comparing. Names are compared in lower case with their final dot.
const (
	Exact     Match = "exact"
	Prefix    Match = "prefix"
	Suffix    Match = "suffix"
	Substring Match = "substring"
	Regex     Match = "regex"
)

// Options is one rule: one rewrite line of a server block.
type Options struct {
	Continue bool  // go on with the next rule after this one applied
	Field    Field // what is rewritten
	Match    Match // how From is compared, for the fields with names
	From, To string
	Auto     bool     // turn the names of the reply back
	Answers  []Answer // further changes of the reply's names, in order

	Old, New       uint16 // type, class and rcode
	MinTTL, MaxTTL uint32 // ttl
	Option         Option // edns0
}

// Answer is one "answer name" or "answer value".
type Answer struct {
	Value    bool   // names in the data of records rather than their owners
	From, To string // a regular expression, and a name with {1} for its groups
}

// Words are all words of the syntax that documentation has to explain.
func Words() []string {
	return []string{"continue", "stop", "name", "type", "class", "edns0", "ttl", "cname", "rcode", "exact", "prefix", "suffix",
		"substring", "regex", "answer", "auto", "value", "local", "nsid", "subnet", "set", "append", "replace", "unset", "revert",
		"qname", "qtype", "client_ip", "client_port", "protocol", "server_ip", "server_port"}
}

// Parse reads one rewrite directive. What stands in its braces continues its line.
func Parse(in *directive.Input) (Options, error) {
	args := append([]directive.Arg(nil), in.Args...)
	if in.HasBlock && len(args) >= 2 {
		return Options{}, in.Name.Errorf("rewrite: a rule stands either on the line or in braces, not both")
	}
	for _, l := range in.Lines {
		if l.HasBlock {
			return Options{}, l.Name.Errorf("rewrite: %q takes no lines in braces", l.Name.Text)
		}
		args = append(append(args, l.Name), l.Args...)
	}
	p := parser{at: in.Name, args: args}
	o, err := p.rule()
	if err == nil && len(p.args) > 0 {
		err = p.args[0].Errorf("rewrite: %s rule: nothing follows here, found %q", o.Field, p.args[0].Text)
	}
	return o, err
}

// parser takes words from the front of args.
type parser struct {
	at   directive.Arg // the last word taken
	args []directive.Arg
}

func (p *parser) next(what string) (string, error) {
	if len(p.args) == 0 {
		return "", p.at.Errorf("rewrite: %s is missing", what)
	}
	p.at, p.args = p.args[0], p.args[1:]
	return p.at.Text, nil
}

// take is next for several words.
func (p *parser) take(what string, to ...*string) (err error) {
	for _, s := range to {
		if *s, err = p.next(what); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) rule() (o Options, err error) {
	if len(p.args) > 0 && (strings.EqualFold(p.args[0].Text, "continue") || strings.EqualFold(p.args[0].Text, "stop")) {
		o.Continue = strings.EqualFold(p.args[0].Text, "continue")
		p.at, p.args = p.args[0], p.args[1:]
	}
	word, err := p.next("the field")
	if err != nil {
		return o, err
	}
	err = p.field(&o, Field(strings.ToLower(word)))
	return o, err
}

// field reads what stands behind the field.
func (p *parser) field(o *Options, f Field) (err error) {
	switch o.Field = f; f {
	case Name:
		return p.name(o)
	case Type, Class:
		return p.code(o)
	case EDNS:
		o.Option, err = p.edns()
		return err
	case TTL:
		return p.ttl(o)
	case CNAME:
		p.match(o, 2)
		if err := p.take("the name to look for and its replacement", &o.From, &o.To); err != nil {
			return err
		}
		return p.names(o)
	case RCode:
		return p.rcode(o)
	case "answer":
		return p.at.Errorf("rewrite: a rule does not begin with answer; it follows a name rule")
	}
	return p.at.Errorf("rewrite: unknown field %q; known are name, type, class, edns0, ttl, cname, rcode", p.at.Text)
}

// match reads the way of comparing if more words follow than the rule needs without it.
func (p *parser) match(o *Options, need int) {
	o.Match = Exact
	if len(p.args) <= need {
		return
	}
	o.Match = Match(strings.ToLower(p.args[0].Text))
	p.at, p.args = p.args[0], p.args[1:]
}

// names checks and normalises From and To.
func (p *parser) names(o *Options) error {
	switch o.Match {
	case Exact:
		for _, s := range []string{o.From, o.To} {
			if _, err := wire.ParseName(s); err != nil {
				return p.at.Errorf("rewrite: %w", err)
			}
		}
	case Prefix, Suffix, Substring:
	case Regex:
		if err := checkPattern(o.From, o.To); err != nil {
			return p.at.Errorf("rewrite: %w", err)
		}
		o.To = normal(o.To)
		return nil
	default:
		return p.at.Errorf("rewrite: unknown match %q; known are exact, prefix, suffix, substring, regex", o.Match)
	}
	o.From, o.To = normal(o.From), normal(o.To)
	return nil
}

// normal is lower case with a final dot.
func normal(s string) string {
	s = strings.ToLower(s)
	if !strings.HasSuffix(s, ".") && s != "" {
		s += "."
	}
	return s
}

// checkPattern says whether from is a regular expression with all groups that to uses.
func checkPattern(from, to string) error {
	re, err := match.Compile(from)
	if err != nil {
		return fmt.Errorf("%q is not a regular expression: %w", from, err)
	}
	for i := re.NumSubexp() + 1; i < 100; i++ {
		if g := "{" + strconv.Itoa(i) + "}"; strings.Contains(to, g) {
			return fmt.Errorf("%q uses %s, but %q has only %d groups", to, g, from, re.NumSubexp())
		}
	}
	return nil
}

func (p *parser) name(o *Options) error {
	p.match(o, 2)
	if err := p.take("the name to look for and its replacement", &o.From, &o.To); err != nil {
		return err
	}
	if err := p.names(o); err != nil {
		return err
	}
	o.Auto = o.Match == Exact
	named, auto := false, false
	for first := true; len(p.args) > 0; first = false {
		a, err := p.answer(first)
		switch {
		case err != nil:
			return err
		case a == nil:
			o.Auto, auto = true, true
			continue
		}
		named = named || !a.Value
		o.Answers = append(o.Answers, *a)
	}
	if auto && named {
		return p.at.Errorf("rewrite: answer auto and answer name cannot stand in one rule")
	}
	return nil
}

// answer reads one "answer auto|name|value"; nil means auto. The word answer may be left out but for the first.
func (p *parser) answer(first bool) (*Answer, error) {
	word, _ := p.next("")
	if word == "answer" {
		var err error
		if word, err = p.next("auto, name or value"); err != nil {
			return nil, err
		}
	} else if first {
		return nil, p.at.Errorf("rewrite: only answer may follow the names, found %q", word)
	}
	switch {
	case word == "auto":
		return nil, nil
	case word != "name" && word != "value":
		return nil, p.at.Errorf("rewrite: answer is auto, name or value, not %q", word)
	case word == "name" && p.auto():
		_, err := p.next("")
		return nil, err
	}
	return p.pattern(word)
}

// auto says whether the word auto stands alone: "answer name auto" is a way to write "answer auto".
func (p *parser) auto() bool {
	return len(p.args) > 0 && p.args[0].Text == "auto" && (len(p.args) == 1 || p.args[1].Text == "answer")
}

// pattern reads the two arguments of answer name and answer value.
func (p *parser) pattern(word string) (*Answer, error) {
	a := &Answer{Value: word == "value"}
	if err := p.take("the pattern and the replacement of answer "+word, &a.From, &a.To); err != nil {
		return nil, err
	}
	if err := checkPattern(a.From, a.To); err != nil {
		return nil, p.at.Errorf("rewrite: answer %s: %w", word, err)
	}
	a.To = normal(a.To)
	return a, nil
}

// code reads the two types or classes of a rule.
func (p *parser) code(o *Options) error {
	for _, to := range []*uint16{&o.Old, &o.New} {
		word, err := p.next("the " + string(o.Field) + " to look for and its replacement")
		if err != nil {
			return err
		}
		var known bool
		if o.Field == Type {
			var t wire.Type
			t, known = records.ParseType(word)
			*to = uint16(t)
		} else {
			var c wire.Class
			c, known = records.ParseClass(word)
			*to = uint16(c)
		}
		if !known {
			return p.at.Errorf("rewrite: %q is not a %s", word, o.Field)
		}
	}
	return nil
}

// maxTTL is the highest that there is (RFC 2181 8).
const maxTTL = 1<<31 - 1

func (p *parser) ttl(o *Options) error {
	p.match(o, 2)
	var span string
	if err := p.take("the name to look for and the TTL", &o.From, &span); err != nil {
		return err
	}
	lo, hi, ranged := strings.Cut(span, "-")
	if !ranged {
		hi = lo
	}
	o.MaxTTL = maxTTL
	for i, s := range []string{lo, hi} {
		if s == "" && ranged && span != "-" {
			continue
		}
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return p.at.Errorf("rewrite: %q is not a TTL or a range of them such as 30, 30-300, -30 or 30-", span)
		}
		*[]*uint32{&o.MinTTL, &o.MaxTTL}[i] = uint32(n)
	}
	if o.MinTTL > o.MaxTTL {
		return p.at.Errorf("rewrite: the TTLs %q end before they begin", span)
	}
	o.To = "."
	err := p.names(o)
	o.To = ""
	return err
}

func (p *parser) rcode(o *Options) error {
	p.match(o, 3)
	var old, now string
	if err := p.take("the name to look for, the rcode and its replacement", &o.From, &old, &now); err != nil {
		return err
	}
	for i, s := range []string{old, now} {
		c, ok := records.ParseRCode(s)
		if !ok {
			return p.at.Errorf("rewrite: %q is not a response code", s)
		}
		*[]*uint16{&o.Old, &o.New}[i] = uint16(c)
	}
	o.To = "."
	err := p.names(o)
	o.To = ""
	return err
}
