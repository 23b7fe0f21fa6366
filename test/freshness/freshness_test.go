// Package freshness measures how soon a change in the API is in the answers while queries come, and what changes do to queries. The server is a
// process of its own; the API server, the load and the clock are this one, so that a machine with few cores shows times that are too long.
//
//	go test -count=1 -v -timeout 30m ./test/freshness -changes 2000 -seconds 60 -rate 10000 -judge
//
// Without flags it runs for seconds, which shows that it works and not more: times are printed, and judged with -judge alone.
package freshness_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/test/internal/load"
	"github.com/clusterdns/clusterdns/test/internal/process"
)

var (
	changes = flag.Int("changes", 20, "how many changes are followed into the answers")
	seconds = flag.Int("seconds", 4, "how long the latency of queries is measured, half of it while endpoints change")
	rate    = flag.Int("rate", 1000, "queries a second meanwhile")
	judged  = flag.Bool("judge", false, "fail over the limits: median 2 ms and p99 20 ms from the change to the answer; queries' p99 while endpoints change within a quarter of what it is else")
)

const (
	// services is how many there are, all of them headless, with one endpoint that changes.
	services = 2000
	// churn is how many endpoint changes a second queries are measured under.
	churn = 1000
	// window is how long it is either quiet or not: short, so that what else the machine does falls on both.
	window = time.Second
	// probes is how many queries a second are timed.
	probes = 500
	// patience is how long a change or reply is waited for before the test fails.
	patience = 20 * time.Second
)

const corefile = `.:%s {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus 127.0.0.1:0
    cache 30
    loadbalance
}
`

func name(i int) string { return fmt.Sprintf("s%d.prod.svc.cluster.local.", i) }

func service(i int) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: fmt.Sprintf("s%d", i)}, Spec: corev1.ServiceSpec{
		ClusterIP: "None", ClusterIPs: []string{"None"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: "TCP"}}}}
}

// slice is service i's, with its endpoint at the nth address.
func slice(i, n int) *discoveryv1.EndpointSlice {
	ready := true
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "prod", Name: fmt.Sprintf("s%d-x", i), Labels: map[string]string{"kubernetes.io/service-name": fmt.Sprintf("s%d", i)}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address(n)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

func address(n int) string { return fmt.Sprintf("10.%d.%d.%d", 100+n>>16&63, n>>8&255, n&255) }

func TestFreshness(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	w := start(t)
	quiet := w.follow(t, *changes)
	l := load.Start(t, load.Options{Addr: w.addr, Rate: *rate, Sockets: 8, Late: patience, Queries: func(i int) (out []load.Query) {
		for k := range 64 {
			out = append(out, load.Query{Wire: servertest.Pack(t, servertest.Query(name((i*64+k)%services), dns.TypeA, 1232))})
		}
		return out
	}})
	busy := w.follow(t, *changes)
	alone, during, made := w.probe(t)
	l.Stop()
	r := l.Result()
	t.Logf("from a change in the API to the answer, %d changes without other queries: %s", *changes, summary(quiet))
	t.Logf("and under load: %s", summary(busy))
	t.Logf("queries under load: %s", summary(alone))
	t.Logf("and with %.0f changes of endpoints a second: %s", made, summary(during))
	t.Logf("the load: %s", r)
	if r.Wrong > 0 || r.Sent == r.Lost || len(alone) == 0 || len(during) == 0 {
		t.Error("queries were answered with a failure, or none was answered")
	}
	if *judged {
		judge(t, busy, alone, during, made)
		if r.Lost > 0 {
			t.Errorf("%d queries were lost", r.Lost)
		}
	}
}

func judge(t *testing.T, busy, alone, during []time.Duration, made float64) {
	t.Helper()
	if at(busy, 0.5) > 2*time.Millisecond || at(busy, 0.99) > 20*time.Millisecond {
		t.Errorf("changes take too long to be answered: %s", summary(busy))
	}
	if made < 0.95*churn {
		t.Errorf("only %.0f changes a second were made", made)
	}
	if at(during, 0.99) > at(alone, 0.99)*5/4 {
		t.Errorf("queries' p99 is %s while endpoints change, %s else", at(during, 0.99), at(alone, 0.99))
	}
}

func at(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))]
}

func summary(d []time.Duration) string {
	round := func(q float64) time.Duration { return at(d, q).Round(10 * time.Microsecond) }
	return fmt.Sprintf("median %s, p90 %s, p99 %s, worst %s", round(0.5), round(0.9), round(0.99), round(1))
}

// world is the server, and the API server that it follows.
type world struct {
	api  *kubetest.Server
	addr string
}

func start(t *testing.T) *world {
	t.Helper()
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}}
	for i := range services {
		objects = append(objects, service(i), slice(i, 0))
	}
	w := &world{api: kubetest.Start(t, objects...)}
	bin, conf, port := process.Build(t), filepath.Join(t.TempDir(), "Corefile"), process.FreePort(t)
	w.addr = "127.0.0.1:" + port
	if err := os.WriteFile(conf, fmt.Appendf(nil, corefile, port, w.api.Kubeconfig(w.api.Addr(), kubetest.Token)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-quiet", "-conf", conf)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if r, err := dns.Exchange(servertest.Query(name(services-1), dns.TypeA, 0), w.addr); err == nil && len(r.Answer) == 1 {
			return w
		}
	}
	t.Fatal("the server does not answer")
	return nil
}

// follow makes n changes, one after the other, and gives how long each took until it was answered: from before it was made in the API until the
// reply to a client that asks over and over.
func (w *world) follow(t *testing.T, n int) (took []time.Duration) {
	t.Helper()
	conn, err := dns.Dial("udp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for k := range n {
		i := k % services
		want := address(len(took) + int(time.Now().UnixNano()>>10&0xFFFF)) // another than the last
		began := time.Now()
		w.api.Put(sliceAt(i, want))
		for !w.answers(t, conn, i, want) {
			if time.Since(began) > patience {
				t.Fatalf("%s is not answered with %s", name(i), want)
			}
		}
		took = append(took, time.Since(began))
	}
	return took
}

func sliceAt(i int, address string) *discoveryv1.EndpointSlice {
	s := slice(i, 0)
	s.Endpoints[0].Addresses[0] = address
	return s
}

// answers says whether service i is answered with an address now.
func (w *world) answers(t *testing.T, conn *dns.Conn, i int, want string) bool {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if err := conn.WriteMsg(servertest.Query(name(i), dns.TypeA, 0)); err != nil {
		t.Fatal(err)
	}
	m, err := conn.ReadMsg() // of a lost datagram none comes: it is asked again
	return err == nil && len(m.Answer) == 1 && m.Answer[0].(*dns.A).A.String() == want
}

// probe times queries at a steady rate, in turns without and with changes, and gives the times of both and how many changes a second there were.
func (w *world) probe(t *testing.T) (alone, during []time.Duration, made float64) {
	t.Helper()
	conn, err := net.Dial("udp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &prober{conn: conn}
	var reader sync.WaitGroup
	reader.Go(p.read)
	var count int64
	for k := range max(1, *seconds/2) {
		p.ask(t, 2*k, window)
		var quit atomic.Bool
		var changer sync.WaitGroup
		changer.Go(func() { count += w.change(&quit) })
		p.ask(t, 2*k+1, window)
		quit.Store(true)
		changer.Wait()
		made += window.Seconds()
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	reader.Wait()
	return p.took[0], p.took[1], float64(count) / made
}

// change changes endpoints at the rate churn until quit, and gives how many.
func (w *world) change(quit *atomic.Bool) (n int64) {
	for began := time.Now(); !quit.Load(); {
		for due := int64(time.Since(began).Seconds() * churn); n < due; n++ {
			w.api.Put(slice(int(n)%services, int(time.Now().UnixNano()>>10&0xFFFF)))
		}
		<-time.After(time.Second / churn)
	}
	return n
}

// prober sends queries at a steady rate, whatever comes back. The id is the number of a query.
type prober struct {
	conn net.Conn
	mu   sync.Mutex
	n    uint16
	sent [1 << 16]time.Time
	of   [1 << 16]int // which of took
	took [2][]time.Duration
}

// ask asks for a time; what comes back belongs to took[turn%2].
func (p *prober) ask(t *testing.T, turn int, length time.Duration) {
	t.Helper()
	q := servertest.Pack(t, servertest.Query(name(turn%services), dns.TypeA, 1232))
	tick := time.NewTicker(time.Second / probes)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < length; <-tick.C {
		p.mu.Lock()
		p.n++
		binary.BigEndian.PutUint16(q, p.n)
		p.sent[p.n], p.of[p.n] = time.Now(), turn%2
		p.mu.Unlock()
		if _, err := p.conn.Write(q); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *prober) read() {
	buf := make([]byte, 4096)
	for {
		n, err := p.conn.Read(buf)
		if err != nil {
			return
		}
		now := time.Now()
		if n < 12 {
			continue
		}
		id := binary.BigEndian.Uint16(buf)
		p.mu.Lock()
		p.took[p.of[id]] = append(p.took[p.of[id]], now.Sub(p.sent[id]))
		p.mu.Unlock()
	}
}
