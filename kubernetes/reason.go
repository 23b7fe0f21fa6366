package kubernetes

import (
	"fmt"

	"github.com/clusterdns/clusterdns/server"
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

// explain gives the client the reason. Only what the name itself shows is said, and nothing that it could not find out by other
// questions. The texts of common denials are constants: they must cost nothing.
func (a *asked) explain(why reason) {
	a.r.AddEDE(server.EDEOther, a.text(why))
}

func (a *asked) text(why reason) string {
	switch why {
	case whyNoNamespace:
		return "no such namespace"
	case whyNoService:
		if a.zone > 5 || a.zone > 3 && a.label(0)[0] != '_' {
			return "no such service; is this a search-path candidate of another name?"
		}
		if a.k.spaces.get(a.q.Name.Span(a.zone-2, a.zone-1)) == nil {
			return "no such namespace"
		}
		return "no such service in this namespace"
	case whyNoEndpoints, whyEmptyService:
		return a.empty()
	case whyNoEndpoint:
		return "the service has no such endpoint that is ready"
	case whyNoPort:
		return a.ports()
	case whyPodsDisabled:
		return "names of pods are disabled"
	case whyNoPodAddress:
		return "not the dashed address of a pod"
	case whyNoPod:
		return "no pod of this namespace has the address"
	case whyNoAddress:
		return "not an address of this cluster"
	}
	return "no such name in a cluster zone"
}

// entry is the Service that the name is at or below.
func (a *asked) entry() *entry {
	if a.zone < 3 {
		return nil
	}
	return a.k.services.get(a.q.Name.Span(a.zone-3, a.zone-1))
}

// empty is the reason of a Service that has no endpoints to serve.
func (a *asked) empty() string {
	e := a.entry()
	if e == nil {
		return "no such service in this namespace"
	}
	_, name := splitKey(e.key)
	switch {
	case !a.k.opts.Endpoints:
		return "endpoints are not served here"
	case e.total == 0:
		return fmt.Sprintf("service %s has no endpoints", name)
	}
	return fmt.Sprintf("service %s has 0 ready of %d endpoints", name, e.total)
}

// maxNamedPorts bounds how many ports a reason lists.
const maxNamedPorts = 8

// ports is the reason of a port that a Service does not have.
func (a *asked) ports() string {
	e := a.entry()
	if e == nil || a.zone != 5 {
		return "no such port on this service"
	}
	groups := [][]port{e.svc.ports}
	if e.svc.form == formHeadless && e.eps != nil {
		groups = e.eps.groups
	}
	text, n := "", 0
	for _, g := range groups {
		for _, p := range g {
			if p.name.Value() != "" && n < maxNamedPorts {
				if n++; n > 1 {
					text += ", "
				}
				text += p.name.Value() + "/" + p.proto.String()
			}
		}
	}
	if n == 0 {
		return "no such port; those of this service have no names"
	}
	return fmt.Sprintf("port %s/%s is not on this service; it has %s", strip(a.label(0)), strip(a.label(1)), text)
}
