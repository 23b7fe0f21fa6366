// Package fairness holds the test of ratelimit's promise: a client that asks for missing names as fast as it can does not make another one wait.
//
//	go test -count=1 -v ./test/fairness -strict
//
// In a cluster the one who floods has a CPU of its own; here it shares ours. So it floods all the time, and what is compared is whether this server
// or a socket that throws everything away gets it. Figures of latency need a machine that is quiet: only with -strict are they judged. What is
// always judged is that nobody but the flooding client is refused anything.
package fairness_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/server/servertest"
)

const (
	// flood is how many queries per second the one client sends.
	flood = 50_000
	// step is how often it sends what is due: a network brings a flood packet by packet, not in bursts.
	step = 200 * time.Microsecond
	// calm is how many the other one sends.
	calm = 500
	// rounds alternate between the two, so that what else the machine does falls on both.
	rounds, round = 8, 400 * time.Millisecond
	// slower is how much more the other client's 99th percentile may be.
	slower = 1.2
)

const corefile = `.:0 {
    bind 127.0.0.1
    ratelimit 1000
    kubernetes cluster.local {
        manifests services.yaml
    }
}
`

const services = `apiVersion: v1
kind: Namespace
metadata: {name: prod}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: prod}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
`

func TestMain(m *testing.M) {
	flag.Bool("strict", false, "judge the latency")
	flag.Parse()
	os.Exit(m.Run())
}

func start(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "services.yaml"), []byte(services), 0o600); err != nil {
		t.Fatal(err)
	}
	i := config.NewInstance(config.NewShared(io.Discard, prometheus.Build{}), config.DefaultPort)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := i.Start(ctx, config.Source{Name: "Corefile", Path: filepath.Join(dir, "Corefile"), Text: []byte(corefile)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = i.Stop(ctx)
	})
	for _, a := range i.Addrs() {
		return a.String()
	}
	t.Fatal("the server listens nowhere")
	return ""
}

// dialFrom opens a socket of a client of its own: another address of loopback.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("udp", to)
	if err != nil {
		t.Skipf("this system has no %s: %v", from, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestFairness(t *testing.T) {
	addr := start(t)
	noisy, polite, elsewhere := dialFrom(t, "127.0.0.2", addr), dialFrom(t, "127.0.0.1", addr), dialFrom(t, "127.0.0.2", sink(t))
	var sent, got atomic.Int64
	go func() { // ends with the socket
		buf := make([]byte, 512)
		for {
			if _, err := noisy.Read(buf); err != nil {
				return
			}
			got.Add(1)
		}
	}()
	var quiet, flooded []time.Duration
	beside := func(conn net.Conn) (all []time.Duration, sent int64) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { sent = missing(t, conn, stop) })
		all = ask(t, polite)
		close(stop)
		wg.Wait()
		return all, sent
	}
	for range rounds {
		all, _ := beside(elsewhere)
		quiet = append(quiet, all...)
		all, n := beside(noisy)
		flooded = append(flooded, all...)
		sent.Add(n)
	}
	before, after := p99(quiet), p99(flooded)
	t.Logf("p99 %s while another client floods a sink, %s while it floods us with %d queries, to which it got %d replies", before, after, sent.Load(), got.Load())
	// Its limit is 1,000 a second and 2,000 at once; half of what is over it is answered by a truncated reply.
	if sent.Load() > 20_000 && got.Load() > sent.Load()*3/4 {
		t.Errorf("the flooding client got %d replies to %d queries", got.Load(), sent.Load())
	}
	if flag.Lookup("strict").Value.String() == "true" && float64(after) > slower*float64(before) {
		t.Errorf("the 99th percentile went from %s to %s", before, after)
	}
}

// sink is a socket that throws everything away.
func sink(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			if _, _, err := conn.ReadFrom(buf); err != nil {
				return
			}
		}
	}()
	return conn.LocalAddr().String()
}

// ask sends queries of one client at its rate for a round, one after the other, and gives how long each took.
func ask(t *testing.T, conn net.Conn) (all []time.Duration) {
	t.Helper()
	query := servertest.Pack(t, servertest.Query("web.prod.svc.cluster.local.", dns.TypeA, 1232))
	buf := make([]byte, 512)
	tick := time.NewTicker(time.Second / calm)
	defer tick.Stop()
	for begin, id := time.Now(), byte(0); time.Since(begin) < round; id++ {
		<-tick.C
		query[0], query[1] = id, byte(len(all))
		sent := time.Now()
		_ = conn.SetDeadline(sent.Add(5 * time.Second))
		if _, err := conn.Write(query); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil || n < 12 || buf[0] != id || buf[3]&0xF != dns.RcodeSuccess || buf[2]&2 != 0 {
			t.Fatalf("query %d: %d bytes %x, %v", len(all), n, buf[:min(n, 12)], err)
		}
		all = append(all, time.Since(sent))
	}
	return all
}

// missing asks for names that are not there, at the rate of the flood, until stop.
func missing(t *testing.T, conn net.Conn, stop <-chan struct{}) (sent int64) {
	queries := make([][]byte, 256)
	for i := range queries {
		queries[i] = servertest.Pack(t, servertest.Query(fmt.Sprintf("missing%d.prod.svc.cluster.local.", i), dns.TypeA, 1232))
	}
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return sent
		case <-tick.C:
		}
		for range int(flood * step / time.Second) {
			if _, err := conn.Write(queries[sent%int64(len(queries))]); err == nil {
				sent++
			}
		}
	}
}

func p99(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*99/100]
}
