package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

// external is a name outside of the cluster that the upstream server knows; its address is that of a web server beside it.
const external = "www.example.com."

// slow is a zone outside of the cluster with every name, each answered after slowness: long enough for queries to wait at any moment of a load,
// short enough for none to be asked again.
const (
	slow     = "slow.example.com."
	slowness = 500 * time.Millisecond
)

// upstream serves the world outside: a DNS server, which the node's resolv.conf names, and a web server, on the node's other address.
func upstream() error {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.RecursionAvailable = true
		name := q.Question[0].Name
		if strings.HasSuffix(name, "."+slow) {
			<-time.After(slowness)
		}
		switch {
		case name != external && !strings.HasSuffix(name, "."+slow):
			m.Rcode = dns.RcodeNameError
		case q.Question[0].Qtype == dns.TypeA:
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}, A: net.ParseIP(cluster.UpstreamIP)})
		}
		_ = w.WriteMsg(m)
	})
	pc, err := net.ListenPacket("udp", cluster.UpstreamIP+":53")
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", cluster.UpstreamIP+":53")
	if err != nil {
		return err
	}
	web, err := net.Listen("tcp", cluster.UpstreamIP+":80")
	if err != nil {
		return err
	}
	go func() { _ = dns.ActivateAndServe(nil, pc, handler) }()
	go func() { _ = dns.ActivateAndServe(ln, nil, handler) }()
	go func() {
		_ = http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "outside") }))
	}()
	return nil
}
