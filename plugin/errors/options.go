package errors

import (
	"log/slog"
	"math"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/match"
)

// maxPattern is CoreDNS's limit on the length of an expression.
const maxPattern = 10000

// Options are what one occurrence of the directive says.
type Options struct {
	Stacktrace  bool
	Consolidate []Consolidate // in order: the first that matches an error takes it
}

// Consolidate is one option to put errors together.
type Consolidate struct {
	Period    time.Duration
	Pattern   string // a regular expression that compiles
	Level     string // warning, error, info or debug
	ShowFirst bool
}

func (c *Consolidate) level() slog.Level { return levels[c.Level] }

// levels are the words that an option takes for them.
var levels = map[string]slog.Level{
	"warning": slog.LevelWarn, "error": slog.LevelError, "info": slog.LevelInfo, "debug": slog.LevelDebug,
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{
			Name: "stacktrace",
			Help: "log the stack when a handler panics",
			Set:  func(o *Options, _ *directive.Line) error { o.Stacktrace = true; return nil },
		}, {
			Name: "consolidate", Usage: "DURATION REGEXP [LEVEL] [show_first]", Min: 2, Max: 4, Repeat: true,
			Help: "count errors that match for this long and log their number once",
			Set:  setConsolidate,
		},
	}
}

func setConsolidate(o *Options, l *directive.Line) error {
	c := Consolidate{Level: "error", Pattern: l.Args[1].Text}
	var err error
	if c.Period, err = l.Args[0].Duration(time.Nanosecond, math.MaxInt64, 0); err != nil {
		return err
	}
	if len(c.Pattern) > maxPattern {
		return l.Args[1].Errorf("the expression is %d characters long, more than %d", len(c.Pattern), maxPattern)
	}
	if _, err = match.Compile(c.Pattern); err != nil {
		return l.Args[1].Errorf("not a regular expression: %w", err)
	}
	for i, a := range l.Args[2:] {
		_, isLevel := levels[a.Text]
		switch {
		case isLevel && i == 0:
			c.Level = a.Text
		case a.Text == "show_first" && !c.ShowFirst:
			c.ShowFirst = true
		default:
			return a.Errorf("%q is neither show_first nor a level in its place; levels are warning, error, info, debug", a.Text)
		}
	}
	o.Consolidate = append(o.Consolidate, c)
	return nil
}

// Parse reads one occurrence of the directive. The word stdout, where errors went before there was a choice, does nothing.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	if len(in.Args) > 1 || len(in.Args) == 1 && in.Args[0].Text != "stdout" {
		a := in.Args[len(in.Args)-1]
		return o, a.Errorf("%s: takes no argument, found %q", in.Name.Text, a.Text)
	}
	return o, directive.ParseOptions(in, &o, Rows())
}
