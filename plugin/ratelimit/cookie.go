package ratelimit

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/dchest/siphash"
)

const (
	// optCookie is the EDNS option code of DNS cookies (RFC 7873 4).
	optCookie = 10
	// clientLen and serverLen are the lengths of the two cookies that make an option (RFC 7873 4, RFC 9018 4).
	clientLen, serverLen = 8, 16
	// cookieVersion is the only one there is (RFC 9018 4.1).
	cookieVersion = 1
	// cookieOld and cookieAhead are how old a cookie may be, and how far in the future for clocks of other replicas (RFC 9018 4.3).
	cookieOld, cookieAhead = time.Hour, 5 * time.Minute
)

// secret makes server cookies (RFC 9018).
type secret struct{ k0, k1 uint64 }

func newSecret(key [secretLen]byte) secret {
	return secret{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])}
}

// cookie gives the option's content for a client's cookie: that, and the server cookie for it, the client's address and the time.
func (s secret) cookie(client []byte, addr netip.Addr, now uint32) (option [clientLen + serverLen]byte) {
	copy(option[:clientLen], client)
	option[clientLen] = cookieVersion
	binary.BigEndian.PutUint32(option[clientLen+4:], now)
	binary.LittleEndian.PutUint64(option[hashed:], s.hash(option[:hashed], addr))
	return option
}

// hashed is how much of the option the hash is over: client cookie, version, reserved bytes, time (RFC 9018 4.4).
const hashed = clientLen + 8

func (s secret) hash(of []byte, addr netip.Addr) uint64 {
	var in [hashed + 16]byte
	copy(in[:], of)
	n := hashed + copy(in[hashed:], addr.AsSlice())
	return siphash.Hash(s.k0, s.k1, in[:n])
}

// verify says whether the option has a server cookie of ours for this client and address that is not too old.
func (s secret) verify(option []byte, addr netip.Addr, now time.Time) bool {
	if len(option) != clientLen+serverLen || option[clientLen] != cookieVersion {
		return false
	}
	at := binary.BigEndian.Uint32(option[clientLen+4:])
	age := time.Duration(int32(uint32(now.Unix())-at)) * time.Second // RFC 1982 arithmetic: the clock may wrap
	if age > cookieOld || age < -cookieAhead {
		return false
	}
	// The hash is compared in one step, so how long it takes tells nothing.
	return binary.LittleEndian.Uint64(option[hashed:]) == s.hash(option[:hashed], addr)
}
