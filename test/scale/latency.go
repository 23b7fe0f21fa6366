package main

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/test/internal/large"
)

// patience is how long a change may take to be answered before the measurement is given up.
const patience = 10 * time.Second

// latency changes a headless Service's only endpoint n times, asks a DNS server all the while, and says how long it took from the sending
// of the request, and from the API server's reply to it, until the change was answered.
func (a api) latency(n int, server string) error {
	conn, err := dns.Dial("udp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	var sent, replied []time.Duration
	for i := range n {
		service := 7999 - 10*(i%100) // the last ones are headless and small
		address := fmt.Sprintf("10.200.%d.%d", i>>8&255, i&255)
		s, r, err := a.change(service, address, conn)
		if err != nil {
			return err
		}
		sent, replied = append(sent, s), append(replied, r)
	}
	fmt.Println("from request to answer:", summary(sent))
	fmt.Println("from the API server's reply to answer:", summary(replied))
	return nil
}

// change changes one slice and gives the times until it is answered.
func (a api) change(service int, address string, conn *dns.Conn) (sent, replied time.Duration, err error) {
	began := time.Now()
	var done time.Time
	failed := make(chan error, 1)
	go func() {
		err := a.call(http.MethodPatch, "/apis/discovery.k8s.io/v1/namespaces/"+large.Namespace(service)+"/endpointslices/"+large.SliceName(service), "merge-patch+json",
			object{"endpoints": []object{{"addresses": []string{address}, "conditions": object{"ready": true}}}})
		done = time.Now()
		failed <- err
	}()
	m := new(dns.Msg)
	m.SetQuestion(large.ServiceName(service)+"."+large.Namespace(service)+".svc.cluster.local.", dns.TypeA)
	want := net.ParseIP(address)
	for time.Since(began) < patience {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		if err := conn.WriteMsg(m); err != nil {
			return 0, 0, err
		}
		reply, err := conn.ReadMsg()
		if err != nil {
			continue // a lost datagram is asked for again
		}
		if slices.ContainsFunc(reply.Answer, func(rr dns.RR) bool { r, ok := rr.(*dns.A); return ok && r.A.Equal(want) }) {
			seen := time.Now()
			err := <-failed
			return seen.Sub(began), seen.Sub(done), err
		}
	}
	if err := <-failed; err != nil {
		return 0, 0, err
	}
	return 0, 0, fmt.Errorf("%s is not answered with %s after %s", m.Question[0].Name, address, patience)
}

func summary(d []time.Duration) string {
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("median %s, p90 %s, p99 %s, worst %s", at(0.5), at(0.9), at(0.99), at(1))
}
