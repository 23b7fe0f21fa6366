package kubernetes

import (
	"net/netip"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// answerPod answers ADDRESS.NAMESPACE.pod.
func (a *asked) answerPod() server.Verdict {
	if a.k.opts.Pods == PodsDisabled {
		return a.absent(whyPodsDisabled)
	}
	n := a.zone
	if a.k.spaces.get(a.q.Name.Span(n-2, n-1)) == nil {
		return a.absent(whyNoNamespace)
	}
	if n == 2 {
		return a.nonTerminal()
	}
	addr, ok := parseDashed(a.label(0))
	if n > 3 || !ok {
		return a.absent(whyNoPodAddress)
	}
	if a.k.opts.Pods == PodsInsecure {
		return a.podAddress(addr)
	}
	if !a.k.complete.Load() {
		return a.k.notSynced(a.r)
	}
	if !a.k.hasPod(addr, a.label(1)) {
		return a.absent(whyNoPod)
	}
	return a.podAddress(addr)
}

// podAddress answers the name of an address that a Pod has, or may have.
func (a *asked) podAddress(addr netip.Addr) server.Verdict {
	switch {
	case a.q.Type == wire.TypeSRV:
		a.podSRV(addr)
	case a.q.Type == wire.TypeA && addr.Is4(), a.q.Type == wire.TypeAAAA && addr.Is6():
		a.r.Addr(server.Answer, server.Owner, a.k.opts.TTL, addr)
	default:
		return a.nodata()
	}
	return a.done()
}

// podSRV answers SRV at a Pod's name as CoreDNS does: with port 0.
func (a *asked) podSRV(addr netip.Addr) {
	r := a.r
	a.beginSRV(weightOf(1), 0)
	target := server.Ref(r.Len())
	r.Put(a.q.Name.Span(0, 2))
	r.PutString("\x03pod")
	a.putZone()
	if r.End() {
		r.Addr(server.Additional, target, a.k.opts.TTL, addr)
	}
}

// hasPod says whether a Pod of a namespace has an address.
func (x *Index) hasPod(addr netip.Addr, namespace []byte) bool {
	b := addr.As16()
	for p := x.podAddr.find(&b); ; {
		pod := p.next()
		if pod == nil {
			return false
		}
		if pod.namespace.Value() == string(namespace) && pod.has(&b) {
			return true
		}
	}
}

// PodAt gives the Pod that has an address, for directives that treat clients by where they live. known is false if no Pod has it, and also if more than one has, as
// those on the node's network do: then nobody can tell which of them asks. It needs pods verified.
func (x *Index) PodAt(addr netip.Addr) (namespace, name string, known bool) {
	b := addr.As16()
	var found *podData
	for p := x.podAddr.find(&b); ; {
		pod := p.next()
		switch {
		case pod == nil && found == nil:
			return "", "", false
		case pod == nil:
			return found.namespace.Value(), found.name, true
		case !pod.has(&b):
		case found != nil && found != pod:
			return "", "", false
		default:
			found = pod
		}
	}
}
