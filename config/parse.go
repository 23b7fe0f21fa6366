package config

import (
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/forward"
)

// DefaultPort is the port of labels that name none, unless the command line names one.
const DefaultPort = "53"

// Config is a Corefile that has been read and validated. Nothing has been opened, looked up or started for it but imported files.
type Config struct {
	Blocks   []*Block
	Warnings []error // remarks that are no errors; *directive.Error where they have a place
	Hash     string  // of what the Corefile says, imports included and comments not: hexadecimal SHA-512
	src      Source
	imports  []imported
	texts    map[string][]byte
	table    []Directive
}

// Block is a server block.
type Block struct {
	Zones []Zone
	Uses  []*Use // in the order of the table of directives, repetitions in that of the Corefile
	At    directive.Arg
}

// Use is one occurrence of a directive.
type Use struct {
	Directive *Directive
	Input     *directive.Input
	Options   any // what the directive's Parse gave
	index     int // which of the same name in its block
}

// use gives the first occurrence of a directive, or nil.
func (b *Block) use(name string) *Use {
	for _, u := range b.Uses {
		if u.Directive.Name == name {
			return u
		}
	}
	return nil
}

// Parse reads and validates a Corefile: labels without a port get the given one. The error joins all that was found, in the order of the
// Corefile. The Config is never nil: with an error it is what could be read, good for its warnings and its imports.
func Parse(src Source, port string) (*Config, error) {
	file, err := read(src)
	c := &Config{src: src, table: Directives(), imports: file.imports, texts: file.texts, Warnings: file.warnings}
	if err != nil {
		return c, err
	}
	c.Hash = hash(file.blocks)
	if len(file.blocks) == 0 {
		return c, &directive.Error{File: src.Name, Line: 1, Err: errEmpty}
	}
	var errs []error
	seen := newOverlaps()
	for _, sb := range file.blocks {
		b, berrs := c.block(sb, port)
		errs = append(errs, berrs...)
		errs = append(errs, seen.add(b.Zones, bindWords(b), b.use("view") != nil)...)
		c.Blocks = append(c.Blocks, b)
	}
	c.Warnings = told(c.Warnings, "warnings")
	return c, inOrder(errs)
}

// maxTold is how many errors, and how many warnings, are told of a Corefile: nobody reads on, and each comes with its line.
const maxTold = 100

// told leaves as many as that, and says how many there were besides.
func told(all []error, what string) []error {
	if len(all) <= maxTold {
		return all
	}
	return append(slices.Clip(all[:maxTold]), fmt.Errorf("and %d %s more", len(all)-maxTold, what))
}

var errEmpty = errors.New("there is no server block: write at least \".:53 {\", directives, and \"}\"")

// SourceLine is a line of a file that was read, as Error.File and Error.Line name it.
func (c *Config) SourceLine(file string, line int) (text string, ok bool) {
	lines := strings.Split(string(c.texts[file]), "\n")
	if line < 1 || line > len(lines) || c.texts[file] == nil {
		return "", false
	}
	return strings.TrimSuffix(lines[line-1], "\r"), true
}

// maxZones and maxUses bound a server block: each directive is for all of its zones, and is compared with those before it. The largest in use have
// some hundred of either.
const (
	maxZones = 10_000
	maxUses  = 10_000
)

// block validates one server block.
func (c *Config) block(sb serverBlock, port string) (*Block, []error) {
	b := &Block{At: sb.labels[0]}
	var errs []error
	for _, l := range sb.labels {
		errs = appendError(errs, placeholder(l))
	}
	if len(errs) > 0 {
		return b, errs
	}
	b.Zones, errs = c.parseLabels(sb.labels, port)
	if len(b.Zones) > maxZones {
		return b, append(errs, b.At.Errorf("a server block of more than %d zones: the zones of file, secondary and auto need no label each", maxZones))
	}
	if len(sb.lines) > maxUses {
		return b, append(errs, sb.lines[maxUses].Name.Errorf("more than %d directives in a server block", maxUses))
	}
	uses, uerrs := c.uses(b, sb.lines)
	errs = append(errs, uerrs...)
	root := ""
	for _, d := range c.table {
		for _, u := range uses[d.Name] {
			u.Input.Root, u.Input.Home = root, c.src.dir()
			err := d.parse(u)
			errs = appendError(errs, err)
			if o, ok := u.Options.(rootOptions); ok && err == nil {
				root = o.Dir
			}
			b.Uses = append(b.Uses, u)
		}
	}
	c.twice(b)
	for _, z := range b.Zones {
		if z.Transport == "tls" && b.use("tls") == nil {
			errs = append(errs, z.at.Errorf("%s: a tls directive must say which certificate to use", z.at.Text))
			break
		}
	}
	return b, errs
}

// twice warns of forward lines that are never asked, because one before is for the same zones and passes nothing on.
func (c *Config) twice(b *Block) {
	before := map[string]*Use{}
	for _, u := range b.Uses {
		o, ok := u.Options.(forward.Options)
		if !ok {
			continue
		}
		from := fmt.Sprint(o.From)
		if p := before[from]; p != nil {
			c.warn(u.Input.Name, "forward: this line is never used: the one at line %d is for %s already, and has no next or except", p.Input.Name.Line, u.Input.Args[0].Text)
		} else if len(o.Except) == 0 && len(o.Next) == 0 && !o.NextOnNoData {
			before[from] = u
		}
	}
}

// uses sorts lines by directive and checks what is true of all directives.
func (c *Config) uses(b *Block, lines []directive.Line) (map[string][]*Use, []error) {
	var errs []error
	uses := map[string][]*Use{}
	zones := make([]string, 0, len(b.Zones))
	for _, z := range b.Zones {
		if !slices.Contains(zones, z.Name) {
			zones = append(zones, z.Name)
		}
	}
	for _, l := range lines {
		l, ok, err := c.modernise(l)
		if !ok {
			errs = appendError(errs, err)
			continue
		}
		d := lookup(c.table, l.Name.Text)
		if d == nil {
			errs = append(errs, unknown(c.table, l.Name))
			continue
		}
		if err := walk(&l, placeholder); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := c.closes(d, &l); err != nil {
			errs = append(errs, err)
			continue
		}
		before := uses[d.Name]
		if len(before) > 0 && !d.Repeat {
			errs = appendError(errs, c.again(d, before[0], &l))
			continue
		}
		in := &directive.Input{Line: l, Zones: zones, Port: DefaultPort, Warn: c.warn, IsDirective: c.isDirective}
		if len(b.Zones) > 0 {
			in.Port = b.Zones[0].Port
		}
		uses[d.Name] = append(before, &Use{Directive: d, Input: in, index: len(before)})
	}
	return uses, errs
}

func (c *Config) isDirective(word string) bool { return lookup(c.table, word) != nil }

func (c *Config) warn(at directive.Arg, format string, args ...any) {
	c.Warnings = append(c.Warnings, at.Errorf(format, args...))
}

// walk calls f for every word of a line and joins the errors.
func walk(l *directive.Line, f func(directive.Arg) error) error {
	errs := []error{f(l.Name)}
	for _, a := range l.Args {
		errs = append(errs, f(a))
	}
	for i := range l.Lines {
		errs = append(errs, walk(&l.Lines[i], f))
	}
	return errors.Join(errs...)
}

func appendError(errs []error, err error) []error {
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

// Errors are the single errors that Parse joined.
func Errors(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range j.Unwrap() {
			out = append(out, Errors(e)...)
		}
		return out
	}
	return []error{err}
}

// inOrder joins errors by place: all those of one file together, by line.
func inOrder(errs []error) error {
	flat := Errors(errors.Join(errs...))
	place := func(err error) (string, int) {
		var e *directive.Error
		if errors.As(err, &e) {
			return e.File, e.Line
		}
		return "", 0
	}
	slices.SortStableFunc(flat, func(a, b error) int {
		fa, la := place(a)
		fb, lb := place(b)
		if fa != fb {
			return 0
		}
		return la - lb
	})
	return errors.Join(told(flat, "errors")...)
}

// hash is the digest of what a Corefile says. Words are quoted, so that no two Corefiles with different words look alike.
func hash(blocks []serverBlock) string {
	var b strings.Builder
	for _, sb := range blocks {
		for _, l := range sb.labels {
			b.WriteString(quote(l.Text))
		}
		b.WriteString("{\n")
		for i := range sb.lines {
			writeLine(&b, &sb.lines[i], "")
		}
		b.WriteString("}\n")
	}
	sum := sha512.Sum512([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

// writeLine writes a line as a Corefile has it.
func writeLine(b *strings.Builder, l *directive.Line, indent string) {
	b.WriteString(indent + quote(l.Name.Text))
	for _, a := range l.Args {
		b.WriteString(" " + quote(a.Text))
	}
	if l.HasBlock {
		b.WriteString(" {\n")
		for i := range l.Lines {
			writeLine(b, &l.Lines[i], indent+"    ")
		}
		b.WriteString(indent + "}")
	}
	b.WriteByte('\n')
}

// quote puts quotes around a word that needs them.
func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\r\n\"#") {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
}
