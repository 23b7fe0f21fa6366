package server

import (
	"sync/atomic"
	"time"
)

// crewRest is how often the goroutines that have nothing to do are let go.
const crewRest = time.Second

// crew are the goroutines of parked queries. One that is done with a query waits for the next, because its stack has grown by then: growing
// that of a new goroutine is a third of what a forwarded query costs besides its system calls.
type crew struct {
	work  chan *slab
	on    atomic.Bool // the server listens; without that, each query has a goroutine for itself
	idle  atomic.Int32
	armed atomic.Bool // a timer will let the idle ones go
}

// do has e resume s on a goroutine of the crew.
func (c *crew) do(e *engine, s *slab) {
	if !c.on.Load() {
		go e.resume(s)
		return
	}
	select {
	case c.work <- s:
	default:
		go c.serve(e, s)
	}
}

func (c *crew) serve(e *engine, s *slab) {
	for s != nil {
		e.resume(s)
		c.idle.Add(1)
		c.arm()
		s = <-c.work
		c.idle.Add(-1)
	}
}

func (c *crew) arm() {
	if c.armed.CompareAndSwap(false, true) {
		time.AfterFunc(crewRest, c.dismiss)
	}
}

// dismiss lets the idle ones go. One that is about to wait sees the timer gone and sets it again, or is seen here and has it set again.
func (c *crew) dismiss() {
	c.armed.Store(false)
	for range c.idle.Load() {
		select {
		case c.work <- nil:
		default:
		}
	}
	if c.idle.Load() > 0 {
		c.arm()
	}
}
