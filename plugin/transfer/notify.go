package transfer

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Of a server that does not answer, RFC 1996 3.6 would have it told again for a while; what it misses it finds by itself when its refresh
// timer runs out.
const (
	notifyTries   = 3
	notifyTimeout = 2 * time.Second
)

// Changed has the other servers told that a zone has another version. It does not wait. It is for zones that the directives are not for as well.
func (t *Transfer) Changed(origin wire.Zone) {
	t.mu.Lock()
	t.changed[origin] = true
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default: // Run looks at all of them when it comes to it
	}
}

// take gives the zones that changed since it was called last.
func (t *Transfer) take() []wire.Zone {
	t.mu.Lock()
	defer t.mu.Unlock()
	zones := slices.Collect(maps.Keys(t.changed))
	clear(t.changed)
	return zones
}

// Run tells other servers of changes until ctx ends.
func (t *Transfer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
			for _, z := range t.take() {
				t.tell(ctx, z)
			}
		}
	}
}

// tell tells all servers that want to know of a zone, at the same time: one that is silent does not hold up the others.
func (t *Transfer) tell(ctx context.Context, z wire.Zone) {
	var wg sync.WaitGroup
	for i := range t.all {
		o := &t.all[i]
		if !o.has(z) {
			continue
		}
		for _, to := range o.Notify {
			wg.Go(func() {
				if err := notify(ctx, z, o.Source, to); err != nil && ctx.Err() == nil {
					t.log.Warn(fmt.Sprintf("%s could not be told of a change of %s", to, z), "error", err)
				}
			})
		}
	}
	wg.Wait()
}

// has says whether a directive is for a zone.
func (o *Options) has(z wire.Zone) bool {
	var n wire.Name
	if n.SetCanonical(z.Name()) != nil {
		return false
	}
	return o.Zones.Contains(&n)
}

// notify tells one server (RFC 1996 3.7).
func notify(ctx context.Context, z wire.Zone, from netip.Addr, to netip.AddrPort) error {
	m := new(dns.Msg)
	m.SetNotify(z.String())
	c := dns.Client{Dialer: &net.Dialer{Timeout: notifyTimeout}, Timeout: notifyTimeout}
	if from.Is4() && to.Addr().Is4() || from.Is6() && to.Addr().Is6() {
		c.Dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	var err error
	for range notifyTries {
		var r *dns.Msg
		if r, _, err = c.ExchangeContext(ctx, m, to.String()); err == nil {
			if r.Rcode != dns.RcodeSuccess {
				err = fmt.Errorf("it answered with %s", dns.RcodeToString[r.Rcode])
			}
			return err
		}
		if ctx.Err() != nil {
			return err
		}
	}
	return err
}
