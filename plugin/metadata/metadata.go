// Package metadata is the metadata directive: it says for which zones facts about a query, such as the namespace of the Pod that asked, may
// be had by label. They are computed when something asks for one, so the directive costs nothing by itself.
package metadata

import (
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
)

// Options are what one occurrence of the directive says.
type Options struct {
	Zones zones.Set
}

// Parse reads one occurrence of the directive. Without arguments it holds for the zones of its server block.
func Parse(in *directive.Input) (Options, error) {
	if err := in.NoBlock(); err != nil {
		return Options{}, err
	}
	z, err := zones.Parse(in, in.Args)
	return Options{Zones: z}, err
}

// provider asks others for queries within its zones.
type provider struct {
	zones  zones.Set
	others []server.MetadataProvider
}

// New makes the one provider that a block with the directive has: others are asked in order, for queries within the zones of o. Labels
// that no provider has a right to, those without a slash, are never asked for.
func New(o Options, others ...server.MetadataProvider) server.MetadataProvider {
	return &provider{o.Zones, others}
}

// Metadata implements server.MetadataProvider.
func (p *provider) Metadata(q *server.Query, label string) (string, bool) {
	if !strings.Contains(label, "/") || !p.zones.Asked(q) {
		return "", false
	}
	for _, o := range p.others {
		if v, ok := o.Metadata(q, label); ok {
			return v, true
		}
	}
	return "", false
}
