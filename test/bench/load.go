//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// startPatience is how long a server may take to load the generated cluster.
const startPatience = 60 * time.Second

// run saturates the server with one workload and then measures its latency at a fixed rate.
func run(ctx context.Context, o *options, w workload, port string, pid int) (result, error) {
	if err := dnsperf(ctx, w, port, 1, nil); err != nil { // warm-up: fills caches and pools
		return result{}, err
	}
	u0, s0, err := cpuTime(pid)
	if err != nil {
		return result{}, err
	}
	var out perf
	if err := dnsperf(ctx, w, port, o.seconds, &out); err != nil {
		return result{}, err
	}
	u1, s1, err := cpuTime(pid)
	if err != nil {
		return result{}, err
	}
	r := result{user: (u1 - u0) / out.completed, system: (s1 - s0) / out.completed, qps: out.qps, lost: out.lost / max(out.sent, 1)}
	if !w.tcp {
		r.p50, r.p99, err = latency(ctx, w.file, port, o.rate)
	}
	return r, err
}

type perf struct{ sent, completed, lost, qps float64 }

var perfLine = regexp.MustCompile(`(?m)^\s+Queries (sent|completed|lost|per second):\s+([0-9.]+)`)

// dnsperf runs the load for some seconds and reads its report.
func dnsperf(ctx context.Context, w workload, port string, seconds int, into *perf) error {
	clients, queue := "8", "200"
	args := []string{"-c", loadCore, "dnsperf", "-s", "127.0.0.1", "-p", port, "-d", w.file, "-l", strconv.Itoa(seconds), "-t", "2"}
	if w.tcp {
		args = append(args, "-m", "tcp")
		if !w.pipelined {
			clients, queue = "32", "32"
		}
	}
	out, err := exec.CommandContext(ctx, "taskset", append(args, "-c", clients, "-q", queue)...).Output()
	if err != nil {
		return fmt.Errorf("dnsperf: %w", err)
	}
	if into == nil {
		return nil
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

// latency asks at a fixed rate for two seconds, whatever comes back, and gives percentiles of the time to the reply.
func latency(ctx context.Context, file, port string, rate int) (p50, p99 time.Duration, err error) {
	queries, err := readQueries(file, 5000)
	if err != nil {
		return 0, 0, err
	}
	conn, err := net.Dial("udp", "127.0.0.1:"+port)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	const ids = 1 << 16
	var sent [ids]time.Time
	total := min(2*rate, ids-1)
	took := make([]time.Duration, 0, total)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 65535)
		for len(took) < total {
			n, err := conn.Read(buf)
			if err != nil || n < 2 {
				return
			}
			took = append(took, time.Since(sent[binary.BigEndian.Uint16(buf)]))
		}
	}()
	begin := time.Now()
	for i := range total {
		q := queries[i%len(queries)]
		if d := time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(rate))); d > 0 {
			time.Sleep(d)
		}
		binary.BigEndian.PutUint16(q, uint16(i))
		sent[i] = time.Now()
		if _, err := conn.Write(q); err != nil {
			return 0, 0, err
		}
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	<-done
	if len(took) == 0 {
		return 0, 0, errors.New("no reply at the fixed rate")
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], nil
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
	buf := make([]byte, 4096)
	for end := time.Now().Add(startPatience); time.Now().Before(end) && ctx.Err() == nil; {
		conn, err := net.Dial("udp", addr)
		if err != nil {
			return err
		}
		_, _ = conn.Write(q)
		_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := conn.Read(buf)
		conn.Close()
		if err == nil && n > 3 && buf[3]&0xF == 0 {
			return nil
		}
	}
	return errors.New("it does not answer names of the cluster")
}
