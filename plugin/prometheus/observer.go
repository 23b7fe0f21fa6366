package prometheus

import (
	"sync"
	"sync/atomic"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// The label values of a query. A number stands for each while counting.
const (
	udp, tcp   = 0, 1
	ipv4, ipv6 = 0, 1
	// rcodes are those that have a name and a place of their own; the last place is that of all others.
	rcodes = 25
)

// typeNames are the types that have a label value of their own; "other" is that of all others, and the first.
var typeNames = [...]string{
	"other", "A", "AAAA", "MX", "SOA", "CNAME", "PTR", "TXT", "NS", "SRV", "DS", "DNSKEY", "RRSIG", "NSEC", "NSEC3", "HTTPS",
	"IXFR", "AXFR", "ANY",
}

// typeNumbers are the places in typeNames by type.
var typeNumbers = func() (t [256]uint8) {
	for i, s := range typeNames {
		if n, ok := wire.ParseType(s); ok {
			t[n] = uint8(i)
		}
	}
	return t
}()

// typeNumber is the place of a type in typeNames.
func typeNumber(t wire.Type) uint8 {
	if t < wire.Type(len(typeNumbers)) {
		return typeNumbers[t]
	}
	return 0
}

// durations and sizes are the layouts of the histograms, with CoreDNS's classic buckets. Under 60 ns and over 16 s, and under 2 bytes, no
// more is told apart: queries end after 5 s, and have 12 bytes.
var (
	durations = func() *layout {
		return newLayout([]float64{
			.00025, .0005, .001, .002, .004, .008, .016, .032, .064, .128, .256, .512, 1.024, 2.048, 4.096, 8.192,
		}, 0x1p-24, 16)
	}()
	sizes = func() *layout {
		return newLayout([]float64{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3}, 2, 1<<16)
	}()
)

// shard is what one worker has counted of one series. Workers that run at once have different ones, so its lock is not contended but by a
// scrape, by connections of TCP among each other, and by queries that had to wait; and it is cheaper than an atomic operation for each
// of the eight numbers that a query changes.
type shard struct {
	mu       sync.Mutex
	requests [2][2][len(typeNames)]uint64 // by transport, family, type
	do       uint64
	dropped  uint64
	seen     uint32 // for looking at one query in some
	duration tally
	sizes    [2]*protocol
	replies  []*[rcodes]uint64 // by number of the directive
	_        [64]byte          // no two shards share a cache line
}

// protocol is what is counted by transport only; many blocks never see TCP.
type protocol struct {
	request, response tally
}

func (s *shard) protocol(i int) *protocol {
	p := s.sizes[i]
	if p == nil {
		p = &protocol{sizes.tally(), sizes.tally()}
		s.sizes[i] = p
	}
	return p
}

// series are the counts of one server, zone and view. They live as long as the process: a configuration that has them again goes on
// counting.
type series struct {
	server, zone, view string
	shards             []atomic.Pointer[shard]
}

// shard gives a worker's counts; workers beyond the number of processors share them.
func (s *series) shard(i int) *shard {
	p := &s.shards[uint(i)%uint(len(s.shards))]
	if sh := p.Load(); sh != nil {
		return sh
	}
	p.CompareAndSwap(nil, &shard{duration: durations.tally()})
	return p.Load()
}

// observer counts the queries of one block.
type observer struct {
	*series
	numbers *numbers // of the directives known when it was made
	all     *names
	clients *clients // nil unless the busiest are named
}

// Observe implements server.Observer.
func (o *observer) Observe(r *server.Reply, q *server.Query) {
	took := q.Took()
	transport, family := tcp, ipv6
	if q.Transport == server.UDP {
		transport = udp
	}
	if q.Client.Addr().Is4() {
		family = ipv4
	}
	typ := typeNumber(q.QuestionType())
	cell := durations.cell(float64(took) * 1e-9)
	asked := sizes.cell(float64(q.Size()))

	s := o.shard(q.Shard)
	s.mu.Lock()
	s.requests[transport][family][typ]++
	if q.EDNS.DO {
		s.do++
	}
	p := s.protocol(transport)
	p.request.cells[asked]++
	p.request.sum += uint64(q.Size())
	s.duration.cells[cell]++
	s.duration.sum += uint64(took)
	if r.Dropped() {
		s.dropped++
	} else {
		p.response.cells[sizes.cell(float64(r.Len()))]++
		p.response.sum += uint64(r.Len())
		o.reply(s, r)
	}
	s.seen++
	look := s.seen%oneIn == 0
	s.mu.Unlock()
	if look && o.clients != nil {
		o.clients.observe(q)
	}
}

// reply counts the rcode by the directive that answered.
func (o *observer) reply(s *shard, r *server.Reply) {
	n, ok := o.numbers.of(r.By())
	if !ok {
		n = o.all.add(r.By()) // a directive of another block, to which a CNAME led
	}
	for len(s.replies) <= n {
		s.replies = append(s.replies, nil)
	}
	row := s.replies[n]
	if row == nil {
		row = new([rcodes]uint64)
		s.replies[n] = row
	}
	row[min(int(r.RCode()), rcodes-1)]++
}
