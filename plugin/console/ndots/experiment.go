package ndots

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Experiment is what the lab is to find out: each name, looked up by each resolver with each value of ndots.
type Experiment struct {
	Server    string // address and port
	Resolvers []Rules
	NDots     []int
	Names     []string
	Search    []string
	Zones     []string      // of the cluster; see Lab
	Delay     time.Duration // put before replies from upstream; see Lab
	Rounds    int           // how often each name is looked up
	// Step is called after each lookup; nil for nobody.
	Step func(resolver string, ndots int)
}

// Errors of experiments that found out nothing.
var (
	ErrInterrupted = errors.New("interrupted")
	ErrSilent      = errors.New("answers nothing: is a DNS server there?")
)

// Lookups is how many there will be.
func (x *Experiment) Lookups() int { return len(x.Resolvers) * len(x.NDots) * x.Rounds * len(x.Names) }

// Run looks all of it up, one after the other, and reports. If ctx ends before, it gives ErrInterrupted.
func (x *Experiment) Run(ctx context.Context) (*Report, error) {
	report := &Report{Server: x.Server, Search: x.Search, Delay: x.Delay, Rounds: x.Rounds}
	for _, r := range x.Resolvers {
		for _, n := range x.NDots {
			lab := Lab{Server: x.Server, Rules: r, NDots: n, Search: x.Search, Zones: x.Zones, Delay: x.Delay}
			lookups := make([]Lookup, 0, x.Rounds*len(x.Names))
			for range x.Rounds {
				for _, name := range x.Names {
					lookups = append(lookups, lab.Lookup(ctx, name))
					if ctx.Err() != nil {
						return nil, ErrInterrupted
					}
					if x.Step != nil {
						x.Step(r.Name, n)
					}
				}
			}
			report.Summaries = append(report.Summaries, summarize(r.Name, n, len(x.Names), lookups))
		}
	}
	if silent(report.Summaries) {
		return nil, fmt.Errorf("%s %w", x.Server, ErrSilent)
	}
	report.Advice = Advice(report.Summaries)
	return report, nil
}

// silent says whether no query at all was answered.
func silent(all []Summary) bool {
	for i := range all {
		for _, l := range all[i].Trace {
			for j := range l.Queries {
				if l.Queries[j].RCode != "TIMEOUT" {
					return false
				}
			}
		}
	}
	return true
}
