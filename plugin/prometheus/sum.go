package prometheus

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/clusterdns/clusterdns/server/wire"
)

// sum adds up what all workers have counted, or gives nil when none has. Each worker's numbers agree with each other: they are read in
// one go.
func (s *series) sum() *shard {
	var total *shard
	for i := range s.shards {
		sh := s.shards[i].Load()
		if sh == nil {
			continue
		}
		if total == nil {
			total = &shard{duration: durations.tally()}
		}
		total.add(sh)
	}
	return total
}

// add adds another shard, which may be counting.
func (s *shard) add(o *shard) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.requests {
		for j := range o.requests[i] {
			for k, n := range o.requests[i][j] {
				s.requests[i][j][k] += n
			}
		}
		if p := o.sizes[i]; p != nil {
			s.protocol(i).request.add(&p.request)
			s.protocol(i).response.add(&p.response)
		}
	}
	s.do += o.do
	s.dropped += o.dropped
	s.duration.add(&o.duration)
	for i, row := range o.replies {
		if i == len(s.replies) {
			s.replies = append(s.replies, new([rcodes]uint64))
		}
		if row == nil {
			continue
		}
		for k, n := range row {
			s.replies[i][k] += n
		}
	}
}

// rcodeName is the label of a response code's place.
func rcodeName(i int) string {
	if i == rcodes-1 {
		return "other"
	}
	return wire.RCode(i).String()
}

// pairs are labels as a metric is written with: sorted by name.
func pairs(names, values []string) []*dto.LabelPair {
	out := make([]*dto.LabelPair, len(names))
	for i := range names {
		out[i] = &dto.LabelPair{Name: proto.String(names[i]), Value: proto.String(values[i])}
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}
