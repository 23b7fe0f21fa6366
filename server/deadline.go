package server

import (
	"context"
	"sync"
	"time"
)

// deadlines hands out contexts that end some time from now. Queries that park within the same quarter of a second share one, so that waiting
// does not cost each of them a timer.
type deadlines struct {
	mu    sync.Mutex
	until time.Time
	ctx   context.Context
}

// slot is how long a context is handed out.
const slot = 250 * time.Millisecond

// after gives a context that ends between d and d plus slot from now.
func (d *deadlines) after(patience time.Duration) context.Context {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || now.After(d.until) {
		d.until = now.Add(slot)
		ctx, cancel := context.WithDeadline(context.Background(), d.until.Add(patience))
		time.AfterFunc(patience+2*slot, cancel)
		d.ctx = ctx
	}
	return d.ctx
}
