package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// This file is what the loop directive needs: to ask an upstream for itself, and to keep queries from one that leads back here.

// errLoop is the cause when every upstream of a line leads back to this server.
var errLoop = errors.New("all upstream servers lead back to this server")

// Upstreams implements server.Forwarder.
func (f *Forward) Upstreams() []server.Upstream {
	var out []server.Upstream
	for _, g := range f.groups {
		for _, u := range *g.ups.Load() {
			out = append(out, u)
		}
	}
	return out
}

// String implements server.Upstream.
func (u *upstream) String() string { return u.to }

// Zone implements server.Upstream. Of the reverse zones of a network it is the first.
func (u *upstream) Zone() wire.Zone { return u.group.opts.From[0] }

// Suspend implements server.Upstream.
func (u *upstream) Suspend(on bool) { u.suspended.Store(on) }

// State implements server.Upstream.
func (u *upstream) State() (s server.UpstreamState, why string) {
	u.health.Lock()
	defer u.health.Unlock()
	since := time.Since(u.health.since).Round(time.Second)
	cause := "no reply in the time that it usually takes"
	if u.health.cause != nil {
		cause = u.health.cause.Error()
	}
	switch {
	case u.suspended.Load():
		return server.UpstreamSuspended, "leads back to this server, as loop found out"
	case u.down.Load():
		return server.UpstreamDown, fmt.Sprintf("for %s: %s", since, cause)
	case u.ailing.Load():
		return server.UpstreamFailing, fmt.Sprintf("for %s: %s", since, cause)
	}
	return server.UpstreamUp, ""
}

// Probe implements server.Upstream.
func (u *upstream) Probe(ctx context.Context, qu server.Question) error {
	g := u.group
	flags := wire.Flags(0)
	if qu.RD {
		flags = wire.FlagRD
	}
	return u.once(ctx, g.over(u, false), func(q *question) { q.set(qu.Name, qu.Type, qu.Class, flags, qu.DO, nil) })
}

// usable are the upstreams that queries may go to.
func (g *group) usable() []*upstream {
	ups := *g.ups.Load()
	cut := func(u *upstream) bool { return u.suspended.Load() }
	if slices.ContainsFunc(ups, cut) {
		return slices.DeleteFunc(slices.Clone(ups), cut)
	}
	return ups
}

// unusable is why there are no usable ones; nil if there are none at all.
func (g *group) unusable() error {
	if len(*g.ups.Load()) > 0 {
		return errLoop
	}
	return nil
}
