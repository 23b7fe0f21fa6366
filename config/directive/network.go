package directive

import "net/netip"

// mapped is the length of the prefix before an IPv4 address in IPv6 (RFC 4291 2.5.5.2).
const mapped = 96

// Network reads a network such as 10.0.0.0/8, whose host bits it clears. One of IPv4-mapped addresses is that of the IPv4 addresses that they stand for,
// as which addresses of clients are compared.
func Network(text string) (netip.Prefix, error) {
	n, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	if n.Addr().Is4In6() && n.Bits() >= mapped {
		n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-mapped)
	}
	return n.Masked(), nil
}
