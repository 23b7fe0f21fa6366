package server

import "time"

// Timeouts bound what clients of TCP, TLS and HTTPS may take. Zero fields stand for the defaults.
type Timeouts struct {
	// Read is how long a query may take from its first byte to its last. The default is Limits.TCPIdle.
	Read time.Duration
	// Write is how long a client may take to accept a reply: one that reads nothing for so long holds memory for nobody. The default is 5 s.
	Write time.Duration
	// Idle is how long a connection may be without a query (RFC 7766 6.2.3). The default is Limits.TCPIdle.
	Idle time.Duration
	// Queries is how many queries a TCP or TLS connection may make before it is closed. The default is no bound.
	Queries int
}

// complete puts the defaults in.
func (t Timeouts) complete(l Limits) *Timeouts {
	if t.Read == 0 {
		t.Read = l.TCPIdle
	}
	if t.Write == 0 {
		t.Write = tcpWrite
	}
	if t.Idle == 0 {
		t.Idle = l.TCPIdle
	}
	return &t
}
