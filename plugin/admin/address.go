package admin

import (
	"net"
	"strconv"

	"github.com/clusterdns/clusterdns/config/directive"
)

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
	if err != nil {
		return "", a.Errorf("%s: %q is not an address; write it like localhost:8080 or :8080", in.Name.Text, a.Text)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", a.Errorf("%s: %q is not a port of %q", in.Name.Text, port, a.Text)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}
