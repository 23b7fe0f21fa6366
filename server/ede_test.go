package server_test

import (
	"context"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// errorsOf are the Extended DNS Errors of a reply, each as its text.
func errorsOf(m *dns.Msg) (out []string) {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				out = append(out, e.ExtraText)
			}
		}
	}
	return out
}

// reasons adds three errors: texts of its own, and one in a buffer that it spoils at once.
func reasons(r *server.Reply, _ *server.Query) server.Verdict {
	r.AddEDE(server.EDEOther, "first")
	var buf [16]byte
	text := append(buf[:0], "second"...)
	r.AddEDEText(server.EDENetworkError, text)
	clear(text)
	r.AddEDE(server.EDEOther, "third")
	r.SetRCode(wire.RCodeNXDomain)
	return server.Done
}

func TestExtendedErrors(t *testing.T) {
	t.Parallel()
	seen := make(chan []server.ExtendedError, 2) // by UDP and by TCP
	asks := waiter(func(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
		p := q.Rest().Exchange(ctx, server.Question{Name: q.Name.Bytes(), Type: q.Type})
		seen <- p.EDE
		return server.Pass
	})
	plain := servertest.Block("plain.", stage(handler(reasons)))
	inner := servertest.Block("inner.", stage(asks), stage(handler(reasons)))
	off := servertest.Block("off.", stage(handler(reasons)))
	off.Options.NoEDE = true
	s := servertest.Start(t, plain, inner, off)
	for zone, want := range map[string]int{"plain.": 3, "inner.": 3, "off.": 0} {
		got := errorsOf(s.Ask(t, zone, dns.TypeA))
		if len(got) != want || want > 0 && (got[0] != "first" || got[1] != "second" || got[2] != "third") {
			t.Errorf("%s: %q", zone, got)
		}
	}
	if got := <-seen; len(got) != 3 || got[1] != (server.ExtendedError{Code: server.EDENetworkError, Text: "second"}) {
		t.Errorf("a question of a handler's own: %v", got)
	}
}

func TestExtendedErrorsTakeNoMemory(t *testing.T) { //nolint:paralleltest // it counts allocations of the whole process
	plain := servertest.Block("plain.", stage(handler(reasons)))
	q := servertest.Query("plain.", dns.TypeA, 1232)
	servertest.NoAllocs(t, q, plain)
}

// TestFailuresSaySo: what the server itself fails for is told to clients that can read it.
func TestFailuresSaySo(t *testing.T) {
	t.Parallel()
	circle := servertest.Block("circle.", stage(cnames(map[string]string{"circle.": "circle."})))
	leads := servertest.Block("leads.", stage(cnames(map[string]string{"leads.": "nowhere.leads."})))
	s := servertest.Start(t, servertest.Block("nobody.", stage(cnames(nil))), leads, circle)
	for zone, want := range map[string]string{
		"nobody.": "no directive of the server block answers this name",
		"leads.":  "no directive of the server block answers the name that its CNAME leads to",
		"circle.": "the chain of CNAMEs loops or is longer than 8",
	} {
		m := s.Ask(t, zone, dns.TypeA)
		if got := errorsOf(m); m.Rcode != dns.RcodeServerFailure || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %s %q", zone, dns.RcodeToString[m.Rcode], got)
		}
	}
}
