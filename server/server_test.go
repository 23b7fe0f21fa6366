package server_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// answerA answers every A question with one address.
type answerA struct{}

func (answerA) Answer(r *server.Reply, q *server.Query) server.Verdict {
	r.SetAA()
	r.A(server.Answer, server.Owner, 30, [4]byte{192, 0, 2, 1})
	return server.Done
}

// slow waits before it answers.
type slow struct{ answerA }

func (slow) Answer(*server.Reply, *server.Query) server.Verdict { return server.Wait }

func (s slow) AwaitAnswer(_ context.Context, r *server.Reply, q *server.Query) server.Verdict {
	return s.answerA.Answer(r, q)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]server.Handler{"inline": answerA{}, "parked": slow{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, servertest.Block("example.org", server.Stage{Name: "test", Handler: h}))
			r := s.Ask(t, "WWW.example.org.", dns.TypeA)
			if len(r.Answer) != 1 || r.Answer[0].String() != "WWW.example.org.\t30\tIN\tA\t192.0.2.1" || !r.Authoritative {
				t.Errorf("got %v", r)
			}
			r = s.Exchange(t, "udp", servertest.Query("www.example.org.", dns.TypeA, 4096))
			if o := r.IsEdns0(); o == nil || o.UDPSize() != server.OurUDPSize {
				t.Errorf("OPT %v, want our own size in it, not the client's", o)
			}
			if r := s.Ask(t, "example.com.", dns.TypeA); r.Rcode != dns.RcodeRefused {
				t.Errorf("a name outside every zone: got %v, want REFUSED", r)
			}
		})
	}
}

func TestNoAllocs(t *testing.T) {
	servertest.NoAllocs(t, servertest.Query("www.example.org.", dns.TypeA, 1232),
		servertest.Block("example.org", server.Stage{Name: "test", Handler: answerA{}}))
}

// broken panics, or says Pass at the end.
type broken struct{ v server.Verdict }

func (b broken) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if b.v == server.Done {
		panic(errors.New("no"))
	}
	return b.v
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	for _, v := range []server.Verdict{server.Pass, server.Done} {
		panicked := 0
		s := server.New(server.DefaultLimits(), server.Hooks{Panic: func(any, []byte) { panicked++ }})
		d := s.Direct([]*server.Block{servertest.Block(".", server.Stage{Name: "broken", Handler: broken{v}})})
		reply, ok := d.Answer(servertest.Pack(t, servertest.Query("example.org.", dns.TypeA, 0)), servertest.Client, server.UDP)
		if !ok || wire.Flags(reply[3]).RCode() != wire.RCodeServFail {
			t.Errorf("verdict %d: %x, want SERVFAIL", v, reply)
		}
		if want := int(v / server.Done); panicked != want {
			t.Errorf("verdict %d: the hook was told of %d panics, want %d", v, panicked, want)
		}
	}
}

// panics panics wherever it is called.
type panics struct{}

func (panics) Answer(*server.Reply, *server.Query) server.Verdict { return server.Pass }
func (panics) Notify(*server.Query) bool                          { panic("notified") }
func (panics) Finish(*server.Reply, *server.Query, uint64)        { panic("finisher") }
func (panics) Observe(*server.Reply, *server.Query)               { panic("observer") }

// TestPanicsAnywhere lets every part that is not a handler panic: the client gets SERVFAIL, and the server lives.
func TestPanicsAnywhere(t *testing.T) {
	t.Parallel()
	for what, prepare := range map[string]func(*server.Block){
		"finisher": func(b *server.Block) {
			b.Chain = append([]server.Stage{stage(handler(func(r *server.Reply, _ *server.Query) server.Verdict {
				r.OnFinish(panics{}, 0)
				return server.Pass
			}))}, b.Chain...)
		},
		"observer": func(b *server.Block) { b.Observers = []server.Observer{panics{}} },
		"view":     func(b *server.Block) { b.Match = func(*server.Query) bool { panic("view") } },
		"notified": func(b *server.Block) { b.Chain = append([]server.Stage{stage(panics{})}, b.Chain...) },
	} {
		for parked, h := range map[bool]server.Handler{false: answerA{}, true: slow{}} {
			b := servertest.Block(".", stage(h))
			prepare(b)
			told := make(chan string, 2)
			s := server.New(server.DefaultLimits(), server.Hooks{Panic: func(v any, _ []byte) { told <- v.(string) }})
			q := servertest.Query("x.", dns.TypeA, 1232)
			if what == "notified" {
				q.Opcode = dns.OpcodeNotify
			}
			reply, ok := s.Direct([]*server.Block{b}).Answer(servertest.Pack(t, q), servertest.Client, server.UDP)
			var m dns.Msg
			if err := m.Unpack(reply); !ok || err != nil || m.Rcode != dns.RcodeServerFailure || len(m.Answer) != 0 {
				t.Errorf("%s, parked %v: %v, %v", what, parked, &m, err)
			}
			if got := <-told; got != what {
				t.Errorf("the hook was told of %q, want %q", got, what)
			}
		}
	}
}

// TestPanicsBeside lets a finisher panic for a question that a handler asks on a goroutine of its own, as cache does: that is SERVFAIL too, and the server lives.
func TestPanicsBeside(t *testing.T) {
	t.Parallel()
	told := 0
	s := server.New(server.DefaultLimits(), server.Hooks{Panic: func(any, []byte) { told++ }})
	asks := waiter(func(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
		rest, name, got := q.Rest(), q.Name.Bytes(), make(chan *server.Packed)
		go func() { got <- rest.Exchange(ctx, server.Question{Name: name, Type: wire.TypeA}) }()
		r.SetRCode((<-got).RCode())
		return server.Done
	})
	finishes := handler(func(r *server.Reply, _ *server.Query) server.Verdict {
		r.OnFinish(panics{}, 0)
		return server.Pass
	})
	d := s.Direct([]*server.Block{servertest.Block(".", stage(asks), stage(finishes), stage(answerA{}))})
	reply, ok := d.Answer(servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0)), servertest.Client, server.UDP)
	if !ok || wire.Flags(reply[3]).RCode() != wire.RCodeServFail || told != 1 {
		t.Errorf("%x after %d panics, want SERVFAIL after one", reply, told)
	}
}

// TestLargestDatagram asks for more than a datagram can hold, as a client that says it takes it: the reply is truncated and not lost.
func TestLargestDatagram(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Block(".", stage(handler(func(r *server.Reply, _ *server.Query) server.Verdict {
		for r.A(server.Answer, server.Owner, 1, [4]byte{192, 0, 2, 1}) {
		}
		return server.Done
	}))))
	r := s.Exchange(t, "udp", servertest.Query("x.", dns.TypeA, dns.MaxMsgSize))
	if !r.Truncated || len(r.Answer) < 4000 {
		t.Errorf("TC %v with %d records", r.Truncated, len(r.Answer))
	}
}

// hardEnv names the part that panics where TestDebugLetsPanicsEndTheProcess runs in a process of its own.
const hardEnv = "SERVER_TEST_PANICS"

// TestDebugLetsPanicsEndTheProcess: with the option of debug a panic of a handler, of one that waits, and of an observer ends the process and says where it was.
func TestDebugLetsPanicsEndTheProcess(t *testing.T) {
	t.Parallel()
	parts := map[string]func() *server.Block{
		"handler": func() *server.Block {
			return servertest.Block(".", stage(handler(func(*server.Reply, *server.Query) server.Verdict { panic("the handler") })))
		},
		"waiter": func() *server.Block {
			return servertest.Block(".", stage(waiter(func(context.Context, *server.Reply, *server.Query) server.Verdict { panic("the waiter") })))
		},
		"observer": func() *server.Block {
			b := servertest.Block(".", stage(answerA{}))
			b.Observers = []server.Observer{panics{}}
			return b
		},
	}
	if part := os.Getenv(hardEnv); part != "" {
		b := parts[part]()
		b.Options.PanicHard = true
		s := servertest.Start(t, b)
		_, _ = dns.Exchange(servertest.Query("x.", dns.TypeA, 0), s.Addr)
		return // which is success, and what must not be
	}
	for part := range parts {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDebugLetsPanicsEndTheProcess$", "-test.count=1")
		cmd.Env = append(os.Environ(), hardEnv+"="+part)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "panic: ") || !strings.Contains(string(out), part) || !strings.Contains(string(out), "server_test.go:") {
			t.Errorf("%s: the process ended with %v and said\n%s", part, err, out)
		}
	}
}

// TestSharedAddress serves an address twice: whoever comes second is told.
func TestSharedAddress(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lets two servers share an address")
	}
	first := servertest.Start(t, servertest.Block(".", stage(answerA{})))
	_, port, err := net.SplitHostPort(first.Addr)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	second := server.New(server.DefaultLimits(), server.Hooks{Shared: func(addr string) { told <- addr }})
	if err := second.Apply([]server.Listener{{Host: "127.0.0.1", Port: port, Blocks: first.Blocks}}); err != nil {
		t.Fatal(err)
	}
	if got := <-told; got != first.Addr {
		t.Errorf("told of %s, want %s", got, first.Addr)
	}
	if err := second.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
