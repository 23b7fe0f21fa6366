// Package zones finds the zone of a directive that a name falls into, and the zones for which it lets queries fall through.
package zones

import (
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Set is zones, those with most labels first.
type Set []wire.Zone

// New makes a set of names as directive.Input.ZonesOf gives them. A name that is no zone panics: ZonesOf has checked them.
func New(names []string) Set {
	s := make(Set, 0, len(names))
	for _, n := range names {
		if z := wire.NewZone(wire.MustCanonical(n)); !slices.Contains(s, z) {
			s = append(s, z)
		}
	}
	slices.SortStableFunc(s, func(a, b wire.Zone) int { return b.Labels() - a.Labels() })
	return s
}

// String is the zones with spaces between them.
func (s Set) String() string {
	var out []string
	for _, z := range s {
		out = append(out, z.String())
	}
	return strings.Join(out, " ")
}

// Parse makes the set of the zones that args name, or else of the server block's.
func Parse(in *directive.Input, args []directive.Arg) (Set, error) {
	names, err := in.ZonesOf(args)
	if err != nil {
		return nil, err
	}
	return New(names), nil
}

// Find gives the most specific zone that n is in, and how many labels stand before it.
func (s Set) Find(n *wire.Name) (z wire.Zone, labels int, ok bool) {
	for _, z := range s {
		if labels, ok := n.Cut(z); ok {
			return z, labels, true
		}
	}
	return wire.Zone{}, 0, false
}

// Contains says whether n is in any of the zones.
func (s Set) Contains(n *wire.Name) bool {
	_, _, ok := s.Find(n)
	return ok
}

// Fallthrough is the option of that name: for which names a query goes to the next handler when this one has nothing.
type Fallthrough struct {
	On    bool
	Zones Set // none means all
}

// ParseFallthrough reads the option's line.
func ParseFallthrough(l *directive.Line) (Fallthrough, error) {
	f := Fallthrough{On: true}
	if len(l.Args) == 0 {
		return f, nil
	}
	in := directive.Input{Line: *l}
	var err error
	f.Zones, err = Parse(&in, l.Args)
	return f, err
}

// For says whether a query for n falls through.
func (f Fallthrough) For(n *wire.Name) bool {
	return f.On && (len(f.Zones) == 0 || f.Zones.Contains(n))
}
