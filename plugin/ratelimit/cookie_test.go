package ratelimit

import (
	"encoding/hex"
	"net/netip"
	"testing"
	"time"
)

// TestVectors are the examples of RFC 9018, appendix A.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, secret, addr, query, reply string
		now                              int64
		valid                            bool
	}{
		{"a new client", "e5e973e5a6b2a43f48e7dc849e37bfcf", "198.51.100.100", "2464c4abcf10c957", "2464c4abcf10c957010000005cf79f111f8130c3eee29480", 1559731985, false},
		{"renewed", "e5e973e5a6b2a43f48e7dc849e37bfcf", "198.51.100.100", "2464c4abcf10c957010000005cf79f111f8130c3eee29480",
			"2464c4abcf10c957010000005cf7a871d4a564a1442aca77", 1559734385, true},
		{"IPv6, after the secret changed", "445536bcd2513298075a5d379663c962", "2001:db8:220:1:59de:d0f4:8769:82b8", "22681ab97d52c298",
			"22681ab97d52c298010000005cf7c609a6bb79d16625507a", 1559741961, false},
	} {
		key, query := decode(t, c.secret), decode(t, c.query)
		s := newSecret([secretLen]byte(key))
		addr, now := netip.MustParseAddr(c.addr), time.Unix(c.now, 0)
		if got := s.verify(query, addr, now); got != c.valid {
			t.Errorf("%s: valid %v, want %v", c.name, got, c.valid)
		}
		option := s.cookie(query[:clientLen], addr, uint32(c.now))
		if got := hex.EncodeToString(option[:]); got != c.reply {
			t.Errorf("%s: cookie %s, want %s", c.name, got, c.reply)
		}
		if !s.verify(option[:], addr, now) || s.verify(option[:], addr.Next(), now) || s.verify(option[:], addr, now.Add(cookieOld+time.Second)) ||
			s.verify(option[:], addr, now.Add(-cookieAhead-time.Second)) {
			t.Errorf("%s: our own cookie is not good for its client and time alone", c.name)
		}
	}
}

func decode(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
