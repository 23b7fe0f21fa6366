package forward

import (
	"context"
	"sync"
	"sync/atomic"
)

// lifetime is the time between Run's begin and end, and what goes on only within it.
type lifetime struct {
	over atomic.Bool

	mu  sync.Mutex
	ctx context.Context // nil before
	wg  sync.WaitGroup
}

func (l *lifetime) begin(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx = ctx
}

// attend runs f on a goroutine that end waits for. It says false, and runs nothing, outside the lifetime.
func (l *lifetime) attend(f func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil || l.over.Load() {
		return false
	}
	l.wg.Go(func() { f(l.ctx) })
	return true
}

// end lets nothing more begin and waits for what has. The context given to begin has ended.
func (l *lifetime) end() {
	l.mu.Lock()
	l.over.Store(true)
	l.mu.Unlock()
	l.wg.Wait()
}

// ended says whether the lifetime is over.
func (l *lifetime) ended() bool { return l.over.Load() }
