//go:build linux

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// scaled is a server on a number of cores, and what queries cost it there, by workload.
type scaled struct {
	subject *subject
	results map[string][]result
}

// setCores reads the flag.
func (o *options) setCores(list string) error {
	for f := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 || n > runtime.NumCPU() {
			return fmt.Errorf("want numbers from 1 to %d, separated by commas", runtime.NumCPU())
		}
		o.cores = append(o.cores, n)
	}
	return nil
}

// cpus are those that the server is pinned to, as taskset wants them.
func (s *subject) cpus() string {
	if s.cores <= 1 {
		return serverCore
	}
	return "0-" + strconv.Itoa(s.cores-1)
}

// loadCPUs are those that the load comes from: the ones behind the most that the server has, or, where there are none, all, whatever the
// server has.
func (o *options) loadCPUs() string {
	if most := slices.Max(o.cores); most < runtime.NumCPU() {
		return fmt.Sprintf("%d-%d", most, runtime.NumCPU()-1)
	}
	return fmt.Sprintf("0-%d", runtime.NumCPU()-1)
}

// clientsPerCore is from how many sockets the load comes: the kernel spreads them over the server's by a hash of the address.
const clientsPerCore = 16

// onCores measures the workloads over UDP on each number of cores, and the echo server on as many. Throughput says nothing where load and server
// share cores; what a query costs does: as long as it stays the same, twice the cores answer twice as many. The kernel's part does not stay quite
// the same where a load from the same cores no longer fills the batches; the ratio to the echo server leaves that out.
func (r *report) onCores(ctx context.Context, dir string) error {
	o := r.options
	for _, n := range o.cores {
		for _, of := range r.servers[:2] {
			s := &subject{name: fmt.Sprintf("%s-on-%d", of.name, n), command: of.command, cores: n}
			if err := s.start(ctx, o, dir, r.upstream); err != nil {
				return err
			}
			defer stop(s.cmd)
			r.scaling = append(r.scaling, scaled{s, map[string][]result{}})
		}
	}
	for round := range o.rounds {
		for _, w := range r.loads {
			if w.tcp {
				continue
			}
			o.progress("cores, round %d of %d: %s", round+1, o.rounds, w.name)
			for _, s := range r.scaling {
				n := s.subject.cores
				res, err := cost(ctx, o, w, s.subject.port, s.subject.cmd.Process.Pid, perfArgs{cpus: o.loadCPUs(), clients: clientsPerCore * n, queue: 200 * n})
				if err != nil {
					return err
				}
				s.results[w.name] = append(s.results[w.name], res)
			}
		}
	}
	return nil
}

var coresColumns = []string{"workload", "cores", "CPU µs/query", "user", "× echo on as many", "that : the first"}

// coresRows are the table of cores.
func (r *report) coresRows() [][]string {
	var out [][]string
	for _, w := range r.loads {
		first := 0.0
		for i := 0; i+1 < len(r.scaling); i += 2 {
			echo, own := median(r.scaling[i].results[w.name]), median(r.scaling[i+1].results[w.name])
			if own.completed == 0 || echo.cpu() == 0 {
				continue
			}
			ratio := own.cpu() / echo.cpu()
			if i == 0 {
				first = ratio
			}
			out = append(out, []string{w.name, strconv.Itoa(r.scaling[i].subject.cores), fmt.Sprintf("%.2f", own.cpu()), fmt.Sprintf("%.2f", own.user),
				fmt.Sprintf("%.2f", ratio), fmt.Sprintf("%.2f", ratio/first)})
		}
	}
	return out
}
