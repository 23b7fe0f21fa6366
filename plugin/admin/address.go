package admin

import (
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
)

// unixPrefix marks the path of a Unix socket.
const unixPrefix = "unix:"

// UnixPath is the path of an address that is a Unix socket.
func UnixPath(addr string) (path string, ok bool) { return strings.CutPrefix(addr, unixPrefix) }

// Reachable turns the address of a socket that listens on all addresses into one that can be connected to.
func Reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// ParseAddress reads the optional only argument of a directive, the address to serve HTTP on; def is what it is without one.
func ParseAddress(in *directive.Input, def string) (string, error) {
	if len(in.Args) == 0 {
		return def, nil
	}
	if len(in.Args) > 1 {
		return "", in.Args[1].Errorf("%s: takes one address, found %q behind it", in.Name.Text, in.Args[1].Text)
	}
	a := in.Args[0]
	host, port, err := net.SplitHostPort(a.Text)
	if _, digits := strconv.ParseUint(a.Text, 10, 16); err != nil && digits == nil {
		return "", a.Errorf("%s: %q is a port alone; write :%s for it on all addresses, or localhost:%s", in.Name.Text, a.Text, a.Text, a.Text)
	}
	if err != nil {
		return "", a.Errorf("%s: %q is not an address; write it like localhost:8080 or :8080", in.Name.Text, a.Text)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if errors.Is(err, strconv.ErrRange) {
		return "", a.Errorf("%s: port %s of %q is not within 0 and 65535", in.Name.Text, port, a.Text)
	}
	if err != nil {
		return "", a.Errorf("%s: %q is not a port of %q", in.Name.Text, port, a.Text)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}
