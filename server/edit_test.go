package server_test

import (
	"context"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// packed answers with the records of a message of presentation forms, one per line, sections parted by an empty line.
type packed struct{ msg []byte }

func newPacked(t *testing.T, name string, sections ...[]string) packed {
	t.Helper()
	m := servertest.Query(name, dns.TypeA, 0)
	m.Response = true
	for i, to := range []*[]dns.RR{&m.Answer, &m.Ns, &m.Extra} {
		if i == len(sections) {
			break
		}
		for _, s := range sections[i] {
			rr, err := dns.NewRR(s)
			if err != nil {
				t.Fatal(err)
			}
			*to = append(*to, rr)
		}
	}
	m.Compress = true
	return packed{servertest.Pack(t, m)}
}

func (p packed) Answer(r *server.Reply, _ *server.Query) server.Verdict {
	if err := r.Splice(p.msg, server.Splice{}); err != nil {
		return r.Fail(err)
	}
	return server.Done
}

// onFinish calls f when the reply is final.
type onFinish func(r *server.Reply, q *server.Query)

func (f onFinish) Answer(r *server.Reply, _ *server.Query) server.Verdict {
	r.OnFinish(f, 0)
	return server.Pass
}

func (f onFinish) Finish(r *server.Reply, q *server.Query, _ uint64) { f(r, q) }

func lines(sections ...[]dns.RR) string {
	var out []string
	for _, s := range sections {
		for _, rr := range s {
			if rr.Header().Rrtype != dns.TypeOPT {
				out = append(out, strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
	}
	return strings.Join(out, "\n")
}

func TestEdit(t *testing.T) {
	t.Parallel()
	answer := newPacked(t, "www.example.org.",
		[]string{"www.example.org. 60 IN CNAME web.example.org.", "web.example.org. 60 IN A 192.0.2.1", "web.example.org. 60 IN A 192.0.2.2"},
		[]string{"example.org. 60 IN NS ns.example.org."}, []string{"ns.example.org. 60 IN AAAA 2001:db8::1", `x.example.org. 60 IN SRV 1 2 3 web.example.org.`})
	edit := onFinish(func(r *server.Reply, _ *server.Query) {
		err := r.Edit(func(rrs []server.Record) []server.Record {
			rrs[1], rrs[2] = rrs[2], rrs[1]
			for i := range rrs {
				rrs[i].TTL = uint32(i)
			}
			return append(rrs[:4], rrs[5])
		})
		if err != nil {
			t.Error(err)
		}
	})
	s := servertest.Start(t, servertest.Block(".", server.Stage{Name: "edit", Handler: edit}, server.Stage{Name: "answer", Handler: answer}))
	r := s.Ask(t, "www.example.org.", dns.TypeA)
	want := `www.example.org. 0 IN CNAME web.example.org.
web.example.org. 1 IN A 192.0.2.2
web.example.org. 2 IN A 192.0.2.1
example.org. 3 IN NS ns.example.org.
x.example.org. 5 IN SRV 1 2 3 web.example.org.`
	if got := lines(r.Answer, r.Ns, r.Extra); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEditOfBadNames(t *testing.T) {
	t.Parallel()
	answer := newPacked(t, "www.example.org.", []string{"www.example.org. 60 IN CNAME web.example.org."})
	answer.msg[len(answer.msg)-2] = 0xFF // the target points behind the message
	var got error
	edit := onFinish(func(r *server.Reply, _ *server.Query) {
		got = r.Edit(func([]server.Record) []server.Record { t.Error("called"); return nil })
		if r.Count(server.Answer) != 1 {
			t.Error("the records are gone")
		}
	})
	d := servertest.Direct(servertest.Block(".", server.Stage{Name: "edit", Handler: edit}, server.Stage{Name: "answer", Handler: answer}))
	d.Answer(servertest.Pack(t, servertest.Query("www.example.org.", dns.TypeA, 0)), servertest.Client, server.UDP)
	if got == nil {
		t.Error("no error for a name that points nowhere")
	}
}

func TestAnswerOnly(t *testing.T) {
	answer := newPacked(t, "www.example.org.", []string{"www.example.org. 60 IN A 192.0.2.1"}, []string{"example.org. 60 IN NS ns.example.org."}, []string{"ns.example.org. 60 IN A 192.0.2.9"})
	b := servertest.Block(".", server.Stage{Name: "minimal", Handler: onFinish(func(r *server.Reply, _ *server.Query) { r.AnswerOnly() })},
		server.Stage{Name: "answer", Handler: answer})
	r := servertest.Start(t, b).Ask(t, "www.example.org.", dns.TypeA)
	if got := lines(r.Answer, r.Ns, r.Extra); got != "www.example.org. 60 IN A 192.0.2.1" {
		t.Errorf("got\n%s", got)
	}
	servertest.NoAllocs(t, servertest.Query("www.example.org.", dns.TypeA, 1232), b)
}

func TestAddOption(t *testing.T) {
	t.Parallel()
	option := onFinish(func(r *server.Reply, _ *server.Query) { r.AddOption(dns.EDNS0NSID, "here") })
	s := servertest.Start(t, servertest.Block(".", server.Stage{Name: "option", Handler: option}, server.Stage{Name: "answer", Handler: answerA{}}))
	opt := s.Ask(t, "example.org.", dns.TypeA).IsEdns0()
	if opt == nil || len(opt.Option) != 1 || opt.Option[0].String() != "68657265" {
		t.Errorf("got %v", opt)
	}
	if r := s.Exchange(t, "udp", servertest.Query("example.org.", dns.TypeA, 0)); r.IsEdns0() != nil {
		t.Errorf("a client without EDNS got %v", r)
	}
}

// asker answers with what the rest of the chain says to a question of its own.
type asker struct{ slow }

func (asker) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	p := q.Rest().Exchange(ctx, server.Question{Name: q.Name.Bytes(), Type: wire.TypeA})
	if err := r.Splice(p.Msg, server.Splice{}); err != nil {
		return r.Fail(err)
	}
	return server.Done
}

// client answers with the address of who asked.
type client struct{}

func (client) Answer(r *server.Reply, q *server.Query) server.Verdict {
	r.Addr(server.Answer, server.Owner, 0, q.Client.Addr())
	return server.Done
}

func TestQuestionsOfOurOwnAreTheClients(t *testing.T) {
	t.Parallel()
	d := servertest.Direct(servertest.Block(".", server.Stage{Name: "ask", Handler: asker{}}, server.Stage{Name: "client", Handler: client{}}))
	b, _ := d.Answer(servertest.Pack(t, servertest.Query("example.org.", dns.TypeA, 0)), netip.MustParseAddrPort("192.0.2.7:4000"), server.TCP)
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil || lines(m.Answer) != "example.org. 0 IN A 192.0.2.7" {
		t.Errorf("got %v, %v", m, err)
	}
}

// circular asks from the start of the chain what it is asked itself.
type circular struct{ slow }

func (circular) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	p := q.Start().Exchange(ctx, server.Question{Name: q.Name.Bytes(), Type: q.Type})
	if p.RCode() != wire.RCodeNoError {
		r.SetRCode(p.RCode())
		return server.Done
	}
	return r.Fail(nil)
}

func TestQuestionsOfOurOwnEnd(t *testing.T) {
	t.Parallel()
	d := servertest.Direct(servertest.Block(".", server.Stage{Name: "ask", Handler: circular{}}))
	b, _ := d.Answer(servertest.Pack(t, servertest.Query("example.org.", dns.TypeA, 0)), servertest.Client, server.TCP)
	if rc := b[3] & 0xF; rc != byte(wire.RCodeServFail) {
		t.Errorf("rcode %d, want SERVFAIL", rc)
	}
}

// alias answers with a CNAME to a fixed target.
type alias struct {
	target  []byte
	mayEnd  bool
	passing bool // passes every other name
}

func (a alias) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if a.passing && q.Followed() {
		return server.Pass
	}
	ref, _ := r.CNAME(server.Owner, 5, a.target)
	if err := q.SetTarget(a.target, ref); err != nil {
		return r.Fail(err)
	}
	if a.mayEnd {
		q.MayEnd()
	}
	return server.Follow
}

func TestTargetsThatNobodyServes(t *testing.T) {
	t.Parallel()
	target, _ := wire.ParseName("elsewhere.example.")
	for _, c := range []struct {
		zone  string
		alias alias
		want  int
	}{
		{"example.org.", alias{target, true, false}, dns.RcodeSuccess},
		{"example.org.", alias{target, false, false}, dns.RcodeServerFailure},
		{".", alias{target, true, true}, dns.RcodeSuccess},
		{".", alias{target, false, true}, dns.RcodeServerFailure},
	} {
		s := servertest.Start(t, servertest.Block(c.zone, server.Stage{Name: "alias", Handler: c.alias}))
		if r := s.Ask(t, "a.example.org.", dns.TypeA); r.Rcode != c.want || len(r.Answer) != 1 {
			t.Errorf("%+v: got %v", c, r)
		}
	}
}

// forever waits until its context ends.
type forever struct{ slow }

func (forever) AwaitAnswer(ctx context.Context, r *server.Reply, _ *server.Query) server.Verdict {
	<-ctx.Done()
	return r.Fail(ctx.Err())
}

func TestPatience(t *testing.T) {
	t.Parallel()
	b := servertest.Block(".", server.Stage{Name: "forever", Handler: forever{}})
	b.Options.Patience = time.Millisecond
	start := time.Now()
	if r := servertest.Start(t, b).Exchange(t, "tcp", servertest.Query("example.org.", dns.TypeA, 0)); r.Rcode != dns.RcodeServerFailure {
		t.Errorf("got %v", r)
	}
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("waited %v, want about a millisecond", d)
	}
}

// told knows one zone of another server.
type told struct{ answerA }

func (told) Notify(q *server.Query) bool { return q.Name.String() == "example.org." }

func TestNotify(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Block(".", server.Stage{Name: "other", Handler: answerA{}}, server.Stage{Name: "told", Handler: told{}}))
	for zone, want := range map[string]int{"example.org.": dns.RcodeSuccess, "example.net.": dns.RcodeNotImplemented} {
		m := new(dns.Msg)
		m.SetNotify(zone)
		r := s.Exchange(t, "udp", m)
		if r.Rcode != want || r.Opcode != dns.OpcodeNotify || len(r.Answer) != 0 || r.Authoritative != (want == dns.RcodeSuccess) {
			t.Errorf("%s: %v", zone, r)
		}
	}
	m := servertest.Query("example.org.", dns.TypeA, 0)
	m.Opcode = dns.OpcodeUpdate
	if r := s.Exchange(t, "udp", m); r.Rcode != dns.RcodeNotImplemented {
		t.Errorf("UPDATE: %v", r)
	}
}

// FuzzEdit: records that are taken apart and put together again are the same records.
func FuzzEdit(f *testing.F) {
	for _, sections := range [][][]string{
		{{"www.example.org. 60 IN CNAME web.example.org.", "web.example.org. 60 IN A 192.0.2.1"}, {"example.org. 60 IN NS ns.example.org."}},
		{{"www.example.org. 60 IN SOA a.example.org. b.example.org. 1 2 3 4 5", "www.example.org. 60 IN MX 10 mail.example.org."}},
		{{`www.example.org. 60 IN NAPTR 1 2 "u" "s" "" x.example.org.`, "www.example.org. 60 IN SRV 1 2 3 www.example.org."}},
	} {
		m := servertest.Query("www.example.org.", dns.TypeA, 0)
		m.Response, m.Compress = true, true
		for i, to := range []*[]dns.RR{&m.Answer, &m.Ns} {
			if i == len(sections) {
				break
			}
			for _, s := range sections[i] {
				rr, err := dns.NewRR(s)
				if err != nil {
					f.Fatal(err)
				}
				*to = append(*to, rr)
			}
		}
		f.Add(servertest.Pack(f, m))
	}
	query := servertest.Pack(f, servertest.Query("www.example.org.", dns.TypeA, 0))
	f.Fuzz(func(t *testing.T, msg []byte) {
		var before, after []server.Record
		edit := onFinish(func(r *server.Reply, _ *server.Query) {
			if r.Truncated() {
				return
			}
			keep := func(to *[]server.Record) func([]server.Record) []server.Record {
				return func(rrs []server.Record) []server.Record {
					*to = append([]server.Record(nil), rrs...)
					return rrs
				}
			}
			if r.Edit(keep(&before)) != nil {
				return
			}
			if err := r.Edit(keep(&after)); err != nil {
				t.Errorf("what was put together cannot be taken apart: %v", err)
			}
			if !r.Truncated() && !reflect.DeepEqual(before, after) {
				t.Errorf("%v became %v", before, after)
			}
		})
		d := servertest.Direct(servertest.Block(".", server.Stage{Name: "edit", Handler: edit}, server.Stage{Name: "answer", Handler: packed{msg}}))
		d.Answer(query, servertest.Client, server.TCP)
	})
}
