package loop_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/loop"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// remote is an upstream over a real socket, with what forward would do of it.
type remote struct {
	addr      string
	suspended chan bool
}

func (u *remote) String() string  { return u.addr }
func (u *remote) Zone() wire.Zone { return wire.NewZone(wire.Root) }
func (u *remote) Suspend(on bool) { u.suspended <- on }

func (u *remote) State() (server.UpstreamState, string) { return server.UpstreamUp, "" }

func (u *remote) Probe(ctx context.Context, qu server.Question) error {
	m := servertest.Query(wire.Canonical(qu.Name).String(), uint16(qu.Type), 1232)
	_, err := dns.ExchangeContext(ctx, m, u.addr)
	return err
}

type remotes []server.Upstream

func (r remotes) Upstreams() []server.Upstream { return r }

// TestSockets: a resolver that forwards everything to this server is found, and names that need no upstream are answered meanwhile.
func TestSockets(t *testing.T) {
	t.Parallel()
	l := loop.New(loop.Options{Zones: []string{"."}}, slog.New(slog.DiscardHandler))
	s := servertest.Start(t, servertest.Block(".", server.Stage{Name: "loop", Handler: l}, server.Stage{Name: "behind", Handler: refuse{}}))
	var relayed atomic.Int64
	bad := &remote{suspended: make(chan bool, 2), addr: servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		relayed.Add(1)
		if r, err := dns.Exchange(m, s.Addr); err == nil {
			_ = w.WriteMsg(r)
		}
	})}
	good := &remote{suspended: make(chan bool, 2), addr: servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(m, dns.RcodeNameError))
	})}
	l.Watch(remotes{good, bad})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	select {
	case on := <-bad.suspended:
		if !on {
			t.Error("it is let go before it was cut off")
		}
	case <-time.After(10 * time.Second): // no pace, only an end
		t.Fatal("the loop is not found")
	}
	if r := s.Ask(t, "www.example.org.", dns.TypeA); r.Rcode != dns.RcodeRefused {
		t.Errorf("got %v", r)
	}
	if n := relayed.Load(); n != 1 {
		t.Errorf("the probe went round %d times, want once", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if on := <-bad.suspended; on || len(good.suspended) > 0 {
		t.Errorf("in the end the one is suspended %v, and the other was told %d times", on, len(good.suspended))
	}
}
