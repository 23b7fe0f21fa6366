package forward

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/server/wire"
)

// The ports of DNS (RFC 1035 4.2) and of DNS over TLS (RFC 7858 3.1).
const (
	dnsPort = 53
	tlsPort = 853
)

// To is one upstream as a forward line names it. Exactly one of Addr, File and Host is set, but for a bare word, which is a file if there
// is one of that name and a host otherwise: it sets both.
type To struct {
	Text       string         // as written
	TLS        bool           // tls://
	Addr       netip.AddrPort // an address
	ServerName string         // the name in its certificate, from tls://IP%NAME
	File       string         // a file like resolv.conf
	Host       string         // a host name, fully qualified
	Port       uint16         // the port for names in files and for hosts
}

// String is the upstream as it was written.
func (to To) String() string { return to.Text }

// parseTo reads an upstream. path makes a relative path one that can be opened.
func parseTo(text string, path func(string) string) (To, error) {
	to := To{Text: text, Port: dnsPort}
	rest := text
	if scheme, after, ok := strings.Cut(text, "://"); ok {
		rest = after
		switch scheme {
		case "dns":
		case "tls":
			to.TLS, to.Port = true, tlsPort
		case "https", "grpc", "quic":
			return to, fmt.Errorf("upstream %q: %s:// is not supported; use dns:// or tls://", text, scheme)
		default:
			return to, fmt.Errorf("upstream %q: unknown protocol %q; known are dns and tls", text, scheme)
		}
	}
	if rest == "" {
		return to, fmt.Errorf("upstream %q has no address", text)
	}
	if to.TLS && strings.Contains(rest, "%") {
		return to, to.named(rest)
	}
	if ap, err := addrPort(rest, to.Port); err == nil {
		to.Addr = ap
		return to, checkAddr(ap, text)
	}
	if strings.Contains(rest, "/") {
		to.File = path(rest)
		return to, nil
	}
	return to, to.word(rest, path)
}

// named reads IP%NAME and IP%NAME:PORT behind tls://, where a host name may stand for the IP.
func (to *To) named(s string) error {
	i := strings.LastIndexByte(s, '%') // an address may have a zone of its own
	ip, name := s[:i], s[i+1:]
	port := to.Port
	if strings.HasPrefix(ip, "[") { // [IP%NAME]:PORT is what the address syntax of zones would be
		ip = ip[1:]
		name = strings.Replace(name, "]", "", 1)
	}
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		n, err := strconv.ParseUint(name[i+1:], 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("upstream %q: bad port %q", to.Text, name[i+1:])
		}
		name, port = name[:i], uint16(n)
	}
	to.ServerName = name
	addr, err := netip.ParseAddr(ip)
	if err != nil && name != "" {
		if host, ok := hostName(ip); ok {
			to.Host, to.Port = host, port
			return nil
		}
	}
	if err != nil || name == "" {
		return fmt.Errorf("upstream %q: a server name goes behind an IP address or a host name, like tls://9.9.9.9%%dns.quad9.net", to.Text)
	}
	to.Addr = netip.AddrPortFrom(addr.Unmap(), port)
	return checkAddr(to.Addr, to.Text)
}

// word reads a host name with or without a port, which may as well be a file in the folder of the Corefile.
func (to *To) word(s string, path func(string) string) error {
	host, port, hasPort := strings.Cut(s, ":")
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if errors.Is(err, strconv.ErrRange) || err == nil && n == 0 {
			return fmt.Errorf("upstream %q: port %s is not within 1 and 65535", to.Text, port)
		}
		if err != nil {
			return fmt.Errorf("upstream %q is neither an address, a file nor a host name with a port", to.Text)
		}
		to.Port = uint16(n)
	} else {
		to.File = path(s)
	}
	if strings.Trim(host, ".0123456789") == "" {
		return fmt.Errorf("upstream %q is not an IP address", to.Text)
	}
	name, ok := hostName(host)
	if !ok {
		return fmt.Errorf("upstream %q is neither an address, a file nor a host name", to.Text)
	}
	to.Host = name
	return nil
}

// hostName is s fully qualified, if it is a host name.
func hostName(s string) (string, bool) {
	c, err := wire.ParseCanonical(s)
	if err != nil || strings.ContainsAny(s, "[]%/_ {}") || strings.Trim(s, ".0123456789") == "" {
		return "", false
	}
	return c.String(), true
}

// addrPort reads IP, IP:PORT, [IP] and [IP]:PORT.
func addrPort(s string, port uint16) (netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), nil
	}
	if l := len(s); l > 2 && s[0] == '[' && s[l-1] == ']' {
		s = s[1 : l-1]
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.AddrPort{}, errNoAddress
	}
	return netip.AddrPortFrom(a.Unmap(), port), nil
}

// checkAddr refuses addresses that no server can have.
func checkAddr(ap netip.AddrPort, text string) error {
	if ap.Port() == 0 {
		return fmt.Errorf("upstream %q: port 0", text)
	}
	if ap.Addr().IsMulticast() {
		return fmt.Errorf("upstream %q is a multicast address", text)
	}
	return nil
}
