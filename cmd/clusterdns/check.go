package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/config/directive"
)

// exitStrict is the exit code of check -strict for a Corefile that has warnings and no errors.
const exitStrict = 2

// checkFlags are the command line of check.
type checkFlags struct {
	conf    string
	port    string
	format  string
	verbose bool
	strict  bool
}

const checkUsage = `Reads and validates a Corefile and says what is wrong with it. Nothing is opened, looked up or started for that but imported files.

Usage: clusterdns check [FLAGS] [FILE]

Flags:
  -conf FILE       the Corefile; "-" reads standard input (default ./Corefile)
  -dns.port PORT   port of server blocks that name none (default 53)
  -format FORMAT   text or json (default text)
  -v               show the configuration in effect: the chain of each server block, and every option and where it was set
  -strict          exit 2 if there are warnings

Exit codes: 0 no errors, 1 errors, 2 warnings with -strict.
`

func parseCheckFlags(env environment, args []string) (*checkFlags, error) {
	f := &checkFlags{}
	set := flag.NewFlagSet("clusterdns check", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.conf, "conf", "", "")
	set.StringVar(&f.port, "dns.port", config.DefaultPort, "")
	set.StringVar(&f.format, "format", "text", "")
	set.BoolVar(&f.verbose, "v", false, "")
	set.BoolVar(&f.strict, "strict", false, "")
	err := set.Parse(args)
	named := f.conf != ""
	for err == nil && set.NArg() > 0 && !named { // flags may stand behind the file
		f.conf, named = set.Arg(0), true
		err = set.Parse(set.Args()[1:])
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		say(env.stdout, "%s", checkUsage)
		return nil, err
	case err != nil:
		return nil, err
	case set.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case f.format != "text" && f.format != "json":
		return nil, fmt.Errorf("-format is text or json, not %q", f.format)
	}
	return f, checkPort(f.port)
}

// finding is an error or a warning with its place.
type finding struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	source   string // the line of the file
}

// report is what check found.
type report struct {
	Findings []finding     `json:"findings"`
	Blocks   []serverBlock `json:"configuration,omitempty"`
}

// serverBlock is the configuration in effect of a server block.
type serverBlock struct {
	Zones []string `json:"zones"`
	File  string   `json:"file"`
	Line  int      `json:"line"`
	Chain []use    `json:"chain"`
}

type use struct {
	Directive string    `json:"directive"`
	File      string    `json:"file"`
	Line      int       `json:"line"`
	Settings  []setting `json:"settings"`
}

type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from,omitempty"` // "Corefile:5", or nothing for a default
}

// check is the subcommand of that name.
func check(env environment, args []string) int {
	f, err := parseCheckFlags(env, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		say(env.stderr, "clusterdns check: %v; -h lists what there is\n", err)
		return exitError
	}
	src, err := loadCorefile(env, f.conf)
	if err != nil {
		return fail(env, err)
	}
	c, err := config.Parse(src, f.port)
	var r report
	r.Findings = []finding{}
	r.add(c, "error", config.Errors(err))
	r.add(c, "warning", c.Warnings)
	if err == nil {
		r.add(c, "warning", c.Lint())
		if f.verbose {
			r.configuration(c)
		}
	}
	if f.format == "json" {
		enc := json.NewEncoder(env.stdout)
		enc.SetIndent("", "  ")
		_ = enc.Encode(r)
	} else {
		r.text(env.stdout, src.Name)
	}
	switch {
	case err != nil:
		return exitError
	case f.strict && len(r.Findings) > 0:
		return exitStrict
	}
	return exitOK
}

func (r *report) add(c *config.Config, severity string, errs []error) {
	for _, err := range errs {
		f := finding{Severity: severity, Message: err.Error()}
		var placed *directive.Error
		if errors.As(err, &placed) {
			f.File, f.Line, f.Column, f.Message = placed.File, placed.Line, placed.Column, placed.Err.Error()
			f.source, _ = c.SourceLine(placed.File, placed.Line)
		}
		r.Findings = append(r.Findings, f)
	}
}

func (r *report) configuration(c *config.Config) {
	for _, b := range c.Blocks {
		sb := serverBlock{File: b.At.File, Line: b.At.Line, Zones: []string{}, Chain: []use{}}
		for _, z := range b.Zones {
			sb.Zones = append(sb.Zones, z.String())
		}
		for _, u := range b.Uses {
			v := use{Directive: u.Directive.Name, File: u.Input.Name.File, Line: u.Input.Name.Line, Settings: []setting{}}
			for _, s := range u.Settings() {
				v.Settings = append(v.Settings, setting{s.Name, s.Value, s.From})
			}
			sb.Chain = append(sb.Chain, v)
		}
		r.Blocks = append(r.Blocks, sb)
	}
}

// text prints findings as compilers do, each with its line and a caret below the word, then the configuration, then a summary.
func (r *report) text(w io.Writer, name string) {
	count := map[string]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
		if f.File == "" {
			say(w, "%s: %s\n", f.Severity, f.Message)
			continue
		}
		say(w, "%s:%d:%d: %s: %s\n", f.File, f.Line, max(f.Column, 1), f.Severity, f.Message)
		if f.source != "" {
			say(w, "%5d | %s\n      | %s^\n", f.Line, f.source, indent(f.source, f.Column))
		}
	}
	for _, b := range r.Blocks {
		say(w, "\n%s  (%s:%d)\n", strings.Join(b.Zones, " "), b.File, b.Line)
		for _, u := range b.Chain {
			say(w, "  %s  (%s:%d)\n", u.Directive, u.File, u.Line)
			for _, s := range u.Settings {
				from := "default"
				if s.From != "" {
					from = s.From
				}
				say(w, "    %-20s %s  (%s)\n", s.Name, s.Value, from)
			}
		}
	}
	say(w, "%s: %s, %s\n", name, plural(count["error"], "error"), plural(count["warning"], "warning"))
}

// indent is white space as wide as what stands before a column, tabs kept.
func indent(line string, column int) string {
	var b strings.Builder
	n := 1
	for _, c := range line {
		if n >= column {
			break
		}
		n++
		if c != '\t' {
			c = ' '
		}
		b.WriteRune(c)
	}
	return b.String()
}

func plural(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
