// Package header is the directive of that name: it sets and clears flags of queries, for the handlers behind it, and of replies.
package header

import (
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are what becomes of flags; a flag is in one of set and clear at the most.
type Options struct {
	Query, Reply Change
}

// Change is flags that are set and flags that are cleared.
type Change struct{ Set, Clear wire.Flags }

// Shown is the flags of queries and of responses, whatever lines they were said in.
func (o Options) Shown() []directive.Value {
	return []directive.Value{{Name: "query", Value: o.Query.String()}, {Name: "response", Value: o.Reply.String()}}
}

// String is what lines say to set and to clear.
func (c Change) String() string {
	var out []string
	for _, part := range []struct {
		word  string
		flags wire.Flags
	}{{"set", c.Set}, {"clear", c.Clear}} {
		words := part.word
		for _, known := range flags {
			if part.flags&known.flag != 0 {
				words += " " + known.name
			}
		}
		if words != part.word {
			out = append(out, words)
		}
	}
	return strings.Join(out, ", ")
}

// flags are those that can be changed, by their names.
var flags = []struct {
	name string
	flag wire.Flags
}{{"aa", wire.FlagAA}, {"ra", wire.FlagRA}, {"rd", wire.FlagRD}}

// Words are all words of the syntax.
func Words() []string { return []string{"query", "response", "set", "clear", "aa", "ra", "rd"} }

// Parse reads the directive. Lines without query or response are for responses, as they once were for all.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	if err := in.NoArgs(); err != nil {
		return o, err
	}
	if len(in.Lines) == 0 {
		return o, in.Name.Errorf("header: needs lines in braces such as: response set ra")
	}
	for _, l := range in.Lines {
		words := append([]directive.Arg{l.Name}, l.Args...)
		to := &o.Reply
		switch strings.ToLower(words[0].Text) {
		case "query":
			to, words = &o.Query, words[1:]
		case "response":
			words = words[1:]
		case "set", "clear":
			if in.Warn != nil {
				in.Warn(l.Name, "header: write response before %s", l.Name.Text)
			}
		default:
			return o, l.Name.Errorf("header: unknown word %q; a line is query or response, set or clear, and flags", l.Name.Text)
		}
		if err := to.read(l.Name, words); err != nil {
			return o, err
		}
	}
	return o, nil
}

// read reads the action and its flags. Of several actions for one flag the last counts.
func (c *Change) read(at directive.Arg, words []directive.Arg) error {
	if len(words) < 2 {
		return at.Errorf("header: set or clear and at least one of the flags aa, ra, rd must follow")
	}
	for _, w := range words[1:] {
		f := wire.Flags(0)
		for _, known := range flags {
			if strings.EqualFold(w.Text, known.name) {
				f = known.flag
			}
		}
		if f == 0 {
			return w.Errorf("header: unknown flag %q; known are aa, ra, rd", w.Text)
		}
		switch strings.ToLower(words[0].Text) {
		case "set":
			c.Set, c.Clear = c.Set|f, c.Clear&^f
		case "clear":
			c.Set, c.Clear = c.Set&^f, c.Clear|f
		default:
			return words[0].Errorf("header: unknown action %q; known are set and clear", words[0].Text)
		}
	}
	return nil
}

// Header changes flags.
type Header struct{ o Options }

// New makes the handler.
func New(o Options) *Header { return &Header{o} }

// Answer changes the query's flags and passes it on.
func (h *Header) Answer(r *server.Reply, q *server.Query) server.Verdict {
	q.Flags = q.Flags&^h.o.Query.Clear | h.o.Query.Set
	if h.o.Reply != (Change{}) && !q.Followed() {
		r.OnFinish(h, 0)
	}
	return server.Pass
}

// Finish changes the reply's flags.
func (h *Header) Finish(r *server.Reply, _ *server.Query, _ uint64) {
	r.ClearFlags(h.o.Reply.Clear)
	r.SetFlags(h.o.Reply.Set)
}
