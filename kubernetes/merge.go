package kubernetes

import (
	"bytes"
	"net/netip"
	"slices"
)

// flush makes the entries of all cells that were touched and swaps them in, one by one: each Service changes in one step.
func (x *Index) flush() {
	for _, c := range x.dirty {
		c.dirty = false
		old, n := c.entry.Load(), x.merge(c)
		if !n.equal(old) {
			x.swap(c, old, n)
			x.changed()
		}
		if c.svc == nil && len(c.slices) == 0 {
			delete(x.cells, c.key)
			x.byAddr.leave(c.id)
		}
	}
	clear(x.dirty)
	x.dirty = x.dirty[:0]
}

// swap shows queries a cell's new entry. The reverse index is changed only where addresses come or go, so that one that stays is found
// throughout.
func (x *Index) swap(c *cell, old, n *entry) {
	x.before, x.after = old.addrs(x.before[:0]), n.addrs(x.after[:0])
	if n != nil {
		n.space.entries++
		c.entry.Store(x.services.put(c.key, *n))
	} else {
		x.services.delete(c.key)
		c.entry.Store(nil)
	}
	if old != nil {
		old.space.entries--
		x.leave(c.namespace(), old.space)
	}
	b := x.before
	for i := range x.after {
		a := &x.after[i]
		for len(b) > 0 && bytes.Compare(b[0][:], a[:]) < 0 {
			x.byAddr.remove(&b[0], c.id)
			b = b[1:]
		}
		if len(b) > 0 && b[0] == *a {
			b = b[1:]
			continue
		}
		x.byAddr.add(a, c.id)
	}
	for i := range b {
		x.byAddr.remove(&b[i], c.id)
	}
}

// addrs appends the addresses that lead back to an entry, those outside the cluster included, sorted, each once.
func (e *entry) addrs(to [][16]byte) [][16]byte {
	if e == nil {
		return to
	}
	for _, a := range e.svc.v4 {
		to = append(to, netip.AddrFrom4(a).As16())
	}
	to = append(to, e.svc.v6...)
	for _, ext := range e.svc.external {
		if ext.Addr.IsValid() {
			to = append(to, ext.Addr.As16())
		}
	}
	if e.eps != nil {
		for _, a := range e.eps.v4 {
			to = append(to, netip.AddrFrom4(a).As16())
		}
		to = append(to, e.eps.v6...)
	}
	slices.SortFunc(to, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(to)
}

// equal says whether two entries answer alike.
func (e *entry) equal(o *entry) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.svc == o.svc && e.total == o.total && (e.eps == nil) == (o.eps == nil) && (e.eps == nil || e.eps.equal(o.eps))
}

// namespace is the label of the namespace.
func (c *cell) namespace() string { return c.key[int(c.key[0])+1:] }

// merge makes the entry of a cell, or nil if there is no Service.
func (x *Index) merge(c *cell) *entry {
	if c.svc == nil {
		return nil
	}
	e := &entry{key: c.key, svc: c.svc, space: x.space(c.namespace())}
	for _, s := range c.slices {
		e.total += s.eps.len()
	}
	if e.total > 0 && c.svc.form != formExternal {
		e.eps = x.publish(c)
	}
	switch {
	case c.svc.form == formClusterIP:
		e.v4, e.v6 = c.svc.v4, c.svc.v6
	case c.svc.form == formHeadless && e.eps != nil:
		e.v4, e.v6 = distinct(e.eps.v4), distinct(e.eps.v6)
	}
	return e
}

// distinct drops repetitions from a sorted list, which it leaves alone.
func distinct[A comparable](in []A) []A {
	for i := 1; i < len(in); i++ {
		if in[i] == in[i-1] {
			return slices.Compact(slices.Clone(in))
		}
	}
	return in
}

// published says whether an endpoint of a Service is served: if it is ready, or if the Service wants all of them.
func (s *svcData) published(st state) bool { return s.unready || st&stateReady != 0 }

// publish merges the slices of a cell: what is published, sorted, each combination of address, host and ports once. It is nil if nothing is.
func (x *Index) publish(c *cell) *endpoints {
	if len(c.slices) == 1 {
		if e := c.slices[0].whole(c.svc); e != nil {
			return e
		}
	}
	items := x.items[:0]
	var groups [][]port
	for _, s := range c.slices {
		ports := s.eps.groups[0]
		g := slices.IndexFunc(groups, func(p []port) bool { return slices.Equal(p, ports) })
		if g < 0 {
			g = len(groups)
			groups = append(groups, ports)
		}
		for i := range s.eps.len() {
			if st := s.stateOf(i); c.svc.published(st) {
				items = append(items, item{s.eps.addr(i), s.eps.host(i), s.eps.zone(i), uint16(g), st})
			}
		}
	}
	slices.SortStableFunc(items, compareItems)
	items = slices.CompactFunc(items, func(a, b item) bool { return compareItems(a, b) == 0 })
	x.items = items
	if len(items) == 0 {
		return nil
	}
	return newEndpoints(items, groups)
}

// whole is the set of a slice's endpoints as it stands, if all are published and none repeats; else nil. Most Services have one
// such slice, and so no memory of their own for endpoints.
func (s *sliceData) whole(svc *svcData) *endpoints {
	e := s.eps
	if e.len() == 0 || s.states != nil && slices.ContainsFunc(s.states, func(st state) bool { return !svc.published(st) }) {
		return nil
	}
	for i := 1; i < e.len(); i++ {
		if e.addr(i) == e.addr(i-1) && e.host(i) == e.host(i-1) {
			return nil
		}
	}
	return e
}
