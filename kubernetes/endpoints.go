package kubernetes

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"unique"
)

// endpoints are addresses with what is known of each, in arrays side by side: 75,000 of them must cost little. Those of IPv4 come first. Each
// family is sorted by address, and equal ones by host. It is immutable.
type endpoints struct {
	v4     [][4]byte
	v6     [][16]byte
	hosts  []string   // wire labels of hostname or Pod name, "" where the address makes the name; nil if all are ""
	byHost []uint32   // the indexes that have a host, sorted by it; nil if none has
	zones  []interned // wire labels of the topology zone; nil if none is known or asked for
	group  []uint16   // index in groups; nil if all are 0
	groups [][]port   // different sets of ports
}

func (e *endpoints) len() int { return len(e.v4) + len(e.v6) }

// addr is the address of endpoint i.
func (e *endpoints) addr(i int) netip.Addr {
	if i < len(e.v4) {
		return netip.AddrFrom4(e.v4[i])
	}
	return netip.AddrFrom16(e.v6[i-len(e.v4)])
}

func (e *endpoints) host(i int) string {
	if e.hosts == nil {
		return ""
	}
	return e.hosts[i]
}

func (e *endpoints) zone(i int) string {
	if e.zones == nil {
		return ""
	}
	return e.zones[i].Value()
}

func (e *endpoints) groupOf(i int) uint16 {
	if e.group == nil {
		return 0
	}
	return e.group[i]
}

// portsOf are the ports of endpoint i.
func (e *endpoints) portsOf(i int) []port {
	if len(e.groups) == 0 {
		return nil
	}
	return e.groups[e.groupOf(i)]
}

// at gives the indexes from lo up to but without hi of the endpoints with an address.
func (e *endpoints) at(a netip.Addr) (lo, hi int) {
	if a.Is4() {
		b := a.As4()
		lo, _ = slices.BinarySearchFunc(e.v4, b, func(x, y [4]byte) int { return bytes.Compare(x[:], y[:]) })
		for hi = lo; hi < len(e.v4) && e.v4[hi] == b; {
			hi++
		}
		return lo, hi
	}
	b := a.As16()
	lo, _ = slices.BinarySearchFunc(e.v6, b, func(x, y [16]byte) int { return bytes.Compare(x[:], y[:]) })
	for hi = lo; hi < len(e.v6) && e.v6[hi] == b; {
		hi++
	}
	return lo + len(e.v4), hi + len(e.v4)
}

// named gives where in byHost the endpoints of a host stand; label is its label without the length byte.
func (e *endpoints) named(label []byte) (lo, hi int) {
	lo, hi = 0, len(e.byHost)
	for lo < hi {
		if m := (lo + hi) / 2; before(e.hosts[e.byHost[m]], label) {
			lo = m + 1
		} else {
			hi = m
		}
	}
	for hi = lo; hi < len(e.byHost) && is(e.hosts[e.byHost[hi]], label); {
		hi++
	}
	return lo, hi
}

// before says whether the first of a host's wire labels comes before a label, as compareWire has it.
func before(host string, label []byte) bool {
	n := int(host[0])
	return n < len(label) || n == len(label) && host[1:n+1] < string(label)
}

// is says whether a host's wire labels are just the one label.
func is(host string, label []byte) bool {
	return len(host) == len(label)+1 && host[1:] == string(label)
}

func (e *endpoints) equal(o *endpoints) bool {
	return e == o || slices.Equal(e.v4, o.v4) && slices.Equal(e.v6, o.v6) && slices.Equal(e.hosts, o.hosts) &&
		slices.Equal(e.zones, o.zones) && slices.Equal(e.group, o.group) &&
		slices.EqualFunc(e.groups, o.groups, func(a, b []port) bool { return slices.Equal(a, b) })
}

// item is one endpoint while a set of them is being made.
type item struct {
	addr       netip.Addr
	host, zone string
	group      uint16
	state      state
}

// state is the conditions of an endpoint.
type state uint8

const (
	stateReady state = 1 << iota
	stateServing
	stateTerminating
	// stateUsual is what nearly all are.
	stateUsual = stateReady | stateServing
)

// compareItems is the order of endpoints.
func compareItems(a, b item) int {
	if c := cmp.Compare(a.addr.BitLen(), b.addr.BitLen()); c != 0 {
		return c
	}
	return cmp.Or(a.addr.Compare(b.addr), strings.Compare(a.host, b.host), cmp.Compare(a.group, b.group))
}

// newEndpoints makes a set of sorted items.
func newEndpoints(items []item, groups [][]port) *endpoints {
	e := &endpoints{groups: groups}
	v4, _ := slices.BinarySearchFunc(items, 32, func(it item, bits int) int {
		if it.addr.BitLen() <= bits {
			return -1
		}
		return 1
	})
	if v4 > 0 {
		e.v4 = make([][4]byte, v4)
	}
	if n := len(items) - v4; n > 0 {
		e.v6 = make([][16]byte, n)
	}
	for i := range items {
		it := &items[i]
		if i < v4 {
			e.v4[i] = it.addr.As4()
		} else {
			e.v6[i-v4] = it.addr.As16()
		}
		e.describe(i, it, len(items))
	}
	e.sortHosts()
	return e
}

// describe fills in what endpoint i of n has besides its address. What none has takes no room.
func (e *endpoints) describe(i int, it *item, n int) {
	if it.host != "" {
		if e.hosts == nil {
			e.hosts = make([]string, n)
		}
		e.hosts[i] = it.host
	}
	if it.zone != "" {
		if e.zones == nil {
			e.zones = slices.Repeat([]interned{unique.Make("")}, n)
		}
		e.zones[i] = unique.Make(it.zone)
	}
	if it.group != 0 {
		if e.group == nil {
			e.group = make([]uint16, n)
		}
		e.group[i] = it.group
	}
}

// sortHosts makes byHost.
func (e *endpoints) sortHosts() {
	if e.hosts == nil {
		return
	}
	n := 0
	for _, h := range e.hosts {
		if h != "" {
			n++
		}
	}
	e.byHost = make([]uint32, 0, n)
	for i, h := range e.hosts {
		if h != "" {
			e.byHost = append(e.byHost, uint32(i))
		}
	}
	slices.SortStableFunc(e.byHost, func(a, b uint32) int {
		return compareWire(e.hosts[a], e.hosts[b])
	})
}

// compareWire orders hosts by their first label, shorter ones first, and then by what follows.
func compareWire(a, b string) int {
	return cmp.Or(strings.Compare(a[:min(len(a), int(a[0])+1)], b[:min(len(b), int(b[0])+1)]), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// sliceData is what the index keeps of an EndpointSlice: all its endpoints, published or not.
type sliceData struct {
	cell   *cell
	eps    *endpoints
	states []state // nil if all are usual
	gen    uint32
}

// stateOf is the state of endpoint i.
func (s *sliceData) stateOf(i int) state {
	if s.states == nil {
		return stateUsual
	}
	return s.states[i]
}
