package secondary

import (
	"context"
	"fmt"
	"slices"

	"github.com/clusterdns/clusterdns/plugin/internal/zone"
	"github.com/clusterdns/clusterdns/server/wire"
)

// member is a zone that is here because a catalog zone names it.
type member struct {
	catalog wire.Canonical
	node    string
	next    wire.Canonical // the catalog that it may move to
	cancel  context.CancelFunc
}

// reconcile takes up the zones that a catalog names and forgets those that it names no longer.
func (h *Secondary) reconcile(ctx context.Context, catalog wire.Zone, z *zone.Zone) {
	list, err := z.Members()
	if err != nil {
		h.log.Error(fmt.Sprintf("catalog %s: its zones stay as they are", catalog), "error", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	named := map[wire.Canonical]bool{}
	of := h.find(catalog.Name())
	for _, m := range list {
		if !of.allows(m.Zone) {
			h.log.Warn(fmt.Sprintf("zone %s of catalog %s is none that the catalog option allows", m.Zone, catalog))
			continue
		}
		named[m.Zone.Name()] = true
		h.adopt(ctx, catalog, m)
	}
	for name, m := range h.members {
		if m.catalog == catalog.Name() && !named[name] {
			h.log.Info(fmt.Sprintf("zone %s is no longer in catalog %s", name, catalog))
			h.forget(name)
		}
	}
}

// allows says whether a catalog may name a zone: one that it is not trusted with would take that zone's names out of other hands (RFC 9432 7).
func (w *care) allows(z wire.Zone) bool {
	return len(w.members) == 0 || slices.ContainsFunc(w.members, func(m wire.Zone) bool { return m.Contains(z.Name()) })
}

// adopt makes a zone one of a catalog. One that is of another stays there, unless that one says that it moves here (RFC 9432 4.3.1.1). Its
// records stay while it moves only if it is the same member node.
func (h *Secondary) adopt(ctx context.Context, catalog wire.Zone, m zone.Member) {
	name := m.Zone.Name()
	have := h.members[name]
	_, known := h.table.Get(m.Zone)
	switch {
	case have == nil && known:
		h.log.Error(fmt.Sprintf("zone %s of catalog %s is served otherwise already", m.Zone, catalog))
		return
	case have == nil:
	case have.catalog == catalog.Name() && have.node == m.Node:
		have.next = m.Next
		return
	case have.catalog != catalog.Name() && have.next != catalog.Name():
		h.log.Error(fmt.Sprintf("zone %s of catalog %s is in catalog %s", m.Zone, catalog, have.catalog))
		return
	case have.node == m.Node:
		old, _ := h.table.Get(m.Zone)
		h.forget(name)
		h.table.Set(m.Zone, old)
	default:
		h.forget(name)
	}
	of := h.find(catalog.Name())
	h.table.Own(m.Zone, of.fall)
	ctx, cancel := context.WithCancel(ctx)
	h.members[name] = &member{catalog.Name(), m.Node, m.Next, cancel}
	w := newCare(&Options{From: of.from, Fallthrough: of.fall})
	h.set(name, w)
	h.running.Go(func() { h.keep(ctx, m.Zone, w) })
	h.log.Info(fmt.Sprintf("zone %s is in catalog %s", m.Zone, catalog))
}

// forget ends what is done for a member and no longer answers for it.
func (h *Secondary) forget(name wire.Canonical) {
	h.members[name].cancel()
	delete(h.members, name)
	h.set(name, nil)
	h.table.Delete(wire.NewZone(name))
}
