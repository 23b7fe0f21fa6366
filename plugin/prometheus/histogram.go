package prometheus

import (
	"math"
	"sort"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// schema is the resolution of native histograms: 2^4 buckets for each doubling, which is what CoreDNS's factor of 1.05 makes of it.
const (
	schema    = 4
	perDouble = 1 << schema
)

// zeroThreshold is the breadth of the bucket around zero, client_golang's default.
const zeroThreshold = 0x1p-128

// layout says which cell a value is counted in. A cell is the part of a native bucket that lies in one classic bucket, so that one
// increment serves both kinds of histogram. It is immutable.
type layout struct {
	bounds []float64 // the classic buckets' upper bounds, without +Inf
	low    int       // the lowest native bucket that is told apart; values below count there
	first  []uint16  // by native bucket, from low on: its first cell
	split  []float64 // by native bucket: where its second cell begins, or +Inf

	native  []int32 // by cell: its native bucket
	classic []uint8 // by cell: its classic bucket
}

// slot says how native buckets divide a 256th of the range between a power of two and the next.
type slot struct {
	bucket uint8  // native bucket at the lower end
	above  uint64 // mantissas over this are in the next one
}

// slots are found by the upper eight bits of a mantissa: buckets are eleven of them wide at the least, so no slot has two ends in it.
var slots = func() (t [256]slot) {
	for i := range t {
		t[i].above = math.MaxUint64
		low := 1 + float64(i)/256
		for k := range perDouble {
			end := math.Exp2(float64(k) / perDouble)
			switch {
			case end < low:
				t[i].bucket = uint8(k + 1)
			case end < low+1.0/256:
				t[i].bucket = uint8(k)
				t[i].above = math.Float64bits(end) & mantissa
			}
		}
	}
	return t
}()

const mantissa = 1<<52 - 1

// newLayout makes the layout for values from low to high with classic buckets at bounds.
func newLayout(bounds []float64, low, high float64) *layout {
	l := &layout{bounds: bounds, low: bucketOf(low), native: []int32{math.MinInt32}, classic: []uint8{classicOf(bounds, 0)}}
	for i := l.low; i <= bucketOf(high); i++ {
		end := math.Exp2(float64(i) / perDouble)
		begin := math.Exp2(float64(i-1) / perDouble)
		l.first = append(l.first, uint16(len(l.native)))
		l.native = append(l.native, int32(i))
		l.classic = append(l.classic, classicOf(bounds, math.Nextafter(begin, end)))
		at := math.Inf(1)
		if k := sort.SearchFloat64s(bounds, math.Nextafter(begin, end)); k < len(bounds) && bounds[k] < end {
			at = bounds[k]
			l.native = append(l.native, int32(i))
			l.classic = append(l.classic, uint8(k+1))
		}
		l.split = append(l.split, at)
	}
	return l
}

// classicOf is the classic bucket of a value.
func classicOf(bounds []float64, v float64) uint8 { return uint8(sort.SearchFloat64s(bounds, v)) }

// bucketOf is the native bucket of a positive value: the i for which it is over 2^((i-1)/16) and at most 2^(i/16).
func bucketOf(v float64) int {
	bits := math.Float64bits(v)
	frac := bits & mantissa
	s := slots[frac>>44]
	i := (int(bits>>52)-1023)*perDouble + int(s.bucket)
	if frac > s.above {
		i++
	}
	return i
}

// cell is where v is counted.
func (l *layout) cell(v float64) int {
	if v <= 0 {
		return 0
	}
	i := min(max(bucketOf(v)-l.low, 0), len(l.first)-1)
	c := int(l.first[i])
	if v > l.split[i] {
		c++
	}
	return c
}

// tally is one histogram's counts.
type tally struct {
	cells []uint64
	sum   uint64 // of the values in the unit that they are observed in
}

func (l *layout) tally() tally { return tally{cells: make([]uint64, len(l.native))} }

// add adds what another has counted.
func (t *tally) add(o *tally) {
	for i, n := range o.cells {
		t.cells[i] += n
	}
	t.sum += o.sum
}

func (t *tally) count() (n uint64) {
	for _, c := range t.cells {
		n += c
	}
	return n
}

// histogram is a tally on its way to a scrape: a prometheus.Metric with classic and native buckets.
type histogram struct {
	desc    *prom.Desc
	labels  []*dto.LabelPair
	created *timestamppb.Timestamp
	layout  *layout
	tally   tally
	unit    float64 // of sum
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prom.Desc { return h.desc }

// Write implements prometheus.Metric.
func (h *histogram) Write(out *dto.Metric) error {
	out.Label = h.labels
	d := &dto.Histogram{
		SampleCount:      proto.Uint64(h.tally.count()),
		SampleSum:        proto.Float64(float64(h.tally.sum) * h.unit),
		CreatedTimestamp: h.created,
		Schema:           proto.Int32(schema),
		ZeroThreshold:    proto.Float64(zeroThreshold),
		ZeroCount:        proto.Uint64(h.tally.cells[0]),
	}
	h.buckets(d)
	h.spans(d)
	out.Histogram = d
	return nil
}

// buckets fills in the classic buckets, which are cumulative.
func (h *histogram) buckets(d *dto.Histogram) {
	counts := make([]uint64, len(h.layout.bounds)+1)
	for i, n := range h.tally.cells {
		counts[h.layout.classic[i]] += n
	}
	var sum uint64
	for i, b := range h.layout.bounds {
		sum += counts[i]
		d.Bucket = append(d.Bucket, &dto.Bucket{UpperBound: proto.Float64(b), CumulativeCount: proto.Uint64(sum)})
	}
}

// spans fills in the native buckets: runs of those that are not empty, each count as the difference to the one before.
func (h *histogram) spans(d *dto.Histogram) {
	next, last := int32(0), int64(0)
	for i := 1; i < len(h.tally.cells); {
		b, n := h.layout.native[i], int64(0)
		for ; i < len(h.tally.cells) && h.layout.native[i] == b; i++ {
			n += int64(h.tally.cells[i])
		}
		if n == 0 {
			continue
		}
		if len(d.PositiveSpan) == 0 || b != next {
			d.PositiveSpan = append(d.PositiveSpan, &dto.BucketSpan{Offset: proto.Int32(b - next), Length: proto.Uint32(0)})
		}
		*d.PositiveSpan[len(d.PositiveSpan)-1].Length++
		d.PositiveDelta = append(d.PositiveDelta, n-last)
		next, last = b+1, n
	}
	if len(d.PositiveSpan) == 0 { // an empty one is told from a classic histogram by a span of nothing
		d.PositiveSpan = []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(0)}}
	}
}
