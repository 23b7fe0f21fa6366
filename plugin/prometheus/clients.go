package prometheus

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/clusterdns/clusterdns/server"
)

const (
	// oneIn queries is looked at: enough to find the busiest, and little enough to cost nothing.
	oneIn = 16
	// tick is how often counts fade.
	tick = 5 * time.Second
	// fading is what a tick leaves of a count: e to the power of -5 s by the minute that the average is over.
	fading = 0.9200444146293233
	// perClient is how many clients are followed for each that is named. The busiest are found for certain among those that
	// make more than one query in as many as are followed (Metwally et al., space saving).
	perClient = 5
	// trust is for how many ticks the names of a client are believed: addresses of Pods are given to others.
	trust = 6
)

// clients finds the busiest clients. It follows a bounded number of them, whatever addresses queries come from.
type clients struct {
	mu    sync.Mutex
	count int // how many are named; 0 for off
	index map[netip.Addr]int
	list  []client
	ticks int // since it was switched on
}

// client is one that is followed.
type client struct {
	addr           netip.Addr
	weight         float64 // queries in the time that is remembered
	namespace, pod string
	named          int // the tick at which the names were looked up
}

// limit sets how many clients are named from now on.
func (c *clients) limit(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n != c.count {
		c.count, c.list, c.index, c.ticks = n, nil, make(map[netip.Addr]int, n*perClient), 0
	}
}

// observe is given one query in oneIn. Where another worker is at it, the query is passed over: nothing waits here.
func (c *clients) observe(q *server.Query) {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if c.count == 0 {
		return
	}
	addr := q.Client.Addr()
	i, ok := c.index[addr]
	if !ok {
		i = c.follow(addr)
	}
	e := &c.list[i]
	e.weight += oneIn
	if e.named < 0 || c.ticks-e.named >= trust {
		e.namespace, e.pod = q.Metadata("kubernetes/client-namespace"), q.Metadata("kubernetes/client-pod-name")
		e.named = c.ticks
	}
}

// follow begins to follow a client: in place of the one with the least weight, which it inherits, when there are too many.
func (c *clients) follow(addr netip.Addr) int {
	if len(c.list) < c.count*perClient {
		c.list = append(c.list, client{addr: addr, named: -1})
		c.index[addr] = len(c.list) - 1
		return len(c.list) - 1
	}
	least := 0
	for i := range c.list {
		if c.list[i].weight < c.list[least].weight {
			least = i
		}
	}
	delete(c.index, c.list[least].addr)
	c.list[least] = client{addr: addr, weight: c.list[least].weight, named: -1}
	c.index[addr] = least
	return least
}

// fade lets counts fade; it is called every tick.
func (c *clients) fade() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticks++
	for i := range c.list {
		c.list[i].weight *= fading
	}
}

// rated is a client with its rate.
type rated struct {
	client
	rate float64 // queries per second
}

// busiest gives the busiest clients, at most as many as may be named.
func (c *clients) busiest() []rated {
	c.mu.Lock()
	defer c.mu.Unlock()
	// What the weight of one query per second would be by now.
	one := tick.Seconds() * (1 - math.Pow(fading, float64(c.ticks+1))) / (1 - fading)
	out := make([]rated, 0, len(c.list))
	for _, e := range c.list {
		if e.weight >= oneIn/2 {
			out = append(out, rated{e, e.weight / one})
		}
	}
	slices.SortFunc(out, func(a, b rated) int { return cmp.Or(-cmp.Compare(a.rate, b.rate), a.addr.Compare(b.addr)) })
	return out[:min(len(out), c.count)]
}
