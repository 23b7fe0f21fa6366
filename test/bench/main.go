//go:build linux

// Bench measures what a query costs. It pins each DNS server to one core and the load to another, runs every workload against each, and prints CPU time per query
// (user and system, from /proc), throughput, the latency at a fixed rate, and the ratio to a server that only echoes datagrams, all in one
// run: absolute times drift with the machine, ratios hardly do.
//
//	go run ./test/bench                       # clusterdns and the echo server, every workload
//	go run ./test/bench -run 'cluster|nx'     # some workloads
//	go run ./test/bench -server 'knot=knotd -c /etc/knot.conf -a {addr}@{port}'
//
// It needs Linux, two cores and Debian's dnsperf. Everything runs on 127.0.0.1 and ends by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

type options struct {
	seconds  int
	rounds   int
	services int
	rate     int
	only     *regexp.Regexp
	servers  []string
	started  time.Time
}

func main() {
	if len(os.Args) > 2 && strings.HasPrefix(os.Args[1], "internal-") {
		if err := internal(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.IntVar(&o.seconds, "seconds", 3, "how long each workload runs against each server")
	flag.IntVar(&o.rounds, "rounds", 3, "how often all is repeated; the median counts")
	flag.IntVar(&o.services, "services", 8000, "Services in the generated cluster")
	flag.IntVar(&o.rate, "rate", 5000, "queries a second at which latency is measured")
	run := flag.String("run", ".", "run the workloads whose name matches this expression")
	flag.Func("server", "`NAME=COMMAND` adds a server; {addr} and {port} in the command say where it has to listen", func(s string) error {
		if !strings.Contains(s, "=") {
			return errors.New("want NAME=COMMAND")
		}
		o.servers = append(o.servers, s)
		return nil
	})
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(*run); err != nil {
		fmt.Fprintln(os.Stderr, "bench: -run:", err)
		os.Exit(2)
	}
	o.started = time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench prepares everything in a folder of its own, runs, and prints the table.
func bench(ctx context.Context, o *options) error {
	if err := requirements(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "clusterdns-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.progress("generating a cluster of %d Services", o.services)
	if err := writeCluster(dir, o.services); err != nil {
		return err
	}
	loads, err := writeWorkloads(dir, o.services, o.only)
	if err != nil {
		return err
	}
	o.progress("building clusterdns")
	servers, err := prepare(ctx, dir, o.servers)
	if err != nil {
		return err
	}
	results := map[string]map[string][]result{}
	for round := range o.rounds {
		for i := range servers {
			s := &servers[i]
			o.progress("round %d of %d: %s", round+1, o.rounds, s.name)
			err := s.measure(ctx, o, loads, func(load string, r result) {
				if results[load] == nil {
					results[load] = map[string][]result{}
				}
				results[load][s.name] = append(results[load][s.name], r)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	table(os.Stdout, loads, servers, results)
	return nil
}

func (o *options) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(o.started).Seconds(), fmt.Sprintf(format, args...))
}
