// Package config turns a Corefile into a running server: it reads and validates the text, builds what the directives ask for, and swaps
// it in under the live sockets.
//
// # Adding a directive
//
// The table in this file is the one list of directives, in the order in which a query meets them. A directive is one row:
//
//	row(Directive{Name: "nsid", Usage: "[DATA]", Help: "adds the server's identity"}, nsid.Parse, buildNSID)
//
// where nsid.Parse has the form func(*directive.Input) (nsid.Options, error), and the last argument puts what was parsed into the
// server block being built, in build_*.go:
//
//	func buildNSID(s *site, o nsid.Options) error {
//		s.handle(nsid.New(o))
//		return nil
//	}
//
// It is called once for each occurrence. A site also takes observers, metadata providers, HTTP routes, parts that ready waits for, and
// options of the block itself; see there. A part that costs something to make, or has state, is made through keep, so that a reload that
// does not change the directive's options goes on with it; if it has a Run method, that is called.
// Repeat says that a server block may have the directive more than once.
// OneLine names the options that CoreDNS reads word by word, behind which it lets the closing brace stand on the same line.
package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/whoami"
)

// Directive is one row of the table.
type Directive struct {
	Name    string
	Usage   string   // its arguments as documentation writes them
	Help    string   // one line
	Repeat  bool     // may stand more than once in a server block
	OneLine []string // options behind which the closing brace may stand on the same line

	parse func(u *Use) error
	build func(s *site, u *Use) error
}

// row completes a Directive by its two functions.
func row[O any](d Directive, parse func(*directive.Input) (O, error), build func(*site, O) error) Directive {
	d.parse = func(u *Use) error {
		o, err := parse(u.Input)
		u.Options = o
		return err
	}
	d.build = func(s *site, u *Use) error { return build(s, u.Options.(O)) }
	return d
}

// table is the list of directives in the order of the chain. It is CoreDNS's, but for cache: that stands where waiting begins.
var table = []Directive{
	row(Directive{Name: "root", Usage: "PATH", Help: "folder that relative paths of the server block begin in"}, parseRoot, nothing[rootOptions]),
	row(Directive{Name: "reload", Usage: "[INTERVAL] [JITTER]", Help: "takes up changes of the Corefile while running"}, parseReload, buildReload),
	row(Directive{Name: "bind", Usage: "ADDRESS|INTERFACE…", Help: "listens on these addresses instead of all", Repeat: true, OneLine: nil}, parseBind, buildBind),
	row(Directive{Name: "debug", Help: "logs at level debug, and lets a panic end the process"}, parseDebug, buildDebug),
	row(Directive{Name: "whoami", Help: "answers with the client's address, port and transport"}, whoami.Parse, buildWhoami),
	row(Directive{Name: "import", Usage: "FILE|PATTERN|SNIPPET", Help: "stands for the content of files or of a snippet", Repeat: true}, parseImport, nothing[importOptions]),
}

// Directives are the rows of the table in order.
func Directives() []Directive { return slices.Clone(table) }

func nothing[O any](*site, O) error { return nil }

// lookup finds a row, or nil.
func lookup(name string) *Directive {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// closes checks the closing braces within a line: where one stands behind an option's arguments, CoreDNS takes it for an argument
// unless it reads that option word by word.
func (d *Directive) closes(l *directive.Line) error {
	for i := range l.Lines {
		in := &l.Lines[i]
		if in.Closes && !slices.Contains(d.OneLine, in.Name.Text) {
			return in.Name.Errorf("%s: the closing brace behind %q must stand on a line of its own", d.Name, strings.TrimSpace(in.Name.Text+" "+texts(in.Args)))
		}
		if err := d.closes(in); err != nil {
			return err
		}
	}
	return nil
}

// foreign are directives of CoreDNS and of its common builds that are not served, with what to do.
var foreign = map[string]string{
	"etcd": "", "route53": "", "azure": "", "clouddns": "", "nomad": "", "geoip": "", "dnstap": "", "tsig": "", "dnssec": "", "sign": "",
	"grpc": "forward speaks DNS over UDP, TCP and TLS", "trace": "", "on": "", "quic": "", "proxyproto": "", "fanout": "forward asks several upstream servers in turn",
}

// unknown is the error for a directive that is not in the table.
func unknown(name directive.Arg) error {
	if hint, ok := foreign[name.Text]; ok {
		if hint != "" {
			hint = ": " + hint
		}
		return name.Errorf("the directive %q is not supported%s", name.Text, hint)
	}
	known := make([]string, len(table))
	for i := range table {
		known[i] = table[i].Name
	}
	guess := ""
	if n := nearest(name.Text, known); n != "" {
		guess = fmt.Sprintf("did you mean %q? ", n)
	}
	slices.Sort(known)
	return name.Errorf("unknown directive %q; %sknown are %s", name.Text, guess, strings.Join(known, ", "))
}

// nearest is the known word that a mistyped one was most likely meant to be, or "": one that differs in at most a third of its letters.
func nearest(word string, known []string) string {
	best, at := "", len(word)/3+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < at || d == at && best == "" {
			best, at = k, d
		}
	}
	return best
}

// distance is how many letters must be put in, left out or replaced to make b of a. Words longer than any directive's are far.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
