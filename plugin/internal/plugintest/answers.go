package plugintest

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Answers is a handler that knows some records. It follows CNAMEs, says NODATA for other types of its names, and NXDOMAIN for all
// others. Records in lines that begin with "ns " or "extra " go with every answer that has records.
type Answers struct {
	byName map[wire.Canonical][]server.Record
	with   []server.Record
	// Asked is called with every query, if not nil.
	Asked func(q *server.Query)
}

// NewAnswers reads records in presentation form.
func NewAnswers(t testing.TB, lines ...string) *Answers {
	t.Helper()
	a := &Answers{byName: map[wire.Canonical][]server.Record{}}
	for _, l := range lines {
		section := server.Answer
		for s, prefix := range map[server.Section]string{server.Authority: "ns ", server.Additional: "extra "} {
			if rest, ok := strings.CutPrefix(l, prefix); ok {
				section, l = s, rest
			}
		}
		rr, err := records.Parse(l)
		if err != nil {
			t.Fatal(err)
		}
		if rr.Section = section; section != server.Answer {
			a.with = append(a.with, rr)
			continue
		}
		wire.Fold(rr.Owner)
		a.byName[wire.Canonical(rr.Owner)] = append(a.byName[wire.Canonical(rr.Owner)], rr)
	}
	return a
}

// Answer keeps the contract of a handler.
func (a *Answers) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if a.Asked != nil {
		a.Asked(q)
	}
	rrs, ok := a.byName[wire.Canonical(q.Name.Folded())]
	if !ok {
		r.SetRCode(wire.RCodeNXDomain)
		return server.Done
	}
	r.SetAA()
	for i := range rrs {
		rr := &rrs[i]
		if rr.Type == wire.TypeCNAME && q.Type != wire.TypeCNAME {
			ref, _ := r.CNAME(server.Owner, rr.TTL, rr.Data)
			if err := q.SetTarget(rr.Data, ref); err != nil {
				return r.Fail(err)
			}
			return server.Follow
		}
		if rr.Type == q.Type {
			r.Begin(server.Answer, server.Owner, rr.Type, rr.TTL)
			r.Put(rr.Data)
			r.End()
		}
	}
	for i := range a.with {
		if r.Count(server.Answer) > 0 {
			r.Record(&a.with[i])
		}
	}
	return server.Done
}

// Stage is a stage named after nothing in particular.
func Stage(h server.Handler) server.Stage { return server.Stage{Name: "test", Handler: h} }

// Ask asks a chain in process, over TCP so that all fits, as a client of the given address ("" for 127.0.0.1).
func Ask(t testing.TB, client string, m *dns.Msg, chain ...server.Handler) *dns.Msg {
	t.Helper()
	stages := make([]server.Stage, len(chain))
	for i, h := range chain {
		stages[i] = Stage(h)
	}
	return AskBlocks(t, client, m, servertest.Block(".", stages...))
}

// AskBlocks is Ask for blocks. A query that is dropped gives nil.
func AskBlocks(t testing.TB, client string, m *dns.Msg, blocks ...*server.Block) *dns.Msg {
	t.Helper()
	from := servertest.Client
	if client != "" {
		from = netip.AddrPortFrom(netip.MustParseAddr(client), 4000)
	}
	b, ok := servertest.Direct(blocks...).Answer(servertest.Pack(t, m), from, server.TCP)
	if !ok {
		return nil
	}
	r := new(dns.Msg)
	if err := r.Unpack(b); err != nil {
		t.Fatalf("%v\n%x", err, b)
	}
	return r
}

// Question is a question with RD and EDNS.
func Question(name, typ string) *dns.Msg {
	return servertest.Query(name, dns.StringToType[typ], 1232)
}

// Text is a reply in one string: the rcode, then the records of each section behind its name, OPT left out.
func Text(r *dns.Msg) string {
	if r == nil {
		return "dropped"
	}
	out := []string{dns.RcodeToString[r.Rcode]}
	for i, s := range [][]dns.RR{r.Answer, r.Ns, r.Extra} {
		for _, rr := range s {
			if rr.Header().Rrtype != dns.TypeOPT {
				out = append(out, []string{"", "ns ", "extra "}[i]+strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
	}
	return strings.Join(out, "\n")
}

// Check compares a reply with its Text, given as lines.
func Check(t testing.TB, what string, r *dns.Msg, want ...string) {
	t.Helper()
	if got, want := Text(r), strings.Join(want, "\n"); got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
	}
}
