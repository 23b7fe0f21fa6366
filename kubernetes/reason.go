package kubernetes

import (
	"strconv"
	"sync/atomic"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// reason is why a name does not exist, for Extended DNS Errors (RFC 8914).
type reason uint8

const (
	whyNoSuchName reason = iota
	whyNoNamespace
	whyNoService
	whyEmptyService
	whyNoEndpoints
	whyNoEndpoint
	whyNoPort
	whyPodsDisabled
	whyNoPodAddress
	whyNoPod
	whyNoAddress
)

// maxReason is room for every reason: two names of a cluster and some words. It is on the stack.
const maxReason = 640

// explain gives the client the reason of NXDOMAIN. Only what the client could find out by other questions is said, and nothing of other
// names where it may not be free to ask. It takes no memory: resolvers between Pods and us send EDNS with everything that search paths make.
func (a *asked) explain(why reason) {
	if text := constant(why); text != "" {
		a.r.AddEDE(server.EDEOther, text)
		return
	}
	var buf [maxReason]byte
	a.r.AddEDEText(server.EDEOther, a.describe(buf[:0], why))
}

// constant is the text of reasons that say nothing of the name.
func constant(why reason) string {
	switch why {
	case whyNoNamespace:
		return "no such namespace"
	case whyPodsDisabled:
		return "names of pods are disabled"
	case whyNoPodAddress:
		return "not the dashed address of a pod"
	case whyNoPod:
		return "no pod of this namespace has the address"
	case whyNoAddress:
		return "not an address of this cluster"
	}
	return ""
}

func (a *asked) describe(b []byte, why reason) []byte {
	e := a.entry()
	switch {
	case why == whyNoService:
		return a.describeNoService(b)
	case e == nil:
		return a.describeOther(b)
	case why == whyNoEndpoints || why == whyEmptyService:
		return a.describeEmpty(b, e)
	case why == whyNoEndpoint:
		b = appendName(append(b, "service "...), serviceName(e))
		b = append(b, " has no ready endpoint of this name"...)
		if e.eps != nil && e.eps.len() < e.total {
			b = strconv.AppendInt(append(b, "; it has "...), int64(e.eps.len()), 10)
			b = strconv.AppendInt(append(b, " ready of "...), int64(e.total), 10)
			b = append(b, " endpoints"...)
		}
		return b
	case why == whyNoPort:
		return a.describePorts(b, e)
	}
	return a.describeOther(b)
}

// describeOther is for names that are of no form which a cluster zone has.
func (a *asked) describeOther(b []byte) []byte {
	if a.zone > 1 {
		if last := a.label(a.zone - 1); string(last) != "svc" && string(last) != "pod" {
			return a.candidate(b, a.zone)
		}
	}
	return append(b, "no such name in a cluster zone"...)
}

// describeNoService is for [[…]SERVICE.]NAMESPACE.svc without that Service. Most such questions are made by search paths of names outside.
func (a *asked) describeNoService(b []byte) []byte {
	n := a.zone
	known := a.k.spaces.get(a.q.Name.Span(n-2, n-1)) != nil
	direct := n == 3 || n <= 5 && a.label(0)[0] == '_'
	switch {
	case direct && !known:
		return append(b, "no such namespace"...)
	case !known:
		return a.candidate(b, n-1)
	case !direct && n > 4:
		return a.candidate(b, n-2)
	}
	b = appendName(append(b, "no service "...), a.label(n-3))
	b = appendName(append(b, " in "...), a.label(n-2))
	if !direct {
		return a.candidate(append(b, "; perhaps a "...), n-2)
	}
	return a.elsewhere(b)
}

// candidate says that the name is what a search path made of its first labels.
func (a *asked) candidate(b []byte, labels int) []byte {
	b = append(b, "search-path candidate of "...)
	for i := range labels {
		if i > 0 {
			b = append(b, '.')
		}
		b = appendName(b, a.label(i))
	}
	return b
}

// elsewhere says in which other namespaces there is a Service of the name, if any. It is left out where clients may be kept from
// asking for that, and over a budget.
func (a *asked) elsewhere(b []byte) []byte {
	if a.q.Block == nil || a.q.Block.Options.Reserved || !a.k.searches.take(a.q.Received.Unix()) {
		return b
	}
	var key [2 * 64]byte
	n := copy(key[:], a.q.Name.Span(a.zone-3, a.zone-2))
	var first []byte
	found := 0
	a.k.spaces.each(func(label string) {
		if e := a.k.services.get(key[:n+copy(key[n:], label)]); e == nil || !e.space.exists.Load() {
			return
		}
		if found++; first == nil || label[1:] < string(first) {
			first = append(first[:0], label[1:]...)
		}
	})
	switch {
	case found == 1:
		return appendName(append(b, "; there is one in "...), first)
	case found > 1:
		b = strconv.AppendInt(append(b, "; there are "...), int64(found), 10)
		return appendName(append(b, " elsewhere, such as in "...), first)
	}
	return b
}

// each calls f for every key.
func (t *table[T]) each(f func(key string)) {
	s := *t.slots.Load()
	for i := range s {
		if n := s[i].Load(); n != nil && n != t.gone {
			f(n.key)
		}
	}
}

// maxSearches is how many times a second all namespaces are searched for a Service that does not exist. Each costs some
// 50 ns a namespace: in a cluster of 1,000, 5 ms a second at the most, whoever asks for whatever.
const maxSearches = 100

// searches is a budget by the second.
type searches struct {
	second atomic.Int64
	used   atomic.Int64
}

func (s *searches) take(now int64) bool {
	if last := s.second.Load(); last != now && s.second.CompareAndSwap(last, now) {
		s.used.Store(0)
	}
	return s.used.Load() < maxSearches && s.used.Add(1) <= maxSearches
}

// entry is the Service that the name is at or below.
func (a *asked) entry() *entry {
	if a.zone < 3 || string(a.label(a.zone-1)) != "svc" {
		return nil
	}
	return a.k.services.get(a.q.Name.Span(a.zone-3, a.zone-1))
}

// serviceName is the name of a Service without its namespace.
func serviceName(e *entry) string { return e.key[1 : 1+e.key[0]] }

// describeEmpty is for a Service that has no endpoints to serve.
func (a *asked) describeEmpty(b []byte, e *entry) []byte {
	if !a.k.opts.Endpoints {
		return append(b, "endpoints are not served here"...)
	}
	b = appendName(append(b, "service "...), serviceName(e))
	if e.total == 0 {
		return append(b, " has no endpoints"...)
	}
	b = strconv.AppendInt(append(b, " has 0 ready of "...), int64(e.total), 10)
	return append(b, " endpoints"...)
}

// maxNamedPorts bounds how many ports a reason lists.
const maxNamedPorts = 8

// describePorts is for a port that a Service does not have.
func (a *asked) describePorts(b []byte, e *entry) []byte {
	if a.zone != 5 {
		return append(b, "no such port on this service"...)
	}
	b = appendName(append(b, "port "...), strip(a.label(0)))
	b = appendName(append(b, '/'), strip(a.label(1)))
	b = append(b, " is not on this service; "...)
	groups := [1][]port{e.svc.ports}
	all := groups[:]
	if e.svc.form == formHeadless && e.eps != nil {
		all = e.eps.groups
	}
	n := 0
	for _, g := range all {
		for i := range g {
			if g[i].name.Value() == "" || n == maxNamedPorts {
				continue
			}
			if n++; n == 1 {
				b = append(b, "it has "...)
			} else {
				b = append(b, ", "...)
			}
			b = appendName(b, g[i].name.Value())
			b = append(append(b, '/'), g[i].proto.String()...)
		}
	}
	if n == 0 {
		b = append(b, "its ports have no names"...)
	}
	return b
}

// explainNodata gives the client the reason why a name that exists has no records of the type.
func (a *asked) explainNodata() {
	a.r.AddEDE(server.EDEOther, a.nodataText())
}

func (a *asked) nodataText() string {
	e := a.entry()
	switch t := a.q.Type; {
	case a.zone == 0:
		return "no records of this type at the name of the zone"
	case e == nil && a.zone <= 2, e != nil && a.zone == 4 && a.label(0)[0] == '_':
		return "only other names stand below this one"
	case e != nil && t == wire.TypeSRV:
		return "service has no ports"
	case e != nil && (t == wire.TypeA || t == wire.TypeAAAA):
		return e.familyText()
	}
	return "no records of this type at this name"
}

// familyText is the reason why a Service has no addresses of one family.
func (e *entry) familyText() string {
	switch {
	case len(e.v4)+len(e.v6) == 0:
		return "service has no addresses"
	case len(e.v4) == 0:
		return "service exists only as AAAA"
	case len(e.v6) == 0:
		return "service exists only as A"
	}
	return "no endpoint of this name has an address of this family"
}

// appendName appends a name of a cluster or of a query. What cannot stand in a line of text becomes a question mark.
func appendName[T string | []byte](b []byte, name T) []byte {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c > '~' {
			c = '?'
		}
		b = append(b, c)
	}
	return b
}
