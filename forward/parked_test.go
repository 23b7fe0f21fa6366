//go:build !race

package forward

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestParkedMemory has 1,000 queries wait for an upstream that is silent, for different names and for one. What they take is bounded: there
// is no goroutine for any of them, and no buffer larger than they need.
func TestParkedMemory(t *testing.T) { // alone: it looks at the whole process
	const n, each = 1000, 200 // queries, few enough for all to come while the first still waits, and how many by one connection: fewer than may wait there
	for what, c := range map[string]struct {
		name func(i int) string
		most int // bytes each
	}{
		"different names": {func(i int) string { return fmt.Sprintf("n%d.example.org.", i) }, 6 << 10},
		"one name":        {func(int) string { return "n.example.org." }, 4 << 10},
	} {
		t.Run(what, func(t *testing.T) {
			upstream, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer upstream.Close()
			s := serving(t, running(t, "forward . "+upstream.LocalAddr().String()+" {\n prefer_udp\n read_timeout 4800ms\n}"))
			clients := make([]*dns.Conn, n/each)
			for i := range clients {
				conn, err := net.Dial("tcp", s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				clients[i] = &dns.Conn{Conn: conn}
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			}
			if err := clients[0].WriteMsg(servertest.Query("first.example.org.", dns.TypeA, 1232)); err != nil {
				t.Fatal(err)
			}
			awaitParked(t, s, 1)
			goroutines, bytes := runtime.NumGoroutine(), used()
			for i := range n {
				if err := clients[i%len(clients)].WriteMsg(servertest.Query(c.name(i), dns.TypeA, 1232)); err != nil {
					t.Fatal(err)
				}
			}
			awaitParked(t, s, n+1)
			took := (used() - bytes) / n
			t.Logf("%d bytes each", took)
			if took > c.most {
				t.Errorf("%d bytes for a query that waits, want %d at the most", took, c.most)
			}
			if now := runtime.NumGoroutine(); now > goroutines+n/10 {
				t.Errorf("%d goroutines, %d before", now, goroutines)
			}
			for i := range n + 1 { // the last one is the one more of the first
				if m, err := clients[i%len(clients)].ReadMsg(); err != nil || m.Rcode != dns.RcodeServerFailure {
					t.Fatalf("%v, %v", m, err)
				}
			}
		})
	}
}

// awaitParked waits until n queries wait.
func awaitParked(t *testing.T, s *servertest.Server, n int64) {
	t.Helper()
	for end := time.Now().Add(4500 * time.Millisecond); s.Parked() < n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d queries wait, want %d", s.Parked(), n)
		}
	}
}

// used is what objects and stacks take.
func used() int {
	for range 3 { // pools give what they hold to the second collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
