package server

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// What a listener waits for once it leaves: the gap between two connections that tells that none is waiting to be accepted, and the end of it
// all where they come without a gap.
const (
	lastAccept  = time.Millisecond
	lastAccepts = 100 * time.Millisecond
)

// acceptor is a TCP listener that can leave its port to others who share it. Closing a listener resets the connections that are
// established and not accepted yet; this one accepts them first. What still is between SYN and ACK at the end is lost unless the kernel
// migrates it (net.ipv4.tcp_migrate_req), and the client connects again.
type acceptor struct {
	*net.TCPListener
	end atomic.Int64 // when it closes at the latest, in nanoseconds of the Unix epoch; 0 while it does not leave
}

// leave makes Accept give what is waiting and then say that the listener is closed, which it is.
func (a *acceptor) leave() {
	a.end.CompareAndSwap(0, time.Now().Add(lastAccepts).UnixNano())
	_ = a.SetDeadline(time.Unix(1, 0))
}

// Accept implements net.Listener.
func (a *acceptor) Accept() (net.Conn, error) {
	for waited := false; ; waited = true {
		c, err := a.TCPListener.Accept()
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return c, err
		}
		now := time.Now()
		if waited || now.UnixNano() > a.end.Load() {
			_ = a.Close()
			return nil, net.ErrClosed
		}
		_ = a.SetDeadline(now.Add(lastAccept))
	}
}
