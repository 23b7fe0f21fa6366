package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/plugin/console/ndots"
	"github.com/clusterdns/clusterdns/server/wire"
)

// The bounds of an experiment: enough to see what ndots costs, and little for a server to bear.
const (
	maxNames = 6
	// experimentPatience is how long one may take. With an upstream that does not answer each candidate costs seconds.
	experimentPatience = 25 * time.Second
	mostDots           = 5 // what Pods have; more is not used
)

// delays are the latencies of an upstream that can be put in.
func delays() []string { return []string{"0ms", "5ms", "20ms", "50ms"} }

// trial is the page of the ndots experiment.
type trial struct {
	Names, From, Resolver, Delay string
	Resolvers                    []ndots.Rules
	Delays                       []string
	MaxNames                     int
	Error                        string
	Report                       *ndots.Report
	Settings                     []setting
	DNS                          string
}

// setting is what one value of ndots costs, ready to be drawn.
type setting struct {
	*ndots.Summary
	Open         bool
	Missing, All float64 // of the bar, in percent: NXDOMAIN, all queries
	Lookups      []lookup
}

type lookup struct {
	*ndots.Lookup
	Queries []query
}

// query is one bar of a waterfall.
type query struct {
	*ndots.Query
	Class       string
	Left, Width float64 // in percent
}

func (c *Console) experiment(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s := c.deps.State()
	p := &trial{
		Names: q.Get("names"), From: q.Get("from"), Resolver: q.Get("resolver"), Delay: q.Get("delay"),
		Resolvers: ndots.Resolvers(), Delays: delays(), MaxNames: maxNames, DNS: s.DNS,
	}
	p.Resolver, p.Delay = cmp.Or(p.Resolver, p.Resolvers[0].Name), cmp.Or(p.Delay, p.Delays[0])
	status := http.StatusOK
	if p.Names != "" {
		status = c.try(r.Context(), p, s.Clusters)
	}
	c.show(w, status, "ndots", page{Title: "ndots", Here: "ndots", Body: p})
}

// try runs the experiment that the page asks for.
func (c *Console) try(ctx context.Context, p *trial, clusters []Cluster) (status int) {
	x, err := p.experiment(clusters)
	if err != nil {
		p.Error = err.Error()
		return http.StatusBadRequest
	}
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	default:
		p.Error = "another experiment is running; try again when it is over"
		return http.StatusTooManyRequests
	}
	ctx, cancel := context.WithTimeout(ctx, experimentPatience)
	defer cancel()
	p.Report, err = x.Run(ctx)
	switch {
	case errors.Is(err, ndots.ErrInterrupted):
		p.Error = fmt.Sprintf("not done in %s: an upstream server does not answer, or the latency is too high for so many names", experimentPatience)
		return http.StatusGatewayTimeout
	case err != nil:
		p.Error = err.Error()
		return http.StatusBadGateway
	}
	p.draw()
	return http.StatusOK
}

// experiment makes of the form what the lab is to do, or says what is wrong with it.
func (p *trial) experiment(clusters []Cluster) (*ndots.Experiment, error) {
	if p.DNS == "" {
		return nil, errors.New("this server has no address for plain DNS")
	}
	x := &ndots.Experiment{Server: p.DNS, Rounds: 1}
	for n := 1; n <= mostDots; n++ {
		x.NDots = append(x.NDots, n)
	}
	rules, err := ndots.ResolverNamed(p.Resolver)
	if err != nil {
		return nil, err
	}
	x.Resolvers = []ndots.Rules{rules}
	if !slices.Contains(p.Delays, p.Delay) {
		return nil, fmt.Errorf("the latency can be one of %s", strings.Join(p.Delays, ", "))
	}
	if x.Delay, err = time.ParseDuration(p.Delay); err != nil {
		return nil, err
	}
	if x.Names, err = names(p.Names); err != nil {
		return nil, err
	}
	return x, p.search(x, clusters)
}

// names reads the names of the form.
func names(text string) ([]string, error) {
	all := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n,", r) })
	if len(all) == 0 || len(all) > maxNames {
		return nil, fmt.Errorf("between 1 and %d names can be looked up, not %d", maxNames, len(all))
	}
	for _, n := range all {
		if _, err := wire.ParseName(n); err != nil {
			return nil, fmt.Errorf("%q cannot be a name: %w", n, err)
		}
	}
	return all, nil
}

// search gives the experiment the search list of a Pod of the form's namespace.
func (p *trial) search(x *ndots.Experiment, clusters []Cluster) error {
	from := cmp.Or(p.From, "default")
	if _, err := wire.ParseName(from); err != nil || strings.Contains(from, ".") {
		return fmt.Errorf("%q cannot be a namespace", from)
	}
	for _, c := range clusters {
		for _, z := range c.Zones() {
			x.Zones = append(x.Zones, strings.TrimSuffix(z, "."))
		}
	}
	zone := "cluster.local"
	if len(x.Zones) > 0 {
		zone = x.Zones[0]
	}
	x.Search = []string{from + ".svc." + zone, "svc." + zone, zone}
	return nil
}

// leastWidth is the width of a bar that can still be seen, in percent.
const leastWidth = 1

// draw makes bars of the report.
func (p *trial) draw() {
	most, best := 1, ndots.Best(p.Report.Summaries)
	for i := range p.Report.Summaries {
		most = max(most, p.Report.Summaries[i].Queries)
	}
	for i := range p.Report.Summaries {
		s := &p.Report.Summaries[i]
		out := setting{Summary: s, Open: s.NDots == mostDots || s.NDots == best, All: percentOf(s.Queries, most), Missing: percentOf(s.NXDomains, most)}
		for j := range s.Trace {
			l := lookup{Lookup: &s.Trace[j]}
			for k := range l.Lookup.Queries {
				q := &l.Lookup.Queries[k]
				left := percentOf(int(q.Start), int(l.Took))
				width := max(percentOf(int(q.Took), int(l.Took)), leastWidth)
				left = min(left, 100-leastWidth)
				l.Queries = append(l.Queries, query{q, classOf(q), left, min(width, 100-left)})
			}
			out.Lookups = append(out.Lookups, l)
		}
		p.Settings = append(p.Settings, out)
	}
}

func percentOf(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

func classOf(q *ndots.Query) string {
	switch {
	case q.RCode == "NXDOMAIN":
		return "nx"
	case q.RCode != "NOERROR":
		return "bad"
	case q.Found():
		return "ok"
	}
	return "nodata"
}
