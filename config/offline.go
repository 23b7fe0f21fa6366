package config

import (
	"context"
	"io"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/server"
)

// Offline is a configuration that answers in process, by the handlers that would answer on sockets. It listens nowhere, serves
// nothing over HTTP, and logs nothing.
type Offline struct {
	server *server.Server
	gen    *generation
	cancel context.CancelFunc
}

// NewOffline builds a configuration and returns once its clusters have been read, or their startup_timeout is over. source says where a
// kubernetes directive reads from; nil leaves that to its options. Upstream servers are asked as usual.
func NewOffline(ctx context.Context, c *Config, source func(kubernetes.Options) kubernetes.Source) (*Offline, error) {
	shared := NewShared(io.Discard, prometheus.Build{})
	shared.source = source
	g, err := build(shared, c, nil)
	if err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o := &Offline{server: server.New(server.DefaultLimits(), server.Hooks{}), gen: g, cancel: cancel}
	go func() { _ = shared.out.Run(run) }() // to nowhere, so that nobody waits for the log
	g.start(run)
	if err := g.await(ctx); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// Server is what questions are asked of; see server.Server.Direct.
func (o *Offline) Server() *server.Server { return o.server }

// Listeners are what would be served where. They must not be changed.
func (o *Offline) Listeners() []server.Listener { return o.gen.served }

// Close ends what the configuration runs, and waits for it.
func (o *Offline) Close() {
	o.cancel()
	for _, p := range o.gen.end(nil) {
		<-p.done
	}
}

// Server is what questions are asked of in process; see server.Server.Direct.
func (i *Instance) Server() *server.Server { return i.server }

// Listeners are what is served where at this moment. They must not be changed.
func (i *Instance) Listeners() []server.Listener {
	if l := i.served.Load(); l != nil {
		return *l
	}
	return nil
}
