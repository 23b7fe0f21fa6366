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
	work  chan task
	on    atomic.Bool // the server listens; without that, each query has a goroutine for itself
	idle  atomic.Int32
	armed atomic.Bool // a timer will let the idle ones go
}

// task is something that may have to wait.
type task interface{ do() }

// do has t done on a goroutine of the crew.
func (c *crew) do(t task) {
	if !c.on.Load() {
		go t.do()
		return
	}
	select {
	case c.work <- t:
	default:
		go c.serve(t)
	}
}

func (c *crew) serve(t task) {
	for t != nil {
		t.do()
		c.idle.Add(1)
		c.arm()
		t = <-c.work
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
