package directive

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/server/wire"
)

// ZonesOf are the zones that a directive is for: those of args or, when there are none, those of the server block. They are in
// presentation form, lower case, fully qualified, and a network is the reverse zones that cover it (see SplitZone).
func (in *Input) ZonesOf(args []Arg) ([]string, error) {
	if len(args) == 0 {
		return in.Zones, nil
	}
	out := make([]string, 0, len(args))
	for _, a := range args {
		zones, _, err := SplitZone(a.Text)
		if err != nil {
			return nil, a.Errorf("%s: %w", in.Name.Text, err)
		}
		out = append(out, zones...)
	}
	return out, nil
}

// SplitZone reads a zone as the labels of server blocks and the arguments of directives have it: a name or a network in CIDR form, with an
// optional port behind the last colon. A network becomes the reverse zones that cover it, more than one when its length is not on
// an octet boundary (IPv4) or a nibble boundary (IPv6). port is "" when there is none.
func SplitZone(s string) (zones []string, port string, err error) {
	name := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		if i == len(s)-1 {
			return nil, "", fmt.Errorf("%q ends with a colon: a port must follow", s)
		}
		if n, nerr := strconv.Atoi(s[i+1:]); nerr == nil {
			if n < 0 || n > 65535 {
				return nil, "", fmt.Errorf("port %d of %q is not within 1 and 65535", n, s)
			}
			name, port = s[:i], strconv.Itoa(n)
		} else if _, perr := netip.ParsePrefix(s); perr != nil && !strings.Contains(s[i:], "/") {
			return nil, "", fmt.Errorf("port %s of %q is not a number", s[i+1:], s)
		}
	}
	if strings.Contains(name, "/") {
		if p, perr := netip.ParsePrefix(name); perr == nil {
			return Reverse(p), port, nil
		}
	}
	c, err := wire.ParseCanonical(name)
	if err != nil {
		return nil, "", fmt.Errorf("%q is not a zone: %w", s, err)
	}
	return []string{c.String()}, port, nil
}

// Reverse are the zones under in-addr.arpa or ip6.arpa that cover a network, in the order of their addresses.
func Reverse(p netip.Prefix) []string {
	p = p.Masked()
	unit, suffix := 4, "ip6.arpa."
	if p.Addr().Is4() {
		unit, suffix = 8, "in-addr.arpa."
	}
	steps := (p.Bits() + unit - 1) / unit // labels in front of the suffix
	free := steps*unit - p.Bits()         // bits of the first label that the network leaves open
	addr := p.Addr().AsSlice()
	out := make([]string, 0, 1<<free)
	for i := range 1 << free {
		var b strings.Builder
		for k := steps - 1; k >= 0; k-- {
			more := 0 // what the first label has over that of the network
			if k == steps-1 {
				more = i
			}
			if unit == 8 {
				fmt.Fprintf(&b, "%d.", int(addr[k])+more)
			} else {
				fmt.Fprintf(&b, "%x.", int(addr[k/2]>>(4*(1-k%2)))&0xF+more)
			}
		}
		out = append(out, b.String()+suffix)
	}
	return out
}
