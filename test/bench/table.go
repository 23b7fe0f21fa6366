//go:build linux

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that was measured.
type report struct {
	options  *options
	loads    []workload
	servers  []*subject
	results  map[string]map[string][]result // by workload and server
	resident []float64                      // by server, in MB
	apiStart string
	upstream string // its port
	scaling  []scaled
	lines    string // what became of the lines of the log
	before   string // load average
}

var columns = []string{"workload", "server", "CPU µs/query", "user", "system", "× echo", "queries/s", "lost", "p50", "p99"}

// rows are the main table.
func (r *report) rows() [][]string {
	var out [][]string
	for _, l := range r.loads {
		echo := median(r.results[l.name][echoName])
		for _, s := range r.servers {
			rs := r.results[l.name][s.name]
			if len(rs) == 0 {
				continue
			}
			m := median(rs)
			ratio := "-"
			if echo.cpu() > 0 {
				ratio = fmt.Sprintf("%.2f", m.cpu()/echo.cpu())
			}
			out = append(out, []string{l.name, s.name, fmt.Sprintf("%.2f", m.cpu()), fmt.Sprintf("%.2f", m.user), fmt.Sprintf("%.2f", m.system), ratio,
				fmt.Sprintf("%.0f", m.qps), fmt.Sprintf("%.2f%%", 100*m.lost), m.p50.Round(time.Microsecond).String(), m.p99.Round(time.Microsecond).String()})
		}
	}
	return out
}

// starts are the second table: start and memory.
func (r *report) starts() [][]string {
	var out [][]string
	for i, s := range r.servers {
		if s.name != echoName {
			out = append(out, []string{s.name, fmt.Sprintf("%.0f ms", s.took.Seconds()*1000), fmt.Sprintf("%.0f MB", r.resident[i])})
		}
	}
	if r.apiStart != "" {
		out = append(out, []string{"clusterdns, from an API server, in process", r.apiStart, ""})
	}
	return out
}

// logging is the third table: what logging every query costs. Both servers are measured right after each other in each round, and the ratio of
// the round in the middle counts.
func (r *report) logging() [][]string {
	var out [][]string
	for _, l := range r.loads {
		without, with := r.results[l.name][ownName], r.results[l.name][loggingName]
		ratio := func(of func(result) float64) string {
			var all []float64
			for i := range min(len(without), len(with)) {
				all = append(all, of(with[i])/of(without[i]))
			}
			if len(all) == 0 {
				return "-"
			}
			slices.Sort(all)
			return fmt.Sprintf("%.3f (%.3f to %.3f)", all[len(all)/2], all[0], all[len(all)-1])
		}
		out = append(out, []string{l.name, ratio(result.cpu), ratio(func(r result) float64 { return r.qps })})
	}
	return out
}

var loggingColumns = []string{"workload", "CPU/query with log : without", "queries/s with log : without"}

type table struct {
	head []string
	rows [][]string
}

func (r *report) tables() []table {
	out := []table{{columns, r.rows()}, {startColumns, r.starts()}}
	if r.options.log {
		out = append(out, table{loggingColumns, r.logging()})
	}
	if len(r.scaling) > 0 {
		out = append(out, table{coresColumns, r.coresRows()})
	}
	return out
}

var startColumns = []string{"server", "start to first answer", "resident after the run"}

func (r *report) toText(to io.Writer) {
	for _, t := range r.tables() {
		w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, row := range append([][]string{t.head}, t.rows...) {
			fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
		}
		_ = w.Flush() // to is in memory
		fmt.Fprintln(to)
	}
	if r.lines != "" {
		fmt.Fprintln(to, r.lines)
	}
}

// The lines between which a page's figures stand.
const (
	beginMark = "<!-- bench: begin -->"
	endMark   = "<!-- bench: end -->"
)

func (r *report) toMarkdown(to io.Writer) {
	o := r.options
	fmt.Fprintf(to, "Measured on %s, %s, %d cores, Linux %s, %s; load average %s before and %s at the end, of which the run itself makes about 2.\n"+
		"%d Services, rounds: %d of %d s, latency at %d queries/s.\n\n", o.started.UTC().Format(time.DateOnly), processor(), runtime.NumCPU(),
		kernel(), runtime.Version(), r.before, loadAverage(), o.services, o.rounds, o.seconds, o.rate)
	if !quiet(r.before) {
		fmt.Fprint(to, "The machine was shared and loaded: take the ratios for rough, and latency and start times for too long.\n\n")
	}
	fmt.Fprintf(to, "    go run ./test/bench%s\n\n", commandLine(os.Args[1:]))
	for _, t := range r.tables() {
		fmt.Fprintf(to, "| %s |\n|%s\n", strings.Join(t.head, " | "), strings.Repeat("---|", len(t.head)))
		for _, row := range t.rows {
			fmt.Fprintf(to, "| %s |\n", strings.Join(row, " | "))
		}
		fmt.Fprintln(to)
	}
	if r.lines != "" {
		fmt.Fprintf(to, "%s\n\n", r.lines)
	}
}

// commandLine quotes what a shell would take apart.
func commandLine(args []string) string {
	var b strings.Builder
	for _, a := range args {
		if strings.ContainsAny(a, " |{}*$") {
			a = "'" + a + "'"
		}
		b.WriteString(" " + a)
	}
	return b.String()
}

// replaceMarked puts text between the markers of a file, or makes it the whole file if there are none.
func replaceMarked(file, text string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	head, rest, marked := bytes.Cut(old, []byte(beginMark+"\n"))
	_, tail, ended := bytes.Cut(rest, []byte(endMark))
	if len(old) > 0 && (!marked || !ended) {
		return fmt.Errorf("%s has no lines %s and %s to write between", file, beginMark, endMark)
	}
	out := slices.Concat(head, []byte(beginMark+"\n\n"+text+endMark), tail)
	if len(old) == 0 {
		out = []byte(text)
	}
	return os.WriteFile(file, out, 0o644) //nolint:gosec // a page for everybody
}

// median takes the run whose CPU time is in the middle, and the latencies in the middle of theirs; the zero result if there is none.
func median(rs []result) result {
	if len(rs) == 0 {
		return result{}
	}
	s := slices.Clone(rs)
	middle := func(order func(a, b result) int) result {
		slices.SortFunc(s, order)
		return s[len(s)/2]
	}
	p50 := middle(func(a, b result) int { return cmp.Compare(a.p50, b.p50) }).p50
	p99 := middle(func(a, b result) int { return cmp.Compare(a.p99, b.p99) }).p99
	m := middle(func(a, b result) int { return cmp.Compare(a.cpu(), b.cpu()) })
	m.p50, m.p99 = p50, p99
	return m
}
