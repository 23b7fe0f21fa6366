package zone

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Member is a zone that a catalog zone names (RFC 9432 4.1).
type Member struct {
	Zone wire.Zone
	Node string         // the label under which the catalog has it: another label is another zone, of the same name
	Next wire.Canonical // the catalog that it is to move to (coo, RFC 9432 4.3.1), or ""
}

var (
	errCatalogVersion = errors.New("the catalog zone has no version record that says 2 (RFC 9432 4.2.1)")
	errCatalogMember  = errors.New("the catalog zone has a member with more than one name, or one that stands twice")
)

// Members are the zones that a catalog zone names, in the order of their names. A catalog that is broken is an error, and nothing of it
// may be used (RFC 9432 5.1).
func (z *Zone) Members() ([]Member, error) {
	version := z.child("\x07version")
	if version == nil || !version.hasOnly(wire.TypeTXT, "\x012") {
		return nil, errCatalogVersion
	}
	suffix := "\x05zones" + string(z.origin.Name())
	var out []Member
	for name, n := range z.nodes {
		node, ok := strings.CutSuffix(string(name), suffix)
		if !ok || !oneLabel(node) {
			continue
		}
		to, names := n.pointer()
		if names > 1 {
			return nil, errCatalogMember
		}
		if names == 0 {
			continue
		}
		m := Member{Zone: wire.NewZone(to), Node: node[1:]}
		if coo := z.nodes[wire.Canonical("\x03coo"+string(name))]; coo != nil {
			if to, names := coo.pointer(); names == 1 {
				m.Next = to
			}
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(string(a.Zone.Name()), string(b.Zone.Name())) })
	for i := range out[min(1, len(out)):] {
		if out[i].Zone == out[i+1].Zone {
			return nil, errCatalogMember
		}
	}
	return out, nil
}

// oneLabel says whether text in wire form is one label and no more.
func oneLabel(s string) bool { return len(s) > 1 && len(s) == int(s[0])+1 }

// pointer gives the first name that PTR records lead to, and how many there are.
func (n *node) pointer() (to wire.Canonical, names int) {
	s := n.find(wire.TypePTR)
	if s == nil || len(s.data) == 0 {
		return "", 0
	}
	return folded(s.data[0]), len(s.data)
}

func (z *Zone) child(label string) *node {
	return z.nodes[wire.Canonical(label+string(z.origin.Name()))]
}

// hasOnly says whether the name has exactly one record of a type, with that RDATA.
func (n *node) hasOnly(t wire.Type, data string) bool {
	s := n.find(t)
	return s != nil && len(s.data) == 1 && string(s.data[0]) == data
}

func folded(name []byte) wire.Canonical {
	b := bytes.Clone(name)
	wire.Fold(b)
	return wire.Canonical(b)
}
