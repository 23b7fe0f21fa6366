package server

import "github.com/clusterdns/clusterdns/server/wire"

// table finds the block of a query by the longest zone suffix. It is immutable.
type table struct {
	engine *engine
	zones  map[wire.Canonical][]*Block
	depths [128]bool // how many labels the zones have

	unrouted []Observer
	label    string // of the server, for what is counted outside blocks
}

func newTable(e *engine, l *Listener) *table {
	t := &table{engine: e, zones: make(map[wire.Canonical][]*Block, len(l.Blocks)), unrouted: l.Unrouted}
	if len(l.Blocks) > 0 {
		t.label = l.Blocks[0].Server
	}
	for _, b := range l.Blocks {
		t.zones[b.Zone.Name()] = append(t.zones[b.Zone.Name()], b)
		t.depths[b.Zone.Labels()] = true
	}
	return t
}

// find gives the block for q, or nil. DS records stand in the parent zone (RFC 4035 3.1.4.1), so for them the zone of that very name comes
// last.
func (t *table) find(q *Query) *Block {
	labels := q.Name.Labels()
	var apex *Block
	for i := 0; i <= labels; i++ {
		if !t.depths[labels-i] {
			continue
		}
		for _, b := range t.zones[wire.Canonical(q.Name.Suffix(i))] {
			if b.Match != nil && !b.Match(q) {
				continue
			}
			if i == 0 && q.Type == wire.TypeDS && labels > 0 {
				apex = b
				break
			}
			return b
		}
	}
	return apex
}
