package ndots

import (
	"fmt"
	"slices"
	"time"
)

// Summary is what the lookups of one resolver with one value of ndots cost.
type Summary struct {
	Resolver  string        `json:"resolver"`
	NDots     int           `json:"ndots"`
	Lookups   int           `json:"lookups"`
	NotFound  int           `json:"notFound"` // lookups without an address
	Queries   int           `json:"queries"`
	NXDomains int           `json:"nxdomains"`
	Upstream  int           `json:"upstreamQueries"`
	Bytes     int           `json:"bytes"`
	P50       time.Duration `json:"p50Ns"`
	P90       time.Duration `json:"p90Ns"`
	P99       time.Duration `json:"p99Ns"`
	Trace     []Lookup      `json:"trace"` // the first lookup of each name
	distinct  int
}

// summarize adds up lookups, of which the first len(trace) are the first of each name.
func summarize(resolver string, ndots, names int, lookups []Lookup) Summary {
	s := Summary{Resolver: resolver, NDots: ndots, Lookups: len(lookups), Trace: lookups[:min(names, len(lookups))]}
	took := make([]time.Duration, 0, len(lookups))
	seen := map[string]bool{}
	for i := range lookups {
		took = append(took, lookups[i].Took)
		if lookups[i].Outcome != Found {
			s.NotFound++
		}
		for j := range lookups[i].Queries {
			q := &lookups[i].Queries[j]
			s.Queries += q.Attempts
			s.Bytes += q.Bytes
			if q.RCode == "NXDOMAIN" {
				s.NXDomains++
			}
			if q.Upstream {
				s.Upstream += q.Attempts
			}
			seen[q.Name+q.Type] = true
		}
	}
	slices.Sort(took)
	s.P50, s.P90, s.P99 = percentile(took, 50), percentile(took, 90), percentile(took, 99)
	s.distinct = len(seen)
	return s
}

// percentile is the nearest rank.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// Advice is what the figures say, a sentence each.
func Advice(all []Summary) []string {
	var out []string
	for _, group := range byResolver(all) {
		best, worst := &group[0], &group[0]
		for i := range group {
			if better(&group[i], best) {
				best = &group[i]
			}
			if group[i].Queries >= worst.Queries { // of equals the last: ndots:5 is what Pods have
				worst = &group[i]
			}
		}
		s := fmt.Sprintf("%s: ndots:%d is best for these names: %s queries a lookup", best.Resolver, best.NDots, perLookup(best))
		if worst.NDots != best.NDots && worst.Queries > best.Queries {
			s += fmt.Sprintf(", where ndots:%d takes %s", worst.NDots, perLookup(worst))
		}
		if best.NotFound > 0 {
			s += fmt.Sprintf(" (%d of %d lookups find no address)", best.NotFound, best.Lookups)
		}
		out = append(out, s+".")
		out = append(out, savings(worst)...)
	}
	return out
}

func perLookup(s *Summary) string { return fmt.Sprintf("%.1f", float64(s.Queries)/float64(s.Lookups)) }

// Best is the value of ndots that is best of the summaries of one resolver; there must be one.
func Best(group []Summary) int {
	best := &group[0]
	for i := range group {
		if better(&group[i], best) {
			best = &group[i]
		}
	}
	return best.NDots
}

// better prefers what finds more names, then what asks less, then what stays closer to the default of 5.
func better(a, b *Summary) bool {
	switch {
	case a.NotFound != b.NotFound:
		return a.NotFound < b.NotFound
	case a.Queries != b.Queries:
		return a.Queries < b.Queries
	}
	return a.NDots > b.NDots
}

// savings counts what the other remedies leave of the queries of the worst setting.
func savings(s *Summary) []string {
	direct := 2 * s.Lookups
	if s.Queries <= direct {
		return nil
	}
	out := []string{
		fmt.Sprintf("At ndots:%d, trailing dots in the names (or full names) would save %d of %d queries; autopath the same, with no change to the names.",
			s.NDots, s.Queries-direct, s.Queries),
	}
	if s.distinct < s.Queries {
		out = append(out, fmt.Sprintf("A node-local cache would let %d of %d queries leave the node, each question once.", s.distinct, s.Queries))
	}
	return out
}

// byResolver groups summaries, which are in order, by their resolver.
func byResolver(all []Summary) [][]Summary {
	var out [][]Summary
	for i := range all {
		if len(out) == 0 || out[len(out)-1][0].Resolver != all[i].Resolver {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], all[i])
	}
	return out
}
