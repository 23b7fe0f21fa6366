//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// connections is over how many TCP connections the fixed rate goes without pipelining: at 5000 queries a second each has one every 3 ms, so
// that hardly any waits for the one before.
const connections = 16

// latency sends some queries at a fixed rate, whatever comes back, and gives percentiles of the time to the reply. It is an open loop: a slow reply delays
// no query, so that no wait is left out of the figures.
func latency(ctx context.Context, w workload, port string, rate, total int) (p50, p99 time.Duration, err error) {
	queries, err := readQueries(w.file, 5000)
	if err != nil {
		return 0, 0, err
	}
	network, n := "udp", 1
	if w.tcp {
		network = "tcp"
		if !w.pipelined {
			n = connections
		}
	}
	m := &meter{sent: make([]time.Time, total), took: make([]time.Duration, 0, total)}
	conns := make([]net.Conn, n)
	var readers sync.WaitGroup
	for i := range conns {
		if conns[i], err = net.Dial(network, "127.0.0.1:"+port); err != nil {
			return 0, 0, err
		}
		defer conns[i].Close()
		expected := (total - i + n - 1) / n
		readers.Go(func() { m.read(conns[i], w.tcp, expected) })
	}
	begin := time.Now()
	for i := range total {
		if d := time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(rate))); d > 0 {
			time.Sleep(d)
		}
		if err := m.send(conns[i%n], queries[i%len(queries)], i, w.tcp); err != nil {
			return 0, 0, err
		}
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
	}
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
	}
	readers.Wait()
	if len(m.took) == 0 {
		return 0, 0, errors.New("no reply at the fixed rate")
	}
	slices.Sort(m.took)
	return m.took[len(m.took)/2], m.took[len(m.took)*99/100], nil
}

// meter keeps when which query was sent, and how long the replies took. The number of a query is its id.
type meter struct {
	mu   sync.Mutex
	sent []time.Time
	took []time.Duration
}

func (m *meter) send(c net.Conn, q []byte, i int, tcp bool) error {
	binary.BigEndian.PutUint16(q, uint16(i))
	if tcp {
		q = append(binary.BigEndian.AppendUint16(make([]byte, 0, len(q)+2), uint16(len(q))), q...)
	}
	m.mu.Lock()
	m.sent[i] = time.Now()
	m.mu.Unlock()
	_, err := c.Write(q)
	return err
}

// read takes replies until all have come or the connection's time is over.
func (m *meter) read(c net.Conn, tcp bool, expected int) {
	buf := make([]byte, 65535)
	in := bufio.NewReader(c)
	for range expected {
		var n int
		var err error
		if tcp {
			if _, err = io.ReadFull(in, buf[:2]); err == nil {
				n, err = io.ReadFull(in, buf[:binary.BigEndian.Uint16(buf)])
			}
		} else {
			n, err = c.Read(buf)
		}
		if err != nil || n < 2 {
			return
		}
		now, id := time.Now(), int(binary.BigEndian.Uint16(buf))
		m.mu.Lock()
		if id < len(m.sent) {
			m.took = append(m.took, now.Sub(m.sent[id]))
		}
		m.mu.Unlock()
	}
}
