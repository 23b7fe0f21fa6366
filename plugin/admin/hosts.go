package admin

import (
	"net"
	"net/netip"
	"strings"
)

// Hosts are the names under which an address may be asked for. A page of somebody else's whose name is made to resolve to this server (DNS
// rebinding) asks under that name, and is not to be served.
type Hosts struct {
	name string // of the address, in lower case; "" for all addresses
	any  bool   // every address will do: nobody can be made to resolve an address
}

// HostsOf gives those of an address as ParseAddress gave it.
func HostsOf(addr string) Hosts {
	host, _, _ := net.SplitHostPort(addr)
	ip, err := netip.ParseAddr(host)
	if host == "" || err == nil && ip.IsUnspecified() {
		return Hosts{any: true}
	}
	return Hosts{name: strings.ToLower(host)}
}

// Loopback says whether the machine alone reaches the address.
func (h Hosts) Loopback() bool { return h.name != "" && loopback(h.name) }

// Has judges the Host header of a request.
func (h Hosts) Has(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil && h.any {
		return true
	}
	return loopback(host) || h.name != "" && host == h.name
}

// loopback says whether a name or address in lower case is that of the machine itself (RFC 6761 6.3).
func loopback(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
