//go:build linux

// Bench measures what a query costs. It pins each DNS server to one core and the load to another, runs every workload against each, and prints CPU time per query
// (user and system, from /proc), throughput, the latency at a fixed rate, and the ratio to a server that only echoes messages, all in one
// run: absolute times drift with the machine, ratios hardly do.
//
//	go run ./test/bench                       # clusterdns and the echo server, every workload
//	go run ./test/bench -run 'cluster|nx'     # some workloads
//	go run ./test/bench -log -run 'cluster-A$|nx|cached'   # what logging every query costs, side by side
//	go run ./test/bench -markdown -o docs/benchmarks.md   # into that page, between its markers
//	go run ./test/bench -server 'knot=knotd -c {dir}/knot.conf' -server 'dnsmasq=dnsmasq -k -C {dir}/dnsmasq.conf'
//
// A server that -server adds finds what it may need in {dir}: the cluster as zone files and as a hosts file, and configurations of Knot DNS and of
// dnsmasq for them. Workloads that it answers otherwise than clusterdns are left out for it.
//
// It needs Linux, two cores and Debian's dnsperf, and no privileges. Everything runs on 127.0.0.1 and ends by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
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
	log      bool
	cores    []int
	markdown bool
	into     string
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
	flag.IntVar(&o.seconds, "seconds", 1, "how long each workload runs against each server in a round")
	flag.IntVar(&o.rounds, "rounds", 3, "how often all is repeated; the median counts")
	flag.IntVar(&o.services, "services", 8000, "Services in the generated cluster")
	flag.IntVar(&o.rate, "rate", 5000, "queries a second at which latency is measured")
	flag.BoolVar(&o.log, "log", false, "add clusterdns with the directive log, its lines read from a pipe by another process, and compare it with clusterdns without")
	flag.Func("cores", "`LIST` of numbers of cores, such as 1,2: add a table of what a query costs clusterdns on so many", o.setCores)
	flag.BoolVar(&o.markdown, "markdown", false, "print the tables as Markdown")
	flag.StringVar(&o.into, "o", "", "write into `FILE`, between its lines "+beginMark+" and "+endMark+" if it has them")
	run := flag.String("run", ".", "run the workloads whose name matches this expression")
	flag.Func("server", "`NAME=COMMAND` adds a server; {addr}, {port} and {upstream} in the command say where it has to listen and forward to", func(s string) error {
		name, command, ok := strings.Cut(s, "=")
		if !ok || name == "" || strings.ContainsAny(name, "/ ") || strings.TrimSpace(command) == "" {
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

// bench prepares everything in a folder of its own, runs, and prints the tables.
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
	r := &report{options: o, loads: loads, results: map[string]map[string][]result{}, before: loadAverage()}
	o.progress("building clusterdns")
	if r.servers, err = prepare(ctx, dir, o); err != nil {
		return err
	}
	defer stopAll(r.servers)
	if r.upstream, err = startAll(ctx, o, dir, r.servers); err != nil {
		return err
	}
	if err := r.measure(ctx, dir); err != nil {
		return err
	}
	o.progress("start with an API server")
	r.apiStart = apiStart(ctx)
	return r.write()
}

// measure runs everything that needs the servers.
func (r *report) measure(ctx context.Context, dir string) (err error) {
	for round := range r.options.rounds {
		if err := r.round(ctx, round); err != nil {
			return err
		}
	}
	for _, s := range r.servers {
		r.resident = append(r.resident, residentMemory(s.cmd.Process.Pid))
	}
	if r.options.log {
		if r.lines, err = r.linesWritten(); err != nil {
			return err
		}
	}
	return r.onCores(ctx, dir)
}

// round runs every workload once against each server, one server right after the other, so that they find the machine in the same state.
func (r *report) round(ctx context.Context, round int) error {
	for _, w := range r.loads {
		r.options.progress("round %d of %d: %s", round+1, r.options.rounds, w.name)
		for _, s := range r.servers {
			if round == 0 && !s.suits(w, r.servers) {
				s.skips[w.name] = true
			}
			if s.skips[w.name] {
				continue
			}
			res, err := run(ctx, r.options, w, s.port, s.cmd.Process.Pid, round == 0)
			if err != nil && s.foreign && ctx.Err() == nil {
				r.options.progress("%s: %s: %v; left out", s.name, w.name, err)
				s.skips[w.name] = true
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", s.name, w.name, err)
			}
			if r.results[w.name] == nil {
				r.results[w.name] = map[string][]result{}
			}
			r.results[w.name][s.name] = append(r.results[w.name][s.name], res)
		}
	}
	return nil
}

// write prints the report to where it is wanted.
func (r *report) write() error {
	var text strings.Builder
	if r.options.markdown {
		r.toMarkdown(&text)
	} else {
		r.toText(&text)
	}
	if r.options.into == "" {
		_, err := io.WriteString(os.Stdout, text.String())
		return err
	}
	return replaceMarked(filepath.Clean(r.options.into), text.String())
}

func (o *options) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(o.started).Seconds(), fmt.Sprintf(format, args...))
}
