package zones

import (
	"net/netip"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Address is the address whose reverse name n is: four numbers under in-addr.arpa (RFC 1035 3.5) or 32 digits under ip6.arpa (RFC 3596 2.5).
func Address(n *wire.Name) (netip.Addr, bool) {
	switch labels := n.Labels(); {
	case labels == 6 && string(n.Suffix(4)) == "\x07in-addr\x04arpa\x00":
		var a [4]byte
		for i := range a {
			v, ok := octet(n.Label(3 - i))
			if !ok {
				return netip.Addr{}, false
			}
			a[i] = v
		}
		return netip.AddrFrom4(a), true
	case labels == 34 && string(n.Suffix(32)) == "\x03ip6\x04arpa\x00":
		var a [16]byte
		for i := range 32 {
			v, ok := digit(n.Label(31 - i))
			if !ok {
				return netip.Addr{}, false
			}
			a[i/2] |= v << (4 * (1 - i%2))
		}
		return netip.AddrFrom16(a), true
	}
	return netip.Addr{}, false
}

// octet reads a decimal number below 256 without leading zeros.
func octet(b []byte) (byte, bool) {
	if len(b) == 0 || len(b) > 3 || len(b) > 1 && b[0] == '0' {
		return 0, false
	}
	v := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return byte(v), v < 256
}

// digit reads one hexadecimal digit in lower case.
func digit(b []byte) (byte, bool) {
	switch {
	case len(b) != 1:
		return 0, false
	case b[0] >= '0' && b[0] <= '9':
		return b[0] - '0', true
	case b[0] >= 'a' && b[0] <= 'f':
		return b[0] - 'a' + 10, true
	}
	return 0, false
}
