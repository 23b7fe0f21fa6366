package hosts

import (
	"bufio"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/server/wire"
)

// table is what is known of names and addresses. It does not change once it is in use.
type table struct {
	hosts   map[wire.Canonical]*entry
	below   map[wire.Canonical]*entry // what "*" stands for, one label below the key
	names   map[netip.Addr][][]byte   // wire form, for PTR records
	entries int
}

// entry is the addresses of one name in the order of the lines.
type entry struct {
	v4 [][4]byte
	v6 [][16]byte
}

func newTable() *table {
	return &table{hosts: map[wire.Canonical]*entry{}, below: map[wire.Canonical]*entry{}, names: map[netip.Addr][][]byte{}}
}

// clone copies a table so that lines can be added to it.
func (t *table) clone() *table {
	c := &table{hosts: copied(t.hosts), below: copied(t.below), names: maps.Clone(t.names), entries: t.entries}
	for a, n := range c.names {
		c.names[a] = slices.Clip(n)
	}
	return c
}

func copied(m map[wire.Canonical]*entry) map[wire.Canonical]*entry {
	c := make(map[wire.Canonical]*entry, len(m))
	for k, e := range m {
		c[k] = &entry{slices.Clip(e.v4), slices.Clip(e.v6)}
	}
	return c
}

// find gives what a name has: its own line, or that of the "*" one label above.
func (t *table) find(n *wire.Name) *entry {
	if e := t.hosts[wire.Canonical(n.Folded())]; e != nil || len(t.below) == 0 || n.Labels() == 0 {
		return e
	}
	return t.below[wire.Canonical(n.Suffix(1))]
}

// read adds lines of hosts(5). What is no address, and names that are none or not of the directive's zones, are left out.
func (t *table) read(from io.Reader, o *Options) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		addr = addr.WithZone("").Unmap()
		for _, f := range fields[1:] {
			if c, err := wire.ParseCanonical(f); err == nil {
				t.add(addr, c, o)
			}
		}
	}
	return lines.Err()
}

func (t *table) add(addr netip.Addr, c wire.Canonical, o *Options) {
	var n wire.Name
	if n.SetCanonical(c) != nil || !o.Zones.Contains(&n) {
		return
	}
	t.entries++
	in, key, wild := t.hosts, c, strings.HasPrefix(string(c), "\x01*")
	if wild {
		in, key = t.below, c[2:]
	}
	e := in[key]
	if e == nil {
		e = &entry{}
		in[key] = e
	}
	switch {
	case addr.Is4() && !slices.Contains(e.v4, addr.As4()):
		e.v4 = append(e.v4, addr.As4())
	case addr.Is6() && !slices.Contains(e.v6, addr.As16()):
		e.v6 = append(e.v6, addr.As16())
	}
	if !wild && !o.NoReverse && !slices.ContainsFunc(t.names[addr], func(b []byte) bool { return string(b) == string(c) }) {
		t.names[addr] = append(t.names[addr], []byte(c))
	}
}
