package server

import (
	"net"
	"net/http"
)

// HTTPHandler is what a listener for HTTPS serves with, without the socket: for the fuzzer, whose measure of what an input reaches is disturbed by
// whatever runs beside it.
func HTTPHandler(blocks []*Block) http.Handler {
	e := newEngine(DefaultLimits(), Hooks{Panic: func(v any, _ []byte) { panic(v) }})
	ep := &endpoint{}
	l := &Listener{Transport: HTTPS, Blocks: blocks}
	ep.timeouts.Store(l.Timeouts.complete(e.limits))
	ep.table.Store(newTable(e, l))
	return newHTTPSocket(ep, e, nil, false)
}

// ServeTCP serves what ln accepts, until that says that it is closed.
func ServeTCP(ln net.Listener, blocks []*Block) {
	e := newEngine(DefaultLimits(), Hooks{})
	ep := &endpoint{}
	l := &Listener{Blocks: blocks}
	ep.timeouts.Store(l.Timeouts.complete(e.limits))
	ep.table.Store(newTable(e, l))
	newTCPSocket(ep, e, nil, ln, TCP, 0).serve()
}
