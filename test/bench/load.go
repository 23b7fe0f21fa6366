//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// startPatience is how long a server may take to load the generated cluster.
const startPatience = 60 * time.Second

// run measures the server's latency with one workload at a fixed rate, and then saturates it. The first time, it warms caches and pools.
func run(ctx context.Context, o *options, w workload, port string, pid int, first bool) (result, error) {
	if first {
		if _, _, err := latency(ctx, w, port, 2*o.rate, 2000); err != nil {
			return result{}, err
		}
	}
	var r result
	var err error
	if r.p50, r.p99, err = latency(ctx, w, port, o.rate, o.rate/2); err != nil {
		return result{}, err
	}
	s, err := cost(ctx, o, w, port, pid, perfArgs{cpus: loadCore, clients: 8, queue: 200})
	s.p50, s.p99 = r.p50, r.p99
	return s, err
}

// cost measures what queries cost a server.
func cost(ctx context.Context, o *options, w workload, port string, pid int, a perfArgs) (r result, err error) {
	u0, s0, err := cpuTime(pid)
	if err != nil {
		return result{}, err
	}
	var out perf
	if err := dnsperf(ctx, w, port, a, o.seconds, &out); err != nil {
		return result{}, err
	}
	u1, s1, err := cpuTime(pid)
	if err != nil {
		return result{}, err
	}
	r.user, r.system, r.qps, r.lost = (u1-u0)/out.completed, (s1-s0)/out.completed, out.qps, out.lost/max(out.sent, 1)
	r.completed = out.completed
	return r, nil
}

type perf struct{ sent, completed, lost, qps float64 }

var perfLine = regexp.MustCompile(`(?m)^\s+Queries (sent|completed|lost|per second):\s+([0-9.]+)`)

// perfArgs say how dnsperf asks.
type perfArgs struct {
	cpus           string // that it runs on
	clients, queue int    // sockets, and queries that wait for a reply at most
	rate           int    // queries a second; 0 for as many as are answered
}

// dnsperf runs the load for some seconds and reads its report.
func dnsperf(ctx context.Context, w workload, port string, a perfArgs, seconds int, into *perf) error {
	args := []string{"-c", a.cpus, "dnsperf", "-s", "127.0.0.1", "-p", port, "-d", w.file, "-l", strconv.Itoa(seconds), "-t", "2"}
	if w.tcp {
		args = append(args, "-m", "tcp")
		if !w.pipelined {
			a.clients, a.queue = 32, 32
		}
	}
	if a.rate > 0 {
		args = append(args, "-Q", strconv.Itoa(a.rate))
	}
	out, err := exec.CommandContext(ctx, "taskset", append(args, "-c", strconv.Itoa(a.clients), "-q", strconv.Itoa(a.queue))...).Output()
	if err != nil {
		return fmt.Errorf("dnsperf: %w", err)
	}
	for _, m := range perfLine.FindAllSubmatch(out, -1) {
		v, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return err
		}
		switch string(m[1]) {
		case "sent":
			into.sent = v
		case "completed":
			into.completed = v
		case "lost":
			into.lost = v
		default:
			into.qps = v
		}
	}
	if into.completed == 0 {
		return errors.New("no query was answered")
	}
	return nil
}

var qtypes = map[string]uint16{"A": 1, "PTR": 12, "AAAA": 28, "SRV": 33}

// readQueries packs the first lines of a workload.
func readQueries(file string, most int) ([][]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out [][]byte
	for sc := bufio.NewScanner(f); sc.Scan() && len(out) < most; {
		name, typ, _ := strings.Cut(sc.Text(), " ")
		out = append(out, pack(name, qtypes[typ]))
	}
	return out, nil
}

// pack makes a query of a name without escapes.
func pack(name string, typ uint16) []byte {
	b := []byte{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for l := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(l))), l...)
	}
	return append(b, 0, byte(typ>>8), byte(typ), 0, 1)
}

// awaitAnswer waits until the server answers a name of the cluster, or anything for servers that know none.
func awaitAnswer(ctx context.Context, addr string) error {
	name, ns := service(0)
	q := pack(name+"."+ns+"."+zone, 1)
	for end := time.Now().Add(startPatience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if reply, err := ask(addr, q, 200*time.Millisecond); err == nil && reply[3]&0xF == 0 {
			return nil
		}
	}
	return errors.New("it does not answer names of the cluster")
}

// ask gives the reply to one query over UDP, which has a header at the least.
func ask(addr string, q []byte, patience time.Duration) ([]byte, error) {
	conn, err := net.Dial("udp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := conn.Write(q); err != nil {
		return nil, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err == nil && (n < 12 || buf[2]&0x80 == 0) { // the kernel may give a free port to the client itself, which then hears its own query
		err = errors.New("what came is no reply")
	}
	return buf[:n], err
}

// suits says whether a server answers a workload as clusterdns does, by rcode and by whether there are records, looking at some of its queries.
func (s *subject) suits(w workload, servers []*subject) bool {
	if !s.foreign {
		return true
	}
	queries, err := readQueries(w.file, 400)
	if err != nil {
		return false
	}
	for i := 0; i < len(queries); i += max(1, len(queries)/16) {
		var seen [2][2]byte
		for k, port := range []string{servers[1].port, s.port} {
			reply, err := ask("127.0.0.1:"+port, queries[i], time.Second)
			if err != nil {
				return false
			}
			seen[k] = [2]byte{reply[3] & 0xF, min(1, reply[6]|reply[7])}
		}
		if seen[0] != seen[1] {
			return false
		}
	}
	return true
}
