//go:build !linux

package forward

// read receives replies until the socket is closed.
func (s *udpSocket) read() { s.readOne() }
