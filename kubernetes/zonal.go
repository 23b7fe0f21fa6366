package kubernetes

import "github.com/clusterdns/clusterdns/server"

// answerZonal answers ZONE.pin._zone.SERVICE… and ZONE.prefer._zone.SERVICE… of headless Services: the endpoints in a topology zone, and with prefer
// all of them where it has none. A zone may be several labels. The name exists for every zone, so that a client that
// moves to one without endpoints is not told by its search path to look elsewhere.
func (a *asked) answerZonal(e *entry) server.Verdict {
	n := a.zone
	directive := a.label(n - 5)
	pin, prefer := string(directive) == "pin", string(directive) == "prefer"
	if !pin && !prefer {
		return a.absent(whyNoSuchName)
	}
	if e.eps == nil || n == 5 { // n is 5 above the names of zones
		return a.nodata()
	}
	zone := a.q.Name.Span(0, n-5)
	found := false
	for i := range e.eps.len() {
		if e.eps.zone(i) == string(zone) {
			found = true
			break
		}
	}
	if !found && pin {
		return a.nodata()
	}
	s := selection{eps: e.eps, hi: e.eps.len()}
	if found {
		s.zone = zone
	}
	return a.answerEndpoints(&s, e)
}
