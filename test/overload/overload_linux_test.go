// Package overload_test sends a server more than it can answer. It takes two processors for itself for half a minute, so it runs only when asked to:
//
//	OVERLOAD=1 go test -v ./test/overload
package overload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const (
	phase   = 6 * time.Second // of each load; a few collections of garbage and the kernel's queues even out
	servers = 400             // endpoints of the Service asked for: its replies take a core longer than it takes another to ask
)

const corefile = `. {
    bind 127.0.0.1
    errors
    kubernetes cluster.local {
        manifests %q
    }
    prometheus 127.0.0.1:%d
    cache 30
    loadbalance
}
`

// target is a server that runs on one core.
type target struct {
	pid     int
	dns     string
	metrics string
	said    *bytes.Buffer
}

func start(t *testing.T) *target {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "clusterdns")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/clusterdns/clusterdns/cmd/clusterdns").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	type object = map[string]any
	var eps []object
	for i := range servers {
		eps = append(eps, object{"addresses": []string{fmt.Sprintf("10.244.%d.%d", i/250, i%250+1)}, "conditions": object{"ready": true}})
	}
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": []object{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "a"}},
		{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s", "namespace": "a"}, "spec": object{"clusterIP": "None", "clusterIPs": []string{"None"}}},
		{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": eps,
			"metadata": object{"name": "s-1", "namespace": "a", "labels": object{"kubernetes.io/service-name": "s"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	manifests, conf := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "Corefile")
	dnsPort, httpPort := freePort(t, "udp"), freePort(t, "tcp")
	for file, b := range map[string][]byte{manifests: text, conf: fmt.Appendf(nil, corefile, manifests, httpPort)} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &target{dns: fmt.Sprintf("127.0.0.1:%d", dnsPort), metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", httpPort), said: new(bytes.Buffer)}
	cmd := exec.Command("taskset", "-c", "0", bin, "-conf", conf, "-dns.port", strconv.Itoa(dnsPort))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stdout, cmd.Stderr = s.said, s.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(20 * time.Second); ; {
		if r, err := dns.Exchange(question(), s.dns); err == nil && len(r.Answer) > 0 {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("it does not answer:\n%s", s.said)
		}
	}
}

func question() *dns.Msg {
	return new(dns.Msg).SetQuestion("s.a.svc.cluster.local.", dns.TypeA).SetEdns0(4096, false)
}

func freePort(t *testing.T, network string) int {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.LocalAddr().(*net.UDPAddr).Port
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// value adds up the lines of a metric.
func (s *target) value(t *testing.T, name string) float64 {
	t.Helper()
	r, err := http.Get(s.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(b.String(), -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// resident is in MB.
func (s *target) resident(t *testing.T) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(b))[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * float64(os.Getpagesize()) / 1e6
}

// cpu is what the server has used, in seconds.
func (s *target) cpu(t *testing.T) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, err1 := strconv.ParseFloat(f[11], 64)
	system, err2 := strconv.ParseFloat(f[12], 64)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return (user + system) / 100
}

// busy asks with a window of queries in flight, which is as fast as they are answered, and gives answers per second.
func (s *target) busy(t *testing.T) float64 {
	t.Helper()
	msg, err := question().Pack()
	if err != nil {
		t.Fatal(err)
	}
	before, begin := s.value(t, "coredns_dns_responses_total"), time.Now()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c, err := net.Dial("udp", s.dns)
			if err != nil {
				return
			}
			defer c.Close()
			buf := make([]byte, 65535)
			for range 16 {
				_, _ = c.Write(msg)
			}
			for time.Since(begin) < phase {
				_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // a lost one is made up for
				_, _ = c.Read(buf)
				_, _ = c.Write(msg)
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	return (s.value(t, "coredns_dns_responses_total") - before) / took.Seconds()
}

// flood sends without looking at replies, at a rate, and gives answers per second and queries per second.
func (s *target) flood(t *testing.T, rate float64) (answered, asked float64) {
	t.Helper()
	msg, err := question().Pack()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp", s.dns)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before, begin, sent := s.value(t, "coredns_dns_responses_total"), time.Now(), 0
	for time.Since(begin) < phase {
		for due := int(time.Since(begin).Seconds() * rate); sent < due; sent++ {
			if _, err := c.Write(msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	took := time.Since(begin)
	return (s.value(t, "coredns_dns_responses_total") - before) / took.Seconds(), float64(sent) / took.Seconds()
}

func TestOverload(t *testing.T) { //nolint:paralleltest // it measures
	if os.Getenv("OVERLOAD") == "" {
		t.Skip("it takes two processors for half a minute; OVERLOAD=1 runs it")
	}
	s := start(t)
	c0 := s.cpu(t)
	capacity := s.busy(t)
	c1 := s.cpu(t)
	before, lost := s.resident(t), s.value(t, "clusterdns_dns_udp_socket_drops_total")
	c2 := s.cpu(t)
	answered, asked := s.flood(t, 3*capacity)
	c3 := s.cpu(t)
	after, drops := s.resident(t), s.value(t, "clusterdns_dns_udp_socket_drops_total")-lost
	t.Logf("capacity %.0f/s; of %.0f/s asked %.0f/s answered, %.0f dropped in all; resident %.1f MB before, %.1f MB after", capacity, asked, answered, drops, before, after)
	// By CPU time, as the machine may have given the server less of it in one of the phases.
	usual, under := capacity*phase.Seconds()/(c1-c0), answered*phase.Seconds()/(c3-c2)
	t.Logf("a core answers %.0f/s, and %.0f/s while it is asked too much", usual, under)
	if asked < 2.5*capacity {
		t.Logf("this machine can ask no more than %.1f times what the server can answer: whether it answers less under load is not judged", asked/capacity)
	} else if under < .95*usual { // two phases of some seconds differ by some per cent on their own
		t.Errorf("%.0f/s answered of the %.0f/s that a core can do", under, usual)
	}
	if after > before+8 {
		t.Errorf("memory grew from %.1f to %.1f MB", before, after)
	}
	if missing := (asked - answered) * phase.Seconds(); drops < .9*missing {
		t.Errorf("%.0f queries have no answer, but only %.0f drops are counted", missing, drops)
	}
	if n := s.value(t, "coredns_panics_total"); n != 0 || strings.Contains(s.said.String(), "panic") {
		t.Errorf("%.0f panics:\n%s", n, s.said)
	}
}
