//go:build !linux

package forward

import "github.com/clusterdns/clusterdns/server"

// vector is nothing where datagrams are sent one by one.
type vector struct{}

func (s *udpSocket) init() {}

// read receives replies until the socket is closed.
func (s *udpSocket) read() { s.readOne() }

// write sends what is in o.
func (s *udpSocket) write(o *outgoing, t *server.Turn) { s.writeEach(o, t) }
