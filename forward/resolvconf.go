package forward

import (
	"bufio"
	"bytes"
	"net/netip"
	"strings"
)

// nameservers are the addresses on the nameserver lines of a file like resolv.conf(5), with the given port, each once. Lines that hold
// no address are left out: the system's own resolver does the same.
func nameservers(file []byte, port uint16) []netip.AddrPort {
	var out []netip.AddrPort
	seen := map[netip.AddrPort]bool{}
	for sc := bufio.NewScanner(bytes.NewReader(file)); sc.Scan(); {
		f := strings.Fields(sc.Text())
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		ap, err := addrPort(f[1], port)
		if err != nil || checkAddr(ap, f[1]) != nil || seen[ap] {
			continue
		}
		seen[ap] = true
		out = append(out, ap)
	}
	return out
}
