package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"
)

// view is the overview at one moment: the page shows it, and its script asks for it again.
type view struct {
	// Values are the texts that change while one looks, by the names that the page gives its elements.
	Values map[string]string `json:"values"`
	// Charts are the points of the lines.
	Charts map[string]string `json:"charts"`
	// Shape changes when there are other rows than before: then the page has to be asked for again.
	Shape string `json:"shape"`

	Counted    bool      `json:"-"` // queries are, by a prometheus directive
	Clusters   []row     `json:"-"`
	Upstreams  []row     `json:"-"`
	Caches     []row     `json:"-"`
	Rcodes     []row     `json:"-"`
	Directives []row     `json:"-"`
	Zones      []zoneRow `json:"-"`
}

// zoneRow is a row of the table of zones.
type zoneRow struct {
	Zone
	Key string // as that of a row
}

// row is a row of a table: its texts are the Values "Key.COLUMN".
type row struct{ Key, Title, Note string }

// replies is one of the tables of replies.
type replies struct {
	ID, Title, Column string
	Rows              []row
	Values            map[string]string
}

// ByRcode is the table of response codes.
func (v *view) ByRcode() replies {
	return replies{"h-rcodes", "Replies by response code", "rcode", v.Rcodes, v.Values}
}

// ByDirective is the table of the directives that answered.
func (v *view) ByDirective() replies {
	return replies{"h-directives", "Replies by directive", "answered by", v.Directives, v.Values}
}

func (c *Console) view() *view {
	all := c.monitor.look()
	s := c.deps.State()
	ch := recent(all)
	v := &view{
		Values: map[string]string{}, Charts: map[string]string{},
		Counted: slices.ContainsFunc(s.Zones, func(z Zone) bool { return slices.Contains(z.Directives, "prometheus") }),
	}
	v.process(ch)
	v.zones(s.Zones)
	v.shares(ch)
	v.clusters(s.Clusters)
	v.caches(ch)
	v.upstreams(s.Upstreams, ch)
	v.charts(all, ch)
	v.Shape = v.shape()
	return v
}

// process fills in what there is once.
func (v *view) process(ch change) {
	to := ch.to
	replies := total(ch, "rcode")
	v.Values["rate"] = number(ch.rate("requests", ""))
	v.Values["requests"] = number(to.value("requests", ""))
	v.Values["p50"], v.Values["p99"] = short(ch.percentile(0.50)), short(ch.percentile(0.99))
	v.Values["nxdomain"] = percent(ch.moved("rcode", "NXDOMAIN"), replies)
	v.Values["servfail"] = percent(ch.moved("rcode", "SERVFAIL"), replies)
	v.Values["cachehits"] = percent(total(ch, "cache.hits"), total(ch, "cache.requests"))
	v.Values["parked"] = number(to.value("parked", ""))
	v.Values["cpu"] = percent(to.value("saturation", ""), 1)
	v.Values["memory"] = size(to.value("memory", ""))
	v.Values["panics"] = number(to.value("panics", ""))
	v.Values["limits"] = number(to.value("limits", ""))
	v.Values["reloads"] = number(to.value("reloads.failed", ""))
	v.Values["dropped"] = number(to.value("dropped", ""))
	v.Values["age"] = oldest(ch)
	v.Values["uptime"] = "unknown"
	if began := to.value("started", ""); began > 0 {
		v.Values["uptime"] = age(to.at.Sub(time.Unix(int64(began), 0)))
	}
}

// total is how much all counters of a family moved together.
func total(ch change, key string) (sum float64) {
	for label := range ch.to.values[key] {
		sum += ch.moved(key, label)
	}
	return sum
}

// shares fills in the tables of replies: by response code and by the directive that answered.
func (v *view) shares(ch change) {
	table := func(key string, title func(string) string) (rows []row) {
		for _, label := range slices.Sorted(maps.Keys(ch.to.values[key])) {
			r := row{Key: key + "." + label, Title: title(label)}
			v.Values[r.Key+".rate"] = number(ch.rate(key, label))
			v.Values[r.Key+".total"] = number(ch.to.value(key, label))
			rows = append(rows, r)
		}
		sort.SliceStable(rows, func(a, b int) bool {
			return ch.to.value(key, strings.TrimPrefix(rows[a].Key, key+".")) > ch.to.value(key, strings.TrimPrefix(rows[b].Key, key+"."))
		})
		return rows
	}
	v.Rcodes = table("rcode", func(s string) string { return s })
	v.Directives = table("directive", func(s string) string {
		if s == "" {
			return "the server itself"
		}
		return s
	})
}

// oldest is the age of the data of the source whose are the oldest, "" where there are none.
func oldest(ch change) string {
	if len(ch.to.values["age"]) == 0 {
		return ""
	}
	most := 0.0
	for label := range ch.to.values["age"] {
		most = max(most, ch.to.value("age", label))
	}
	return age(time.Duration(most * float64(time.Second)))
}

// zones fills in how it stands with each zone.
func (v *view) zones(all []Zone) {
	for i, z := range all {
		r := zoneRow{z, fmt.Sprintf("zone.%d", i)}
		v.Values[r.Key+".state"], v.Values[r.Key+".why"] = z.State, z.Why
		v.Zones = append(v.Zones, r)
	}
}

func (v *view) clusters(all []Cluster) {
	for i, c := range all {
		r := row{Key: fmt.Sprintf("cluster.%d", i), Title: strings.Join(c.Zones(), " "), Note: c.Source()}
		state, services := "reading", c.Services()
		switch {
		case c.Stale():
			state = "stale"
		case c.Ready():
			state = "ready"
		}
		ready, endpoints, unready := 0, 0, 0
		for _, name := range services {
			s, ok := c.Service(name)
			if !ok || s.State() == External {
				continue
			}
			ready, endpoints = ready+s.Ready, endpoints+s.Endpoints
			if s.State() == NotReady || s.State() == NoEndpoints {
				unready++
			}
		}
		v.Values[r.Key+".state"] = state
		v.Values[r.Key+".namespaces"] = number(float64(c.Namespaces()))
		v.Values[r.Key+".services"] = number(float64(len(services)))
		v.Values[r.Key+".endpoints"] = fmt.Sprintf("%s of %s", number(float64(ready)), number(float64(endpoints)))
		v.Values[r.Key+".unready"] = number(float64(unready))
		v.Clusters = append(v.Clusters, r)
	}
}

func (v *view) caches(ch change) {
	for _, zones := range slices.Sorted(maps.Keys(ch.to.values["cache.entries"])) {
		r := row{Key: "cache." + zones, Title: zones}
		v.Values[r.Key+".entries"] = number(ch.to.value("cache.entries", zones))
		v.Values[r.Key+".bytes"] = size(ch.to.value("cache.bytes", zones))
		v.Values[r.Key+".rate"] = number(ch.rate("cache.requests", zones))
		v.Values[r.Key+".hits"] = percent(ch.to.value("cache.hits", zones), ch.to.value("cache.requests", zones))
		v.Values[r.Key+".evictions"] = number(ch.to.value("cache.evictions", zones))
		v.Values[r.Key+".stale"] = number(ch.to.value("cache.stale", zones))
		v.Caches = append(v.Caches, r)
	}
}

func (v *view) upstreams(all []Upstream, ch change) {
	for i, u := range all {
		r := row{Key: fmt.Sprintf("upstream.%d", i), Title: u.Address, Note: u.Zone}
		took := "–"
		if n := ch.to.value("upstream.took.count", u.Address); n > 0 {
			took = short(time.Duration(ch.to.value("upstream.took.sum", u.Address) / n * float64(time.Second)))
		}
		v.Values[r.Key+".state"], v.Values[r.Key+".why"] = u.State, u.Why
		v.Values[r.Key+".rate"] = number(ch.rate("upstream.took.count", u.Address))
		v.Values[r.Key+".total"] = number(ch.to.value("upstream.took.count", u.Address))
		v.Values[r.Key+".took"] = took
		v.Values[r.Key+".repeats"] = number(ch.to.value("upstream.repeats", u.Address))
		v.Values[r.Key+".failures"] = number(ch.to.value("upstream.failures", u.Address))
		v.Upstreams = append(v.Upstreams, r)
	}
}

// The size of a chart in its own units, and how many values it is made for at the least: a minute's.
const (
	chartWidth, chartHeight = 240, 40
	fewest                  = 12
)

// charts draws how rate and latency went. What there is at this moment counts among the highest, so that the figure above a line is never over what it says of itself.
func (v *view) charts(all []*sample, now change) {
	rates, slow := make([]float64, 0, len(all)), make([]float64, 0, len(all))
	for i := 1; i < len(all); i++ {
		if all[i].at.Sub(all[i-1].at) < tick/2 {
			continue // too short to tell
		}
		ch := change{all[i-1], all[i]}
		rates, slow = append(rates, ch.rate("requests", "")), append(slow, ch.percentile(0.99).Seconds())
	}
	v.Values["span"] = age(tick * time.Duration(max(len(rates), fewest)))
	v.Charts["rate"], v.Values["rate.most"] = line(rates), number(max(highest(rates), now.rate("requests", "")))
	v.Charts["p99"], v.Values["p99.most"] = line(slow), short(max(time.Duration(highest(slow)*float64(time.Second)), now.percentile(0.99)))
}

func highest(values []float64) (most float64) {
	for _, x := range values {
		most = max(most, x)
	}
	return most
}

// line is the points of an SVG polyline; the last value stands at the right.
func line(values []float64) string {
	var b strings.Builder
	most := highest(values)
	for i, x := range values {
		y := float64(chartHeight - 1)
		if most > 0 {
			y -= x / most * (chartHeight - 2)
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", chartWidth-float64(len(values)-1-i)*chartWidth/float64(max(len(values), fewest)-1), y)
	}
	return strings.TrimSpace(b.String())
}

// shape names the rows that there are.
func (v *view) shape() string {
	var b strings.Builder
	for _, rows := range [][]row{v.Clusters, v.Upstreams, v.Caches, v.Rcodes, v.Directives} {
		keys := make([]string, len(rows))
		for i, r := range rows {
			keys[i] = r.Key + "=" + r.Title
		}
		slices.Sort(keys) // their order changes with what they count
		b.WriteString(strings.Join(keys, ",") + ";")
	}
	return b.String()
}

func (c *Console) overview(w http.ResponseWriter, _ *http.Request) {
	v := c.view()
	c.show(w, http.StatusOK, "overview", page{Title: "Overview", Here: "./", Body: v})
}

func (c *Console) live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.view()) // whoever does not read it does not need it
}

// number is a count or rate as a reader takes it in: digits that matter, thousands apart.
func number(f float64) string {
	switch {
	case f < 0 || math.IsNaN(f):
		return "–"
	case f != math.Trunc(f) && f < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0")
	}
	digits := fmt.Sprintf("%.0f", f)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:] // a narrow space that does not break (ISO 80000-1)
	}
	return digits
}

// percent is a share of a whole; a dash where there is no whole.
func percent(part, whole float64) string {
	if whole <= 0 {
		return "–"
	}
	p := 100 * part / whole
	if p > 0 && p < 10 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", p)
}

// size is a number of bytes.
func size(f float64) string {
	for _, unit := range []string{"B", "kB", "MB"} {
		if f < 1000 {
			if f < 10 && f != math.Trunc(f) {
				return fmt.Sprintf("%.1f %s", f, unit)
			}
			return fmt.Sprintf("%.0f %s", f, unit)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.1f GB", f)
}

// short is a latency with the digits that matter; a dash for none.
func short(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// age is how long something lasts in its two largest units.
func age(d time.Duration) string {
	units := []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		n := d / u.of
		switch {
		case n == 0 && i < len(units)-1:
			continue
		case i == len(units)-1:
			return fmt.Sprintf("%d s", n)
		}
		next := units[i+1]
		if rest := d % u.of / next.of; rest > 0 {
			return fmt.Sprintf("%d %s %d %s", n, u.name, rest, next.name)
		}
		return fmt.Sprintf("%d %s", n, u.name)
	}
	return ""
}
