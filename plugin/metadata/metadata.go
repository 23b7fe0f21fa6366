// Package metadata is the metadata directive: it says for which zones facts about a query, such as the namespace of the Pod that asked, may
// be had by label. They are computed when something asks for one, so the directive costs nothing by itself.
package metadata

import (
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are what one occurrence of the directive says.
type Options struct {
	Zones []wire.Zone
}

// Parse reads one occurrence of the directive. Without arguments it holds for the zones of its server block.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	if err := in.NoBlock(); err != nil {
		return o, err
	}
	if len(in.Args) == 0 {
		for _, z := range in.Zones {
			c, err := wire.ParseCanonical(z)
			if err != nil {
				return Options{}, in.Name.Errorf("%s: %w", in.Name.Text, err)
			}
			o.Zones = append(o.Zones, wire.NewZone(c))
		}
		return o, nil
	}
	for _, a := range in.Args {
		c, err := wire.ParseCanonical(a.Text)
		if err != nil {
			return Options{}, a.Errorf("%s: %w", in.Name.Text, err)
		}
		o.Zones = append(o.Zones, wire.NewZone(c))
	}
	return o, nil
}

// provider asks others for queries within its zones.
type provider struct {
	zones  []wire.Zone
	others []server.MetadataProvider
}

// New makes the one provider that a block with the directive has: others are asked in order, for queries within the zones of o. Labels
// that no provider has a right to, those without a slash, are never asked for.
func New(o Options, others ...server.MetadataProvider) server.MetadataProvider {
	return &provider{o.Zones, others}
}

// Metadata implements server.MetadataProvider.
func (p *provider) Metadata(q *server.Query, label string) (string, bool) {
	if !strings.Contains(label, "/") || !p.covers(q) {
		return "", false
	}
	for _, o := range p.others {
		if v, ok := o.Metadata(q, label); ok {
			return v, true
		}
	}
	return "", false
}

func (p *provider) covers(q *server.Query) bool {
	for _, z := range p.zones {
		if _, ok := q.Name.Cut(z); ok {
			return true
		}
	}
	return false
}
