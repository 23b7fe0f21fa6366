// Package conformance asks a whole server, over real sockets, everything that a CoreDNS was asked and compares every answer. testdata/README.md
// says where the answers come from.
package conformance

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// record is one question and what was answered.
type record struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	EDNS       uint16   `json:"edns"`
	Proto      string   `json:"proto"`
	RCode      string   `json:"rcode"`
	AA         bool     `json:"aa"`
	TC         bool     `json:"tc"`
	RA         bool     `json:"ra"`
	Answer     []string `json:"answer"`
	Authority  []string `json:"authority"`
	Additional []string `json:"additional"`
}

// workers is how many clients ask at one time: enough to keep two cores busy.
const workers = 8

// patience ends a test that hangs; the whole of them takes seconds.
const patience = 10 * time.Second

// shown is how many differences of a variant are printed.
const shown = 20

func TestConformance(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	for _, v := range []struct {
		name    string
		records int // so that a file that is cut off does not pass
		diverge counts
	}{
		{"1-kubeadm", 7821, counts{orphans: 2}},
		{"2-verified", 7536, counts{orphans: 2, podIPs: 67}},
		{"3-filtered", 7776, counts{}},
		{"4-noendpoints", 7817, counts{}},
		{"5-zonal", 7797, counts{orphans: 2}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			records := load(t, v.name)
			if len(records) != v.records {
				t.Fatalf("%d recorded answers, want %d", len(records), v.records)
			}
			d := newDivergences(t, v.name)
			compare(t, startServer(t, v.name, upstream), records, d)
			if got := d.counts(); got != v.diverge {
				t.Errorf("answers that differ on purpose: %+v, want %+v", got, v.diverge)
			}
		})
	}
}

// load reads the recorded answers of a variant.
func load(t *testing.T, variant string) []record {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "answers", variant+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []record
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// compare asks every question and compares whole answers.
func compare(t *testing.T, addr string, records []record, d *divergences) {
	t.Helper()
	var next, wrong atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			c := newClient(t, addr)
			defer c.close()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(records) {
					return
				}
				want := records[i]
				got, err := c.ask(want)
				d.apply(&want, &got)
				if err == nil && reflect.DeepEqual(got, want) {
					continue
				}
				if wrong.Add(1) <= shown {
					t.Errorf("%s %s edns %d over %s: %v\n got %s\nwant %s", want.Name, want.Type, want.EDNS, want.Proto, err, text(got), text(want))
				}
			}
		})
	}
	all.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d of %d answers differ", n, len(records))
	}
}

func text(r record) string {
	b, _ := json.Marshal(r)
	return string(b)
}

// client has one connection for each protocol.
type client struct {
	addr  string
	conns map[string]*dns.Conn
	id    uint16
}

func newClient(t *testing.T, addr string) *client {
	c := &client{addr: addr, conns: map[string]*dns.Conn{}}
	for _, proto := range []string{"udp", "tcp"} {
		conn, err := dns.DialTimeout(proto, addr, patience)
		if err != nil {
			t.Error(err)
			return c
		}
		conn.UDPSize = dns.MaxMsgSize
		c.conns[proto] = conn
	}
	return c
}

func (c *client) close() {
	for _, conn := range c.conns {
		conn.Close()
	}
}

// ask asks the question of r and gives what r should have recorded.
func (c *client) ask(r record) (record, error) {
	got := record{Name: r.Name, Type: r.Type, EDNS: r.EDNS, Proto: r.Proto}
	m := new(dns.Msg)
	m.SetQuestion(r.Name, dns.StringToType[r.Type])
	if r.EDNS > 0 {
		m.SetEdns0(r.EDNS, false)
	}
	c.id++
	m.Id = c.id
	conn := c.conns[r.Proto]
	if r.Proto == "tcp" { // idle connections are the server's to close
		var err error
		if conn, err = dns.DialTimeout("tcp", c.addr, patience); err != nil {
			return got, err
		}
		defer conn.Close()
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if err := conn.WriteMsg(m); err != nil {
		return got, err
	}
	reply, err := conn.ReadMsg()
	if err != nil {
		return got, err
	}
	if reply.Id != m.Id || !reply.Response || reply.Opcode != dns.OpcodeQuery || !reply.RecursionDesired || reply.AuthenticatedData || reply.Zero {
		return got, fmt.Errorf("header is wrong: %v", reply.MsgHdr)
	}
	if (reply.IsEdns0() != nil) != (r.EDNS > 0) {
		return got, fmt.Errorf("OPT is wrong: %v", reply.IsEdns0())
	}
	got.fill(reply)
	return got, nil
}

// fill notes an answer as it was recorded.
func (r *record) fill(m *dns.Msg) {
	r.RCode, r.AA, r.TC, r.RA = dns.RcodeToString[m.Rcode], m.Authoritative, m.Truncated, m.RecursionAvailable
	if m.Truncated {
		return
	}
	r.Answer, r.Authority, r.Additional = lines(m.Answer), lines(m.Ns), lines(m.Extra)
	if len(m.Question) != 1 || m.Question[0].Name != r.Name {
		r.Additional = append(r.Additional, fmt.Sprintf("question not echoed: %v", m.Question))
	}
}

// lines are records in presentation form, sorted.
func lines(rrs []dns.RR) (out []string) {
	for _, rr := range rrs {
		if rr.Header().Rrtype == dns.TypeOPT {
			continue
		}
		if soa, ok := rr.(*dns.SOA); ok {
			soa.Serial = 0
		}
		out = append(out, strings.Join(strings.Fields(rr.String()), " "))
	}
	slices.Sort(out)
	return out
}
