package prometheus

import (
	"math"
	"math/rand/v2"
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestHistogramIsClientGolangs counts the same values here and in a histogram of client_golang: what a scrape sees must not differ.
func TestHistogramIsClientGolangs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		layout *layout
		value  func(*rand.Rand) uint64
		unit   float64
		extra  []uint64
	}{
		"durations": {durations, func(r *rand.Rand) uint64 { return uint64(math.Exp(r.Float64()*18+4.5)) % 10e9 }, 1e-9,
			[]uint64{0, 250_000, 250_001, 249_999, 1_024_000_000, 8_192_000_000, 8_192_000_001, 1_000_000_000, 500_000_000}},
		"sizes": {sizes, func(r *rand.Rand) uint64 { return 12 + r.Uint64N(65524) }, 1,
			[]uint64{0, 12, 99, 100, 101, 511, 512, 513, 1023, 1024, 4096, 8291, 8292, 16000, 64000, 64001, 65535}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs := prom.NewHistogram(prom.HistogramOpts{Name: "x", Buckets: tt.layout.bounds, NativeHistogramBucketFactor: 1.05})
			ours := tt.layout.tally()
			r := rand.New(rand.NewPCG(1, 2))
			for i := range 50_000 {
				n := tt.value(r)
				if i < len(tt.extra) {
					n = tt.extra[i]
				}
				v := float64(n) * tt.unit
				theirs.Observe(v)
				ours.cells[tt.layout.cell(v)]++
				ours.sum += n
			}
			var want, got dto.Metric
			if err := theirs.Write(&want); err != nil {
				t.Fatal(err)
			}
			h := histogram{layout: tt.layout, tally: ours, unit: tt.unit}
			if err := h.Write(&got); err != nil {
				t.Fatal(err)
			}
			same(t, want.Histogram, got.Histogram)
		})
	}
}

func same(t *testing.T, want, got *dto.Histogram) {
	t.Helper()
	if want.GetSampleCount() != got.GetSampleCount() || want.GetSchema() != got.GetSchema() ||
		want.GetZeroCount() != got.GetZeroCount() || want.GetZeroThreshold() != got.GetZeroThreshold() {
		t.Errorf("count, schema, zero count, threshold: want %d %d %d %g, got %d %d %d %g",
			want.GetSampleCount(), want.GetSchema(), want.GetZeroCount(), want.GetZeroThreshold(),
			got.GetSampleCount(), got.GetSchema(), got.GetZeroCount(), got.GetZeroThreshold())
	}
	if math.Abs(want.GetSampleSum()/got.GetSampleSum()-1) > 1e-9 {
		t.Errorf("sum: want %g, got %g", want.GetSampleSum(), got.GetSampleSum())
	}
	if len(want.Bucket) != len(got.Bucket) {
		t.Fatalf("%d classic buckets, want %d", len(got.Bucket), len(want.Bucket))
	}
	for i, b := range want.Bucket {
		if g := got.Bucket[i]; g.GetUpperBound() != b.GetUpperBound() || g.GetCumulativeCount() != b.GetCumulativeCount() {
			t.Errorf("classic bucket %d: want %v, got %v", i, b, g)
		}
	}
	w, g := native(want), native(got)
	for i, n := range w {
		if n != 0 && g[i] != n {
			t.Errorf("native bucket %d: want %d, got %d", i, n, g[i])
		}
	}
	for i, n := range g {
		if n != 0 && w[i] != n {
			t.Errorf("native bucket %d: got %d, want %d", i, n, w[i])
		}
	}
}

// native gives the counts of native buckets by number.
func native(h *dto.Histogram) map[int32]int64 {
	out := map[int32]int64{}
	i, n, k := int32(0), int64(0), 0
	for _, s := range h.PositiveSpan {
		i += s.GetOffset()
		for range s.GetLength() {
			n += h.PositiveDelta[k]
			out[i] = n
			i++
			k++
		}
	}
	return out
}

// TestValuesOutsideTheLayout are counted in the classic bucket that they belong to.
func TestValuesOutsideTheLayout(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]uint8{-1: 0, 0: 0, 1e-12: 0, 100: 16, math.Inf(1): 16} {
		if got := durations.classic[durations.cell(v)]; got != want {
			t.Errorf("%g s is counted in classic bucket %d, want %d", v, got, want)
		}
	}
}
