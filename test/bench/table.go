//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// table prints the median of the rounds.
func table(to io.Writer, loads []workload, servers []subject, results map[string]map[string][]result) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "workload\tserver\tCPU µs/query\tuser\tsystem\t× echo\tqueries/s\tlost\tp50\tp99\t")
	for _, l := range loads {
		echo := median(results[l.name][echoName])
		for _, s := range servers {
			rs := results[l.name][s.name]
			if len(rs) == 0 {
				continue
			}
			r := median(rs)
			ratio := "-"
			if echo.cpu() > 0 {
				ratio = fmt.Sprintf("%.2f", r.cpu()/echo.cpu())
			}
			fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f\t%.2f\t%s\t%.0f\t%.2f%%\t%s\t%s\t\n", l.name, s.name, r.cpu(), r.user, r.system, ratio, r.qps, 100*r.lost,
				r.p50.Round(time.Microsecond), r.p99.Round(time.Microsecond))
		}
	}
	_ = w.Flush() // to is the terminal or a buffer
}

// median takes the run whose CPU time is in the middle; the zero result if there is none.
func median(rs []result) result {
	if len(rs) == 0 {
		return result{}
	}
	s := slices.Clone(rs)
	slices.SortFunc(s, func(a, b result) int {
		switch {
		case a.cpu() < b.cpu():
			return -1
		case a.cpu() > b.cpu():
			return 1
		}
		return 0
	})
	return s[len(s)/2]
}
