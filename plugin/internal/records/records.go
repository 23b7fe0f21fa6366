// Package records makes the records of a reply from their presentation form (RFC 1035 5).
package records

import (
	"errors"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

var errEmpty = errors.New("no record in the text")

// Parse reads one record. Names without a final dot are fully qualified; a TTL that is missing is 3600.
func Parse(text string) (server.Record, error) {
	rr, err := dns.NewRR(text)
	if err != nil {
		return server.Record{}, err
	}
	if rr == nil {
		return server.Record{}, errEmpty
	}
	return From(rr)
}

// From takes over a record that miekg/dns has read. Its section is Answer.
func From(rr dns.RR) (server.Record, error) {
	m := dns.Msg{Answer: []dns.RR{rr}}
	b, err := m.Pack()
	if err != nil {
		return server.Record{}, err
	}
	out, err := server.Records(b)
	if err != nil || len(out) != 1 {
		return server.Record{}, errors.Join(errEmpty, err)
	}
	return out[0], nil
}

// Target is where the name in the RDATA of a record begins and ends, for the types whose RDATA has one worth following: CNAME, DNAME,
// NS, PTR, SOA (its MNAME), MX, SRV and NAPTR. ok is false for all others, and for RDATA that is cut short.
func Target(rr *server.Record) (from, to int, ok bool) {
	skip := 0
	switch rr.Type {
	case wire.TypeCNAME, wire.TypeDNAME, wire.TypeNS, wire.TypePTR, wire.TypeSOA:
	case wire.TypeMX:
		skip = 2
	case wire.TypeSRV:
		skip = 6
	case wire.TypeNAPTR:
		skip = 4
		for range 3 {
			if skip >= len(rr.Data) {
				return 0, 0, false
			}
			skip += 1 + int(rr.Data[skip])
		}
	default:
		return 0, 0, false
	}
	end, err := wire.SkipName(rr.Data, skip)
	return skip, end, err == nil
}

// ParseType reads the mnemonic of a type, in any letter case, or TYPE123.
func ParseType(s string) (wire.Type, bool) {
	if t, ok := wire.ParseType(s); ok {
		return t, true
	}
	t, ok := dns.StringToType[strings.ToUpper(s)]
	return wire.Type(t), ok
}

// ParseClass reads IN, CH, HS or ANY, in any letter case.
func ParseClass(s string) (wire.Class, bool) {
	c, ok := dns.StringToClass[strings.ToUpper(s)]
	return wire.Class(c), ok
}

// ParseRCode reads the mnemonic of a response code, in any letter case, or its number.
func ParseRCode(s string) (wire.RCode, bool) {
	if n, err := strconv.ParseUint(s, 10, 12); err == nil {
		return wire.RCode(n), n <= maxRCode
	}
	s = strings.ToUpper(s)
	for c := wire.RCode(0); c <= maxRCode; c++ {
		if c.String() == s {
			return c, true
		}
	}
	return wire.RCode(16), s == "BADSIG" // the other name of 16 (RFC 8945 5.2)
}

// maxRCode is the highest assigned response code: BADCOOKIE.
const maxRCode = 23
