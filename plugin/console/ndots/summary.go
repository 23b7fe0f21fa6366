package ndots

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// DefaultNDots is the ndots that Pods have.
const DefaultNDots = 5

// Advice is what the figures say, a sentence each.
func Advice(all []Summary) []string {
	var out []string
	for _, group := range byResolver(all) {
		usual := baseline(group)
		if nothingFound(group) {
			out = append(out, fmt.Sprintf("%s: no lookup found an address, so no ndots is better than another.", usual.Resolver))
			continue
		}
		out = append(out, usual.Resolver+": "+verdict(group, usual))
		out = append(out, savings(usual)...)
	}
	return out
}

// baseline is what others are compared with: the default if it was measured, or else the highest.
func baseline(group []Summary) *Summary {
	out := &group[0]
	for i := range group {
		if n := group[i].NDots; n == DefaultNDots || out.NDots != DefaultNDots && n > out.NDots {
			out = &group[i]
		}
	}
	return out
}

// verdict compares the best values of ndots with the usual one.
func verdict(group []Summary, usual *Summary) string {
	best := bestOf(group)
	ties := tiesWith(best, group)
	unfound := ""
	if best.NotFound > 0 {
		unfound = fmt.Sprintf("; %d of %d lookups find no address", best.NotFound, best.Lookups)
	}
	switch {
	case len(group) == 1:
		return fmt.Sprintf("%s takes %s queries a lookup%s.", usual.setting(), perLookup(usual), unfound)
	case best == usual && len(ties) == len(group)-1:
		return fmt.Sprintf("every ndots takes %s queries a lookup for these names: stay with %s%s.", perLookup(best), usual.setting(), unfound)
	case best == usual && len(ties) > 0:
		return fmt.Sprintf("nothing is better for these names than %s: %s queries a lookup, and as many with %s%s.", usual.setting(), perLookup(best), strings.Join(ties, ", "), unfound)
	case best == usual:
		return fmt.Sprintf("%s is best for these names: %s queries a lookup%s.", usual.setting(), perLookup(best), unfound)
	}
	s := fmt.Sprintf("ndots:%d is best for these names: %s queries a lookup, where %s takes %s", best.NDots, perLookup(best), usual.setting(), perLookup(usual))
	if more := usual.NotFound - best.NotFound; more > 0 {
		s += fmt.Sprintf(" and finds no address in %d more", more)
	}
	if len(ties) > 0 {
		s += fmt.Sprintf(" (%s does as well)", strings.Join(ties, ", "))
	}
	return s + unfound + "."
}

// tiesWith are the other values of ndots that cost as much as the best.
func tiesWith(best *Summary, group []Summary) (ties []string) {
	for i := range group {
		if s := &group[i]; s != best && s.NotFound == best.NotFound && s.Queries == best.Queries {
			ties = append(ties, strconv.Itoa(s.NDots))
		}
	}
	return ties
}

func (s *Summary) setting() string {
	if s.NDots == DefaultNDots {
		return fmt.Sprintf("the default ndots:%d", s.NDots)
	}
	return fmt.Sprintf("ndots:%d", s.NDots)
}

// nothingFound says whether no lookup found an address.
func nothingFound(all []Summary) bool {
	return !slices.ContainsFunc(all, func(s Summary) bool { return s.NotFound < s.Lookups })
}

func perLookup(s *Summary) string { return fmt.Sprintf("%.1f", float64(s.Queries)/float64(s.Lookups)) }

// Best is the value of ndots that is best of the summaries of one resolver; there must be one.
func Best(group []Summary) int { return bestOf(group).NDots }

func bestOf(group []Summary) *Summary {
	best := &group[0]
	for i := range group {
		if better(&group[i], best) {
			best = &group[i]
		}
	}
	return best
}

// better prefers what finds more names, then what asks less, then the default, then what is higher.
func better(a, b *Summary) bool {
	switch {
	case a.NotFound != b.NotFound:
		return a.NotFound < b.NotFound
	case a.Queries != b.Queries:
		return a.Queries < b.Queries
	case a.NDots == DefaultNDots || b.NDots == DefaultNDots:
		return a.NDots == DefaultNDots
	}
	return a.NDots > b.NDots
}

// savings counts what the other remedies leave of the queries of the usual setting.
func savings(s *Summary) []string {
	direct := 2 * s.Lookups
	if s.Queries <= direct {
		return nil
	}
	out := []string{
		fmt.Sprintf("%s: at ndots:%d, trailing dots in the names (or full names) would save %d of %d queries; autopath the same, with no change to the names.",
			s.Resolver, s.NDots, s.Queries-direct, s.Queries),
	}
	if s.distinct < s.Queries {
		out = append(out, fmt.Sprintf("%s: a node-local cache would let %d of %d queries leave the node, each question once.", s.Resolver, s.distinct, s.Queries))
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
