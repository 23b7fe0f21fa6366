// Package ratelimit is the ratelimit directive, an extension of this project: it bounds the queries per second of each client, so that
// one Pod that asks in a loop does not take the answers of others, and keeps the server from being used to flood a forged address.
package ratelimit

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
)

// Options are what the directive says.
type Options struct {
	Rate    int            // queries per second of a client, in the long run
	Burst   int            // queries that a client may make at once
	Slip    int            // of the queries over the limit by UDP, one in so many gets an empty truncated reply; 0 for none
	Prefix4 int            // bits of an IPv4 address that make a client
	Prefix6 int            // bits of an IPv6 address that make a client
	Exempt  []netip.Prefix // clients without a limit
	Cookies bool           // DNS cookies are given and checked
	Secret  string         // file with the secret of the cookies, or "" for one of this process alone
}

// maxRate bounds RATE and burst: a core answers about 200,000 queries a second, so that more is no limit.
const maxRate = 1_000_000

var options = []directive.Option[Options]{
	{Name: "burst", Usage: "QUERIES", Min: 1, Max: 1, Help: "queries that a client may make at once; default twice RATE", Set: func(o *Options, l *directive.Line) (err error) {
		o.Burst, err = l.Args[0].Int(1, maxRate)
		return err
	}},
	{Name: "slip", Usage: "N", Min: 1, Max: 1, Help: "of the queries over the limit by UDP, one in N gets an empty truncated reply; 0 for none; default 2", Set: func(o *Options, l *directive.Line) (err error) {
		o.Slip, err = l.Args[0].Int(0, 1000)
		return err
	}},
	{Name: "prefix", Usage: "BITS4 BITS6", Min: 2, Max: 2, Help: "how much of an address makes a client; default 32 128", Set: func(o *Options, l *directive.Line) (err error) {
		if o.Prefix4, err = l.Args[0].Int(8, 32); err != nil {
			return err
		}
		o.Prefix6, err = l.Args[1].Int(16, 128)
		return err
	}},
	{Name: "exempt", Usage: "ADDRESS|CIDR…", Min: 1, Max: directive.Many, Repeat: true, Help: "clients without a limit", Set: setExempt},
	{Name: "cookies", Usage: "[FILE]", Max: 1, Help: "gives DNS cookies; FILE has the secret, 32 hexadecimal digits, that replicas share", Set: func(o *Options, l *directive.Line) error {
		o.Cookies = true
		if len(l.Args) == 1 {
			o.Secret = l.Args[0].Text
		}
		return nil
	}},
}

// Table is the table of options.
func Table() []directive.Option[Options] { return options[:len(options):len(options)] }

func setExempt(o *Options, l *directive.Line) error {
	for _, a := range l.Args {
		p, err := directive.Network(a.Text)
		if addr, aerr := netip.ParseAddr(a.Text); aerr == nil {
			addr = addr.Unmap()
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return a.Errorf("%q is no IP address and no network such as 10.0.0.0/8", a.Text)
		}
		o.Exempt = append(o.Exempt, p)
	}
	return nil
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{Slip: 2, Prefix4: 32, Prefix6: 128}
	if len(in.Args) != 1 {
		return o, in.Name.Errorf("ratelimit: want one number of queries per second, as in: ratelimit 1000")
	}
	var err error
	if o.Rate, err = in.Args[0].Int(1, maxRate); err != nil {
		return o, err
	}
	if err := directive.ParseOptions(in, &o, options); err != nil {
		return o, err
	}
	if o.Burst == 0 {
		o.Burst = 2 * o.Rate
	}
	if o.Secret != "" {
		o.Secret = in.Beside(o.Secret)
	}
	return o, nil
}

// secretLen is the length of the key of SipHash-2-4 in bytes.
const secretLen = 16

// readSecret reads a file of 32 hexadecimal digits. Its error never has the content.
func readSecret(file string) (s [secretLen]byte, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return s, fmt.Errorf("the secret of DNS cookies: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if n, err := hex.Decode(s[:], []byte(text[:min(len(text), 2*secretLen)])); err != nil || n != secretLen || len(text) != 2*secretLen {
		return s, fmt.Errorf("the secret of DNS cookies: %s must hold 32 hexadecimal digits", file)
	}
	return s, nil
}
