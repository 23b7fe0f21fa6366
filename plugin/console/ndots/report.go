package ndots

import (
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// Report is everything that one run of the lab found.
type Report struct {
	Server    string        `json:"server"`
	Search    []string      `json:"search"`
	Delay     time.Duration `json:"delayNs"`
	Rounds    int           `json:"rounds"`
	Summaries []Summary     `json:"summaries"`
	Advice    []string      `json:"advice"`
}

// NothingFound says whether no lookup at all found an address, and why, or "".
func (r *Report) NothingFound() string {
	if !nothingFound(r.Summaries) {
		return ""
	}
	for i := range r.Summaries {
		for _, l := range r.Summaries[i].Trace {
			for _, q := range l.Queries {
				if l.Outcome == Failed && q.outcome != Found && q.outcome != NXDomain && q.outcome != NoData {
					return fmt.Sprintf("no lookup found an address: %s from %s for %s", q.RCode, r.Server, q.Name)
				}
			}
		}
	}
	return fmt.Sprintf("no lookup found an address: %s says that none of these names exists", r.Server)
}

// Text writes an aligned table and the advice.
func (r *Report) Text(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "resolver\tndots\tlookups\tnot found\tqueries\tNXDOMAIN\tupstream\tbytes\tp50\tp90\tp99\t")
	for i := range r.Summaries {
		s := &r.Summaries[i]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t\n", s.Resolver, s.NDots, s.Lookups, s.NotFound, s.Queries, s.NXDomains, s.Upstream, s.Bytes,
			short(s.P50), short(s.P90), short(s.P99))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, a := range r.Advice {
		if _, err := fmt.Fprintf(to, "\n%s\n", a); err != nil {
			return err
		}
	}
	return nil
}

// JSON writes all of it, durations in nanoseconds.
func (r *Report) JSON(to io.Writer) error {
	enc := json.NewEncoder(to)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// CSV writes a row a summary, durations in microseconds.
func (r *Report) CSV(to io.Writer) error {
	w := csv.NewWriter(to)
	rows := [][]string{{"resolver", "ndots", "lookups", "not_found", "queries", "nxdomains", "upstream_queries", "bytes", "p50_us", "p90_us", "p99_us"}}
	for i := range r.Summaries {
		s := &r.Summaries[i]
		row := []string{s.Resolver}
		for _, n := range []int{s.NDots, s.Lookups, s.NotFound, s.Queries, s.NXDomains, s.Upstream, s.Bytes, int(s.P50.Microseconds()), int(s.P90.Microseconds()), int(s.P99.Microseconds())} {
			row = append(row, strconv.Itoa(n))
		}
		rows = append(rows, row)
	}
	return w.WriteAll(rows)
}

// page is the report for a browser: one file without scripts or requests.
//
//go:embed report.html
var page string

// HTML writes a self-contained page: a bar per setting, and a waterfall of the first lookup of each name.
func (r *Report) HTML(to io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"short":   short,
		"percent": func(part, whole int) string { return fmt.Sprintf("%.2f", 100*float64(part)/float64(max(whole, 1))) },
		"of": func(part, whole time.Duration) string {
			return fmt.Sprintf("%.2f", 100*float64(part)/float64(max(whole, 1)))
		},
		"sum":     func(a, b time.Duration) time.Duration { return a + b },
		"most":    r.most,
		"longest": longest,
		"groups":  func() [][]Summary { return byResolver(r.Summaries) },
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(to, r)
}

// most is the greatest number of queries of any setting: the scale of the bars.
func (r *Report) most() int {
	n := 0
	for i := range r.Summaries {
		n = max(n, r.Summaries[i].Queries)
	}
	return n
}

// longest is the duration of the slowest lookup of a trace: the scale of its waterfall.
func longest(trace []Lookup) time.Duration {
	var d time.Duration
	for i := range trace {
		d = max(d, trace[i].Took)
	}
	return d
}

// short rounds a duration to what a reader compares.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
