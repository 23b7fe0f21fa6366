// Package poll looks at something outside, such as a file, at start and again every so often.
package poll

import (
	"context"
	"time"
)

// Poll calls a function on one goroutine: that of Run.
type Poll struct {
	every   time.Duration
	look    func()
	started chan struct{} // closed once look has been called
}

// New makes a Poll that calls look every so often; once only if every is not above zero.
func New(every time.Duration, look func()) *Poll {
	return &Poll{every, look, make(chan struct{})}
}

// Run looks, and again and again until ctx ends. It may be called once.
func (p *Poll) Run(ctx context.Context) error {
	p.look()
	close(p.started)
	if p.every <= 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			p.look()
		}
	}
}

// AwaitStart waits until Run has looked for the first time, or ctx ends.
func (p *Poll) AwaitStart(ctx context.Context) {
	select {
	case <-p.started:
	case <-ctx.Done():
	}
}
