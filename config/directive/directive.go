// Package directive is how a directive of a Corefile reads its arguments and options: the tree that the configuration parser makes of
// the text, and generic code that checks rows of options against it. Parsing is pure: it opens nothing, looks nothing up
// and starts nothing, so that a Corefile can be checked anywhere.
package directive

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Arg is one word with the place it came from.
type Arg struct {
	Text   string
	File   string
	Line   int
	Column int // of the word's first character in its line, from 1; 0 if it is not known
}

// Errorf is an error at the place of a: "Corefile:12: …".
func (a Arg) Errorf(format string, args ...any) error {
	return &Error{File: a.File, Line: a.Line, Column: a.Column, Err: fmt.Errorf(format, args...)}
}

// Error is a fault in a configuration file.
type Error struct {
	File   string
	Line   int
	Column int // from 1; 0 if it is not known
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Line is a directive or an option: a word, its arguments on the same line, and the lines in braces behind them.
type Line struct {
	Name     Arg
	Args     []Arg
	Lines    []Line // what stands in the braces
	HasBlock bool   // whether there were braces at all
	Closes   bool   // the closing brace of the surrounding braces stands on this line too; only the reader of the Corefile looks at it
}

// Texts are the arguments as strings.
func (l *Line) Texts() []string {
	out := make([]string, len(l.Args))
	for i, a := range l.Args {
		out[i] = a.Text
	}
	return out
}

// Input is one occurrence of a directive, with what it may need of its surroundings.
type Input struct {
	Line
	// Zones are the zones of the server block, in presentation form, lower case, fully qualified: what most directives take
	// when they name none.
	Zones []string
	// Port is the port of the server block's first label.
	Port string
	// Root is the folder of the root directive, or "" without one.
	Root string
	// Home is the folder of the Corefile.
	Home string
	// IsDirective says whether a word is the name of a directive; nil if that is not known.
	IsDirective func(word string) bool
	// Warn takes remarks that are no errors, such as an option that does nothing any more.
	Warn func(at Arg, format string, args ...any)
}

// Path is where a path of the Corefile leads: relative ones begin in the folder of the root directive, or else in the working directory, as they
// do for CoreDNS.
func (in *Input) Path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(in.Root, p)
}

// Beside is Path for options that CoreDNS does not have: without a root directive relative paths begin beside the Corefile, so that a folder with
// all that a server needs can be put anywhere.
func (in *Input) Beside(p string) string {
	if in.Root == "" && !filepath.IsAbs(p) {
		return filepath.Join(in.Home, p)
	}
	return in.Path(p)
}

// Option is one row of a directive's table of options.
type Option[T any] struct {
	Name   string
	Usage  string // its arguments as documentation writes them: "DURATION [PERCENT%]"
	Min    int    // least number of arguments
	Max    int    // greatest number of arguments; Many for no limit
	Repeat bool   // may appear more than once
	Block  bool   // may have lines in braces
	Help   string // one line for docs and messages
	Set    func(to *T, l *Line) error
}

// Many is the Max of an option that takes any number of arguments.
const Many = math.MaxInt

// ParseOptions reads the lines in braces behind a directive by the rows of a table. Unknown names, wrong numbers of arguments and
// repetitions are errors that say what is known.
func ParseOptions[T any](in *Input, to *T, rows []Option[T]) error {
	seen := map[string]bool{}
	var errs []error
	for i := range in.Lines {
		l := &in.Lines[i]
		row := find(rows, l.Name.Text)
		if row == nil {
			errs = append(errs, unknown(in, l.Name, rows))
			if in.isDirective(l.Name.Text) {
				break // what follows stands in the wrong braces, too
			}
			continue
		}
		if err := row.check(in.Name.Text, l, seen[row.Name]); err != nil {
			errs = append(errs, err)
			continue
		}
		seen[row.Name] = true
		if err := row.Set(to, l); err != nil {
			errs = append(errs, within(l.Name, in.Name.Text+": "+row.Name, err))
		}
	}
	return errors.Join(errs...)
}

// unknown is the error for an option that is in no row. The name of a directive shows that the closing brace before it was forgotten.
func unknown[T any](in *Input, name Arg, rows []Option[T]) error {
	known := make([]string, len(rows))
	for i := range rows {
		known[i] = rows[i].Name
	}
	if in.isDirective(name.Text) {
		return name.Errorf("%s: unknown option %q, which is a directive: is the closing brace of %s (line %d) missing?", in.Name.Text, name.Text, in.Name.Text, in.Name.Line)
	}
	if n := Nearest(name.Text, known); n != "" {
		return name.Errorf("%s: unknown option %q; did you mean %q?", in.Name.Text, name.Text, n)
	}
	return name.Errorf("%s: unknown option %q; known are %s", in.Name.Text, name.Text, strings.Join(known, ", "))
}

func (in *Input) isDirective(word string) bool { return in.IsDirective != nil && in.IsDirective(word) }

// within puts the place and the option's name before an error, unless it knows a place of its own.
func within(at Arg, what string, err error) error {
	var placed *Error
	if errors.As(err, &placed) {
		return &Error{File: placed.File, Line: placed.Line, Column: placed.Column, Err: fmt.Errorf("%s: %w", what, placed.Err)}
	}
	return at.Errorf("%s: %w", what, err)
}

func (o *Option[T]) check(directive string, l *Line, seen bool) error {
	usage := strings.TrimSpace(o.Name + " " + o.Usage)
	switch {
	case seen && !o.Repeat:
		return l.Name.Errorf("%s: option %q appears more than once", directive, o.Name)
	case len(l.Args) < o.Min:
		return l.Name.Errorf("%s: option %q needs more arguments: %s", directive, o.Name, usage)
	case len(l.Args) > o.Max:
		return l.Args[o.Max].Errorf("%s: option %q takes no argument %q: %s", directive, o.Name, l.Args[o.Max].Text, usage)
	case l.HasBlock && !o.Block:
		return l.Name.Errorf("%s: option %q takes no lines in braces: %s", directive, o.Name, usage)
	}
	return nil
}

func find[T any](rows []Option[T], name string) *Option[T] {
	for i := range rows {
		if rows[i].Name == name {
			return &rows[i]
		}
	}
	return nil
}

// NoArgs is an error if the directive has arguments.
func (in *Input) NoArgs() error {
	if len(in.Args) > 0 {
		return in.Args[0].Errorf("%s: takes no argument, found %q", in.Name.Text, in.Args[0].Text)
	}
	return nil
}

// NoBlock is an error if the directive has lines in braces; braces with nothing in them say nothing.
func (in *Input) NoBlock() error {
	if len(in.Lines) > 0 {
		return in.Lines[0].Name.Errorf("%s: takes no options in braces", in.Name.Text)
	}
	return nil
}

// Shown is implemented by options whose fields are not what a Corefile calls them: it gives what is in effect in words that could stand there. The
// values are the same ones in the same order for all options of a directive; "" is nothing.
type Shown interface{ Shown() []Value }

// Value is one of them.
type Value struct{ Name, Value string }

// Switch is an option whose argument is on or off.
type Switch bool

func (s Switch) String() string {
	if s {
		return "on"
	}
	return "off"
}

// Switch reads on or off.
func (a Arg) Switch() (Switch, error) {
	if a.Text != "on" && a.Text != "off" {
		return false, a.Errorf("on or off must follow, not %q", a.Text)
	}
	return a.Text == "on", nil
}

// Int reads a whole number within bounds.
func (a Arg) Int(lo, hi int) (int, error) {
	n, err := strconv.Atoi(a.Text)
	if err != nil {
		return 0, a.Errorf("%q is not a whole number", a.Text)
	}
	if n < lo || n > hi {
		return 0, a.Errorf("%d is not within %d and %d", n, lo, hi)
	}
	return n, nil
}

// Duration reads a Go duration such as "5s" within bounds. A bare number is an error that says so, unless bare is a unit.
func (a Arg) Duration(lo, hi, bare time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(a.Text)
	if n, nerr := strconv.Atoi(a.Text); nerr == nil && bare > 0 {
		d, err = time.Duration(n)*bare, nil
	}
	if err != nil {
		return 0, a.Errorf("%q is not a duration; write it like 30s or 5m", a.Text)
	}
	if d < lo || d > hi {
		return 0, a.Errorf("%s is not within %s and %s", d, lo, hi)
	}
	return d, nil
}
