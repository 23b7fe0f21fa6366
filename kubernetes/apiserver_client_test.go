package kubernetes

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
)

// openConn is a connection that counts itself among those that are open.
type openConn struct {
	net.Conn
	open *atomic.Int32
	once atomic.Bool
}

func (c *openConn) Close() error {
	if !c.once.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// TestAPIServerClosesItsConnections: a source that has ended, as by a reload or after an explanation, leaves no connection to the API server open.
func TestAPIServerClosesItsConnections(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	var open, dialed atomic.Int32
	pc := quick()
	pc.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		dialed.Add(1)
		return &openConn{Conn: c, open: &open}, nil
	}
	r := runSource(t, defaults(s.Kubeconfig("", kubetest.Token)), pc)
	r.wait(t, "sync", r.synced(usual...))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if dialed.Load() == 0 {
		t.Fatal("nothing was dialed")
	}
	poll(t, "the connections to be closed", func() bool { return open.Load() == 0 })
}

// TestAPIServerBoundsAllRequests: apiserver_qps is for all requests, of whichever API group.
func TestAPIServerBoundsAllRequests(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	o := defaults(s.Kubeconfig("", kubetest.Token))
	o.QPS, o.Burst = 0.001, 2
	c, err := connect(&o, quick())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	free := 0
	for range 3 {
		for k := range numKinds {
			if newFeed(k, &o, c, nil, nil, nil).client.GetRateLimiter().TryAccept() {
				free++
			}
		}
	}
	if free != o.Burst {
		t.Errorf("%d requests at one moment, want %d", free, o.Burst)
	}
}
