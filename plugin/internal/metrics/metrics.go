// Package metrics resolves the metric handles of a directive once per server block: the labels server and view are the block's, and one
// handler serves several.
package metrics

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/server"
)

// Register registers c, or gives the one that was registered before in its place. A nil registry registers nothing.
func Register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	if err := reg.Register(c); err != nil {
		var was prometheus.AlreadyRegisteredError
		if errors.As(err, &was) {
			if old, ok := was.ExistingCollector.(C); ok {
				return old
			}
		}
		panic(err) // two metrics of one name: a fault of the program
	}
	return c
}

// PerBlock holds something for each server block that queries came through. Resolve makes it, the first time only.
type PerBlock[T any] struct {
	Resolve func(b *server.Block) T
	known   sync.Map
}

// Of is what q's block has.
func (p *PerBlock[T]) Of(q *server.Query) T {
	if v, ok := p.known.Load(q.Block); ok {
		return v.(T)
	}
	v, _ := p.known.LoadOrStore(q.Block, p.Resolve(q.Block))
	return v.(T)
}
