package server

import (
	"net/netip"
	"time"
)

// Direct answers messages without a socket, on the caller's goroutine, through the same code as a socket's worker: for tests,
// benchmarks, and transports that bring messages by other means. It is for one goroutine at a time.
type Direct struct {
	engine *engine
	table  *table
	slab   *slab
	turn   *Turn
	waited chan []byte
}

// Direct gives a way to ask blocks without listening.
func (s *Server) Direct(blocks []*Block) *Direct {
	return newDirect(s.engine, newTable(s.engine, &Listener{Blocks: blocks}))
}

func newDirect(e *engine, t *table) *Direct {
	return &Direct{engine: e, table: t, slab: e.take(), turn: NewTurn(), waited: make(chan []byte, 1)}
}

// Answer gives the reply to one message, or ok false if there is none. The reply aliases a buffer that the next call uses again. A
// query that has to wait makes the caller wait.
func (d *Direct) Answer(msg []byte, client netip.AddrPort, t Transport) (reply []byte, ok bool) {
	return d.answer(msg, client, client, t)
}

func (d *Direct) answer(msg []byte, client, local netip.AddrPort, t Transport) (reply []byte, ok bool) {
	q := &d.slab.q
	q.raw, q.table, q.Transport, q.Client, q.Local, q.Received = msg, d.table, t, client, local, time.Now()
	d.slab.out, d.slab.turn = d, d.turn
	out := d.engine.process(d.slab)
	if out != parked {
		return d.slab.r.buf, out == replied
	}
	d.turn.End()
	reply = <-d.waited
	d.slab = d.engine.take()
	return reply, reply != nil
}

// hold implements responder: Answer itself waits.
func (*Direct) hold(int) {}

// respond lets Answer go on, with a copy of the reply or nil for none.
func (d *Direct) respond(s *slab, out outcome, _ *Turn) {
	var reply []byte
	if out == replied {
		reply = append([]byte{}, s.r.buf...)
	}
	s.engine.settle(s)
	d.waited <- reply
}
