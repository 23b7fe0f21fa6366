package forward

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// network is what upstreams are reached by in scenarios: connections in memory, to servers that do as a script says. Time is the test's.
type network struct {
	mu      sync.Mutex
	scripts map[string]string // by "ADDR PROTO": actions, separated by commas
	asked   map[string]int    // by "ADDR PROTO": questions since the last look
	dials   map[string]int
	conns   map[string][]net.Conn
}

func newNetwork() *network {
	return &network{scripts: map[string]string{}, asked: map[string]int{}, dials: map[string]int{}, conns: map[string][]net.Conn{}}
}

func (n *network) script(addr, proto, actions string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.scripts[addr+" "+proto] = actions
}

func (n *network) actions(addr, proto string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for a := range strings.SplitSeq(n.scripts[addr+" "+proto], ",") {
		out = append(out, strings.TrimSpace(a))
	}
	return out
}

func (n *network) count(addr, proto string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[addr+" "+proto]++
}

// taken gives and forgets a count.
func (n *network) taken(counts map[string]int, addr, proto string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := counts[addr+" "+proto]
	counts[addr+" "+proto] = 0
	return c
}

// dial implements dialer.
func (n *network) dial(ctx context.Context, proto string, to netip.AddrPort, _ netip.Addr) (net.Conn, error) {
	addr := to.Addr().String()
	n.mu.Lock()
	n.dials[addr+" "+proto]++
	n.mu.Unlock()
	if proto == "udp" {
		c := &datagrams{n: n, addr: addr, in: make(chan any, 256), closed: make(chan struct{})}
		return c, nil
	}
	switch n.actions(addr, proto)[0] {
	case "", "refused":
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case "unreachable":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	n.mu.Lock()
	n.conns[addr] = append(n.conns[addr], theirs)
	n.mu.Unlock()
	go n.serveStream(theirs, addr)
	return ours, nil
}

// hangUp closes all connections that an upstream has, as a server does with idle ones.
func (n *network) hangUp(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns[addr] {
		c.Close()
	}
	n.conns[addr] = nil
}

func (n *network) serveStream(c net.Conn, addr string) {
	defer c.Close()
	var mu sync.Mutex
	for {
		var head [2]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(head[:]))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		n.count(addr, "tcp")
		for _, a := range n.actions(addr, "tcp") {
			if a == "close" || a == "refused" {
				return
			}
			n.act(a, q, func(b []byte) {
				mu.Lock()
				defer mu.Unlock()
				_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
			})
		}
	}
}

// datagrams is a connected UDP socket.
type datagrams struct {
	n      *network
	addr   string
	in     chan any
	once   sync.Once
	closed chan struct{}
	net.Conn
}

func (d *datagrams) Write(b []byte) (int, error) {
	d.n.count(d.addr, "udp")
	q := append([]byte(nil), b...)
	for _, a := range d.n.actions(d.addr, "udp") {
		if a == "refused" {
			d.push(os.NewSyscallError("recvmsg", syscall.ECONNREFUSED))
			continue
		}
		d.n.act(a, q, func(b []byte) { d.push(b) })
	}
	return len(b), nil
}

func (d *datagrams) push(v any) {
	select {
	case d.in <- v:
	case <-d.closed:
	}
}

func (d *datagrams) Read(b []byte) (int, error) {
	select {
	case v := <-d.in:
		if err, bad := v.(error); bad {
			return 0, err
		}
		return copy(b, v.([]byte)), nil
	case <-d.closed:
		return 0, net.ErrClosed
	}
}

func (d *datagrams) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// act does one action of a script for a question: "WHAT ARGUMENT @DELAY".
func (n *network) act(action string, q []byte, send func([]byte)) {
	f := strings.Fields(action)
	delay := time.Millisecond
	if l := len(f) - 1; l >= 0 && f[l][0] == '@' {
		delay, _ = time.ParseDuration(f[l][1:])
		f = f[:l]
	}
	if len(f) == 0 || f[0] == "silent" {
		return
	}
	var m dns.Msg
	if err := m.Unpack(q); err != nil {
		panic(fmt.Sprintf("the upstream got %x: %v", q, err))
	}
	arg := ""
	if len(f) > 1 {
		arg = f[1]
	}
	if f[0] == "but-slow" { // an upstream that finds no answer for some names
		if f[0] = "answer"; strings.HasPrefix(m.Question[0].Name, "slow") {
			return
		}
	}
	if f[0] == "no-edns" { // an upstream from before EDNS
		f[0] = "answer"
		if m.IsEdns0() != nil {
			f = []string{"rcode"}
			arg = "FORMERR"
		}
	}
	b := compose(f[0], arg, &m)
	time.AfterFunc(delay, func() { send(b) })
}

// compose makes a reply.
func compose(what, arg string, q *dns.Msg) []byte {
	r := new(dns.Msg).SetReply(q)
	r.RecursionAvailable = true
	switch what {
	case "rcode":
		r.Rcode = dns.StringToRcode[arg]
	case "empty":
	case "bare":
		r.Question, r.Rcode = nil, dns.StringToRcode[arg]
	case "many", "cut", "cut-short", "stops", "stops-whole":
		for i := range 40 {
			r.Answer = append(r.Answer, address(q, fmt.Sprintf("192.0.2.%d", i)))
		}
		if strings.HasPrefix(what, "cut") {
			r.Truncated, r.Answer = true, r.Answer[:3]
		}
	default:
		r.Answer = append(r.Answer, address(q, arg))
	}
	switch what {
	case "wrong-id":
		r.Id ^= 0x5555
	case "wrong-name":
		r.Question[0].Name = "other." + r.Question[0].Name
		r.Answer[0].Header().Name = r.Question[0].Name
	case "wrong-type":
		r.Question[0].Qtype++
	case "wrong-class":
		r.Question[0].Qclass = dns.ClassCHAOS
	case "wrong-case":
		r.Question[0].Name = swapCase(r.Question[0].Name)
	case "ede":
		r.SetEdns0(1232, false)
		r.IsEdns0().Option = append(r.IsEdns0().Option,
			&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer, ExtraText: "old"},
			&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0011223344556677"})
	}
	b, err := r.Pack()
	if err != nil {
		panic(err)
	}
	switch what {
	case "cut-short": // in the middle of a record, as servers from before RFC 2181 do
		b = b[:len(b)-5]
	case "stops": // a middlebox that cuts off what is longer than RFC 1035 allows
		b = b[:512]
	case "stops-whole": // and one that makes the counts fit
		r.Answer = r.Answer[:10]
		pad := &dns.TXT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{""}}
		r.Extra = []dns.RR{pad}
		b, _ = r.Pack()
		pad.Txt[0] = strings.Repeat("x", 512-len(b))
		b, _ = r.Pack()
	case "garbage":
		b = append(b[:2:2], "\x81\x80\x00\x01\x00\x09 no message at all"...)
	case "trailing":
		b = append(b, 0, 0, 0)
	case "question-back":
		b[2] &^= 0x80
	case "short":
		b = b[:7]
	}
	return b
}

func address(q *dns.Msg, ip string) dns.RR {
	return &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(ip)}
}

func swapCase(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c |= 0x20; 'a' <= c && c <= 'z' {
			b[i] ^= 0x20
		}
	}
	return string(b)
}
