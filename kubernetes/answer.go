package kubernetes

import (
	"errors"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// The version of the schema of names, and the TTL that its record has whatever ttl says (DNS specification of Kubernetes, 2.2).
const (
	schemaVersion = "1.1.0"
	schemaTTL     = 28800
)

// svcLabel is the wire form of the label that all names of Services have in front of the zone.
const svcLabel = "\x03svc"

// answerName answers a name below the zone: [[ENDPOINT|_PORT._PROTOCOL].]SERVICE.NAMESPACE.svc and ADDRESS.NAMESPACE.pod.
func (a *asked) answerName() server.Verdict {
	n := a.zone
	last := a.label(n - 1)
	isPod := string(last) == "pod"
	switch {
	case !isPod && string(last) != "svc":
		return a.answerSpecial()
	case n == 1:
		return a.nonTerminal()
	case isPod:
		return a.answerPod()
	case n == 2:
		if a.k.spaces.get(a.q.Name.Span(0, 1)) == nil {
			return a.absent(whyNoNamespace)
		}
		return a.nonTerminal()
	}
	e := a.k.services.get(a.q.Name.Span(n-3, n-1))
	if e == nil || !e.space.exists.Load() {
		return a.absent(whyNoService)
	}
	return a.answerService(e)
}

// answerSpecial answers the few names of a zone that are not below svc or pod.
func (a *asked) answerSpecial() server.Verdict {
	switch txt := a.q.Type == wire.TypeTXT; {
	case txt && a.zone == 1 && string(a.label(0)) == "dns-version":
		a.r.TXT(server.Answer, server.Owner, schemaTTL, schemaVersion)
		return a.done()
	case !txt && a.zone == 2 && string(a.q.Name.Span(0, 2)) == "\x02ns\x03dns":
		return a.answerNS()
	}
	return a.absent(whyNoSuchName)
}

// absent is missing, but for the type SOA: CoreDNS answers that with NODATA below the apex, whether the name exists or not.
func (a *asked) absent(why reason) server.Verdict {
	if a.q.Type == wire.TypeSOA {
		return a.nodata()
	}
	return a.missing(why)
}

// nonTerminal answers a name that exists only because others stand below it (RFC 8020). For TXT CoreDNS denies it, and search
// paths that contain it rely on neither.
func (a *asked) nonTerminal() server.Verdict {
	if a.q.Type == wire.TypeTXT {
		return a.missing(whyNoSuchName)
	}
	return a.nodata()
}

// answerService answers names at and below a Service that exists.
func (a *asked) answerService(e *entry) server.Verdict {
	if e.svc.form == formExternal {
		return a.answerExternal(e)
	}
	if e.eps == nil && e.svc.form == formClusterIP && a.k.ignoreEmpty {
		return a.absent(whyEmptyService)
	}
	switch zonal := a.k.opts.Zonal && e.svc.form == formHeadless; {
	case a.zone == 3:
		return a.answerOwn(e, portQuery{})
	case a.zone == 4:
		return a.answerEndpoint(e)
	case zonal && string(a.label(a.zone-4)) == "_zone":
		return a.answerZonal(e)
	case a.zone == 5:
		return a.answerOwn(e, portQuery{strip(a.label(0)), strip(a.label(1))})
	}
	return a.absent(whyNoSuchName)
}

// strip takes off the underscore that ports and protocols are written with; like CoreDNS, one that is missing is forgiven.
func strip(label []byte) []byte {
	if label[0] == '_' {
		return label[1:]
	}
	return label
}

// answerOwn answers a Service's own name and those of its ports.
func (a *asked) answerOwn(e *entry, ports portQuery) server.Verdict {
	if e.svc.form == formHeadless {
		if e.eps == nil {
			return a.absent(whyNoEndpoints)
		}
		if len(ports.name)+len(ports.proto) > 0 || a.q.Type == wire.TypeSRV {
			return a.answerEndpoints(&selection{eps: e.eps, hi: e.eps.len(), ports: ports}, e)
		}
		return a.addresses(e.v4, e.v6)
	}
	if len(ports.name)+len(ports.proto) > 0 && ports.count(e.svc.ports) == 0 {
		return a.absent(whyNoPort)
	}
	if a.q.Type == wire.TypeSRV {
		return a.clusterSRV(e, ports)
	}
	return a.addresses(e.v4, e.v6)
}

// addresses answers with those of the type asked for.
func (a *asked) addresses(v4 [][4]byte, v6 [][16]byte) server.Verdict {
	r, ttl := a.r, a.k.opts.TTL
	switch {
	case a.q.Type == wire.TypeA && len(v4) == 1:
		r.A(server.Answer, server.Owner, ttl, v4[0])
	case a.q.Type == wire.TypeA && len(v4) > 0:
		for _, i := range r.Order(len(v4)) {
			if !r.A(server.Answer, server.Owner, ttl, v4[i]) {
				break
			}
		}
	case a.q.Type == wire.TypeAAAA && len(v6) > 0:
		for _, i := range r.Order(len(v6)) {
			if !r.AAAA(server.Answer, server.Owner, ttl, v6[i]) {
				break
			}
		}
	default:
		return a.nodata()
	}
	return a.done()
}

// clusterSRV answers SRV at a Service with addresses of its own: one record for each port number, which all lead to the Service's name.
func (a *asked) clusterSRV(e *entry, ports portQuery) server.Verdict {
	r, ttl := a.r, a.k.opts.TTL
	addrs := len(e.v4) + len(e.v6)
	if addrs == 0 || len(e.svc.ports) == 0 {
		return a.nodata()
	}
	weight := weightOf(addrs * ports.count(e.svc.ports))
	target := server.NoRef
	for i := range e.svc.ports {
		p := &e.svc.ports[i]
		if !ports.matches(p) || ports.repeats(e.svc.ports, i) {
			continue
		}
		a.beginSRV(weight, p.number)
		if target == server.NoRef {
			target = server.Ref(r.Len())
			a.putService(e, "")
		} else {
			r.PutLabels(nil, target)
		}
		if !r.End() {
			return a.done()
		}
	}
	for _, ip := range e.v4 {
		r.A(server.Additional, target, ttl, ip)
	}
	for _, ip := range e.v6 {
		r.AAAA(server.Additional, target, ttl, ip)
	}
	return a.done()
}

// repeats says whether a port before i that is asked for has the same number.
func (m *portQuery) repeats(ports []port, i int) bool {
	for j := range i {
		if ports[j].number == ports[i].number && m.matches(&ports[j]) {
			return true
		}
	}
	return false
}

// weightOf divides 100 evenly, as CoreDNS does.
func weightOf(records int) uint16 { return uint16(max(1, 100/max(1, records))) }

// beginSRV starts an SRV record (RFC 2782) up to its target.
func (a *asked) beginSRV(weight, port uint16) {
	a.r.Begin(server.Answer, server.Owner, wire.TypeSRV, a.k.opts.TTL)
	a.r.PutUint16(0)
	a.r.PutUint16(weight)
	a.r.PutUint16(port)
}

// putService writes HOST.SERVICE.NAMESPACE.svc.ZONE into RDATA; host is in wire form without a root label and may be empty. The zone is
// in the letters of the client, the rest in lower case.
func (a *asked) putService(e *entry, host string) {
	a.r.PutString(host)
	a.r.PutString(e.key)
	a.r.PutString(svcLabel)
	a.putZone()
}

// errLoop is why an answer ends in the middle of a chain.
var errLoop = errors.New("ExternalName Services lead in a circle")

// answerExternal answers at an ExternalName Service: its CNAME, and then whatever the target has (RFC 1034 3.6.2).
func (a *asked) answerExternal(e *entry) server.Verdict {
	r, q := a.r, a.q
	if a.zone != 3 || e.svc.target == "" {
		return a.absent(whyNoSuchName)
	}
	if q.Followed() && a.answered() {
		if r.WantsEDE() {
			r.AddEDE(server.EDEOther, errLoop.Error())
		}
		return r.Fail(errLoop)
	}
	var buf [wire.MaxName]byte
	target := buf[:copy(buf[:], e.svc.target)]
	ref, fits := r.CNAME(server.Owner, a.k.opts.TTL, target)
	r.SetAA()
	if !fits || q.Type == wire.TypeCNAME || q.Type == wire.TypeANY || q.SetTarget(target, ref) != nil {
		return server.Done
	}
	if !q.Followed() {
		r.OnFinish(a.k, 0)
	}
	return server.Follow
}

// answered says whether the reply has a record of the name already, so that following its CNAME would never end.
func (a *asked) answered() bool {
	msg := a.r.Bytes()
	off := wire.HeaderLen + len(a.q.Question())
	var name wire.Name
	var buf [wire.MaxName]byte
	for range a.r.Count(server.Answer) {
		rr, err := wire.ReadRR(msg, off)
		if err != nil {
			return true
		}
		owner, _, err := wire.AppendName(buf[:0], msg, rr.Owner)
		if err != nil || name.Set(owner) != nil || string(name.Folded()) == string(a.q.Name.Folded()) {
			return true
		}
		off = rr.End
	}
	return false
}

// Finish implements server.Finisher for replies that begin with a CNAME of the cluster: whoever answered its target, the reply is ours, and
// speaks of authority, not of recursion.
func (k *Kubernetes) Finish(r *server.Reply, _ *server.Query, _ uint64) {
	r.ClearFlags(wire.FlagRA)
}
