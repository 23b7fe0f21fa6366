package hosts

import (
	"bufio"
	"errors"
	"fmt"
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

// What a file may hold, so that a mistake does not take the memory of a server that answers for others as well. Block lists are the largest files in use: a million
// names are 30 MB.
const (
	maxFile = 128 << 20
	// maxPerReply is how many addresses of a name, and names of an address, are kept: a reply of 65,535 bytes cannot hold more, as each takes
	// 12 at least. A block list has all its names at one address.
	maxPerReply = 65_535 / 12
)

var (
	errLarge  = fmt.Errorf("the file is larger than %d MiB", maxFile>>20)
	errNoFile = errors.New("it is no regular file")
)

// read adds lines of hosts(5). What is no address, and names that are none or not of the directive's zones, are left out.
func (t *table) read(from io.Reader, o *Options) error {
	limited := &io.LimitedReader{R: from, N: maxFile + 1}
	lines := bufio.NewScanner(limited)
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
	if limited.N == 0 {
		return errLarge
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
	if e.add(addr) && !wild && !o.NoReverse && len(t.names[addr]) < maxPerReply {
		t.names[addr] = append(t.names[addr], []byte(c))
	}
}

// add adds an address and says whether it is new.
func (e *entry) add(addr netip.Addr) bool {
	if len(e.v4) >= maxPerReply || len(e.v6) >= maxPerReply {
		return false
	}
	switch {
	case addr.Is4() && !slices.Contains(e.v4, addr.As4()):
		e.v4 = append(e.v4, addr.As4())
		return true
	case addr.Is6() && !slices.Contains(e.v6, addr.As16()):
		e.v6 = append(e.v6, addr.As16())
		return true
	}
	return false
}
