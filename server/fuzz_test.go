package server_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// FuzzQuery sends arbitrary bytes as a query. Whatever they are, the server lives; a reply is well-formed, belongs to the query, and fits; and what we
// take for a question, miekg/dns takes too.
func FuzzQuery(f *testing.F) {
	for _, m := range []*dns.Msg{
		servertest.Query("www.example.org.", dns.TypeA, 0),
		servertest.Query("WWW.example.org.", dns.TypeANY, 1232),
		servertest.Query(".", dns.TypeNS, 65535),
		servertest.Query("example.org.", dns.TypeDS, 100),
	} {
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(bytes.Clone(b), 0))
		for _, i := range []int{2, 3, 5, 7, 9, 11, 12, len(b) - 1} {
			c := bytes.Clone(b)
			c[i] ^= 0xFF
			f.Add(c)
		}
	}
	block := servertest.Block(".", server.Stage{Name: "test", Handler: answerA{}})
	f.Fuzz(func(t *testing.T, query []byte) {
		d := servertest.Direct(block)
		reply, ok := d.Answer(query, servertest.Client, server.UDP)
		if isReply := len(query) > 2 && query[2]&0x80 != 0; len(query) < wire.HeaderLen || isReply {
			if ok {
				t.Fatalf("a reply to %x: %x", query, reply)
			}
			return
		}
		var m dns.Msg
		if err := m.Unpack(reply); err != nil {
			t.Fatalf("reply %x to %x: %v", reply, query, err)
		}
		if m.Id != binary.BigEndian.Uint16(query) || !m.Response || m.Opcode != int(query[2]>>3&0xF) {
			t.Fatalf("%v\ndoes not belong to %x", m.MsgHdr, query)
		}
		if m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeNotImplemented {
			return
		}
		var asked dns.Msg
		if err := asked.Unpack(query); err != nil {
			if h, _ := wire.ParseHeader(query); h.ANCount > 0 || h.NSCount > 0 || h.ARCount > 0 {
				return // what is in records that a query should not have is not looked at
			}
			t.Fatalf("we answered %x, which miekg/dns cannot read: %v", query, err)
		}
		limit := dns.MinMsgSize
		if o := asked.IsEdns0(); o != nil {
			limit = max(limit, int(o.UDPSize()))
			if m.IsEdns0() == nil {
				t.Fatalf("no OPT in the reply to %v", &asked)
			}
		} else if m.IsEdns0() != nil {
			t.Fatalf("OPT in the reply to %v", &asked)
		}
		if len(reply) > limit {
			t.Fatalf("%d bytes to a client that takes %d", len(reply), limit)
		}
		if len(m.Question) != 1 || m.Question[0] != asked.Question[0] {
			t.Fatalf("question %v, want %v", m.Question, asked.Question)
		}
	})
}

// script writes records as its bytes say.
type script []byte

// pool are names that share ends, in several letter cases.
var pool = []string{"example.org.", "a.Example.org.", "b.a.example.org.", "www.EXAMPLE.org.", "org.", "x.y.z.", "a.", ".", "b.a.example.org.x."}

func (s script) Answer(r *server.Reply, q *server.Query) server.Verdict {
	section := server.Answer
	var marks []server.Mark
	var sections []server.Section // of the marks
	for i := 0; i+1 < len(s); i += 2 {
		arg := int(s[i+1])
		name, _ := wire.ParseName(pool[arg%len(pool)])
		switch s[i] % 10 {
		case 0:
			r.A(section, server.Owner, uint32(arg), [4]byte{192, 0, 2, byte(arg)})
		case 1:
			r.AAAA(section, server.QuestionRef, 1, [16]byte{15: byte(arg)})
		case 2:
			if section == server.Answer {
				r.PTR(server.Owner, 3, name)
			}
		case 3:
			r.SOA(section, name, 4, &server.SOA{MName: name, RName: name, Serial: uint32(arg)})
		case 4:
			r.BeginName(section, name, wire.TypeSRV, 5)
			r.PutUint16(1)
			r.PutUint16(2)
			r.PutUint16(3)
			r.PutLabels([]byte("\x03abc\x02de"), r.Sub(arg%3))
			r.End()
		case 5:
			section = min(section+1, server.Additional)
		case 6:
			marks, sections = append(marks, r.Mark()), append(sections, section)
		case 7:
			if n := len(marks); n > 0 {
				r.Rewind(marks[n-1])
				section, marks, sections = sections[n-1], nil, nil // the section may be open without a record, if the first did not fit
			}
		case 8:
			_ = q.SetName(name)
		case 9:
			r.TXT(section, server.Owner, 6, pool[arg%len(pool)])
		}
	}
	return server.Done
}

// FuzzReply writes records in any order that the contract allows: the message always unpacks, with as many records as were written.
func FuzzReply(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 5, 0, 3, 0, 5, 0, 4, 1}, uint16(1232))
	f.Add([]byte{8, 2, 0, 1, 6, 0, 4, 2, 4, 3, 7, 0, 4, 3, 2, 2}, uint16(0))
	f.Add(bytes.Repeat([]byte{4, 7, 2, 3}, 200), uint16(4096))
	f.Fuzz(func(t *testing.T, ops []byte, edns uint16) {
		d := servertest.Direct(servertest.Block(".", server.Stage{Name: "test", Handler: script(ops)}))
		for _, tr := range []server.Transport{server.UDP, server.TCP} {
			reply, ok := d.Answer(servertest.Pack(t, servertest.Query("Q.a.example.org.", dns.TypeA, edns)), servertest.Client, tr)
			if !ok {
				t.Fatal("no reply")
			}
			var m dns.Msg
			if err := m.Unpack(reply); err != nil {
				t.Fatalf("%x: %v", reply, err)
			}
			h, _ := wire.ParseHeader(reply)
			if len(m.Answer) != int(h.ANCount) || len(m.Ns) != int(h.NSCount) || len(m.Extra) != int(h.ARCount) {
				t.Fatalf("counts %v differ from\n%v", h, &m)
			}
			if limit := max(dns.MinMsgSize, int(edns)); tr == server.UDP && len(reply) > limit {
				t.Fatalf("%d bytes to a client that takes %d", len(reply), limit)
			}
		}
	})
}
