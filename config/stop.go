package config

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/plugin/health"
	"github.com/clusterdns/clusterdns/server"
)

// The bounds of stopping. Kubernetes kills a Pod 30 seconds after it asked it to end, unless told otherwise.
const (
	quiet     = time.Second           // without a query for so long after the lameduck time, none is expected any more
	lingering = 10 * time.Second      // the longest wait for that
	draining  = 5 * time.Second       // for the queries that wait for an upstream, which is as long as one may
	lookEvery = 50 * time.Millisecond // for a successor: a pod takes longer to start, and a look costs a fraction of a millisecond
)

// Stop ends the server: it is not ready from now on, answers through the lameduck time and on while queries still arrive, and then
// drains its sockets. When ctx ends, all that is cut short. Nothing can be used afterwards.
func (i *Instance) Stop(ctx context.Context) error {
	i.shared.ready.Stop()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	if i.gen != nil {
		i.lameduck(ctx)
	}
	sctx, cancel := context.WithTimeout(ctx, draining)
	defer cancel()
	err := i.server.Shutdown(sctx)
	i.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.left.Wait()
		if i.gen != nil {
			for _, p := range i.gen.end(nil) {
				<-p.done
			}
		}
	}()
	select {
	case <-ended:
	case <-sctx.Done():
	}
	i.shared.admin.Shutdown(sctx)
	if i.unlog != nil {
		i.unlog()
		<-i.logged
	}
	return err
}

// lameduck answers on after readiness has gone: clients and load balancers need a while to learn of it, and some forget late.
func (i *Instance) lameduck(ctx context.Context) {
	d := health.Lameduck(i.gen.health...)
	switch {
	case d <= 0:
		return
	case i.shared.takeover:
		i.awaitSuccessor(ctx, d)
		return
	}
	seen := new(lastSeen)
	listeners := slices.Clone(i.gen.served)
	for k := range listeners {
		l := &listeners[k]
		l.Blocks = slices.Clone(l.Blocks)
		for n, b := range l.Blocks {
			watched := *b // blocks that are being served do not change
			watched.Observers = append(slices.Clone(b.Observers), seen)
			l.Blocks[n] = &watched
		}
	}
	if err := i.server.Apply(listeners); err != nil {
		i.shared.log.Error(err.Error())
	}
	health.Wait(ctx, d, i.shared.Logger("health"))
	seen.settle(ctx)
}

// awaitSuccessor answers on until another process serves the same addresses, for the lameduck time at the most. Whoever told this one to end may have done so before
// there is another: a DaemonSet's controller does where the old pod is not ready, as after a restart of the kubelet. Once there is one, nobody has to learn that this
// one goes: the kernel knows who shares a port.
func (i *Instance) awaitSuccessor(ctx context.Context, d time.Duration) {
	log := i.shared.log
	end := time.NewTimer(d)
	defer end.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for said := false; !i.server.Succeeded(); said = true {
		if !said {
			log.Info("told to end, and nobody else serves the same addresses: answering on for up to " + d.String())
		}
		select {
		case <-look.C:
		case <-end.C:
			log.Warn("nobody else serves the same addresses at the end of the lameduck time")
			return
		case <-ctx.Done():
			return
		}
	}
	log.Info("another process serves the same addresses now")
}

// lastSeen observes when the last query came.
type lastSeen struct{ nano atomic.Int64 }

// Observe notes the time of a query. Only a server that is about to stop has this observer.
func (l *lastSeen) Observe(_ *server.Reply, q *server.Query) { l.nano.Store(q.Received.UnixNano()) }

// settle returns when no query has come for a while.
func (l *lastSeen) settle(ctx context.Context) {
	end := time.Now().Add(lingering)
	for now := time.Now(); now.Before(end); now = time.Now() {
		idle := now.Sub(time.Unix(0, l.nano.Load()))
		if idle >= quiet {
			return
		}
		select {
		case <-time.After(quiet - idle):
		case <-ctx.Done():
			return
		}
	}
}
