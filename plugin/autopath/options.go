// Package autopath is the directive of that name: it goes through a client's search list for it, so that one query is enough where the
// client would send one for each of its domains.
package autopath

import (
	"bufio"
	"os"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are those of the directive.
type Options struct {
	Zones zones.Set
	// File is a resolv.conf(5) whose search list all clients have, or "".
	File string
	// From is the directive that knows the search list of each client, "kubernetes", or "".
	From string
}

// Shown has the file, or the directive that knows the search lists, in the place that both have.
func (o Options) Shown() []directive.Value {
	from := o.File
	if o.From != "" {
		from = "@" + o.From
	}
	return []directive.Value{{Name: "zones", Value: o.Zones.String()}, {Name: "search list", Value: from}}
}

// Parse reads the directive. Its last argument is a file, or @ and a directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	if err := in.NoBlock(); err != nil {
		return o, err
	}
	if len(in.Args) == 0 {
		return o, in.Name.Errorf("autopath: a file such as /etc/resolv.conf, or @kubernetes, must follow")
	}
	last := in.Args[len(in.Args)-1]
	if from, ok := strings.CutPrefix(last.Text, "@"); ok {
		if from != "kubernetes" {
			return o, last.Errorf("autopath: %q does not know the search lists of clients; @kubernetes does", last.Text)
		}
		o.From = from
	} else {
		o.File = in.Path(last.Text)
	}
	var err error
	o.Zones, err = zones.Parse(in, in.Args[:len(in.Args)-1])
	return o, err
}

// ReadSearch reads the search list of a resolv.conf(5). Of several search and domain lines the last counts.
func ReadSearch(file string) ([]wire.Canonical, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []wire.Canonical
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "search" && fields[0] != "domain" {
			continue
		}
		out = nil
		for _, s := range fields[1:] {
			if c, err := wire.ParseCanonical(s); err == nil && c != wire.Root {
				out = append(out, c)
			}
		}
	}
	return out, lines.Err()
}
