package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// ServiceState is what becomes of connections to a Service, as far as its endpoints say.
type ServiceState string

// The states of Services.
const (
	AllReady    ServiceState = "ready"
	SomeReady   ServiceState = "partly ready"
	NotReady    ServiceState = "not ready"
	NoEndpoints ServiceState = "no endpoints"
	External    ServiceState = "external"
)

// states are all states, in the order in which they are offered.
func states() []ServiceState {
	return []ServiceState{AllReady, SomeReady, NotReady, NoEndpoints, External}
}

// State sums the Service's endpoints up.
func (s *Service) State() ServiceState {
	switch {
	case s.External != "":
		return External
	case s.Endpoints == 0:
		return NoEndpoints
	case s.Ready == 0:
		return NotReady
	case s.Ready < s.Endpoints:
		return SomeReady
	}
	return AllReady
}

// Class is the state as a class of the style sheet.
func (s *Service) Class() string { return class(string(s.State())) }

// class is a state as a class of the style sheet.
func class(state string) string { return strings.ReplaceAll(state, " ", "-") }

// maxShown is how many Services one page has: more are not looked through but filtered.
const maxShown = 200

// listing is the page of Services.
type listing struct {
	Query   string
	State   string
	States  []ServiceState
	Shown   []Service
	Matches int
	Total   int
	Ready   bool // clusters have been read
	Any     bool // there is a cluster
}

// Words says what the filter left.
func (l *listing) Words() string {
	switch {
	case !l.Any:
		return "No kubernetes directive is configured."
	case !l.Ready && l.Total == 0:
		return "The cluster has not been read yet."
	case l.Matches > len(l.Shown):
		return fmt.Sprintf("%d of %d Services match; the first %d are shown.", l.Matches, l.Total, len(l.Shown))
	case l.Matches == l.Total:
		return fmt.Sprintf("%d Services.", l.Total)
	}
	return fmt.Sprintf("%d of %d Services match.", l.Matches, l.Total)
}

func (c *Console) services(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	l := &listing{Query: q.Get("q"), State: q.Get("state"), States: states(), Ready: true}
	if !slices.Contains(l.States, ServiceState(l.State)) {
		l.State = ""
	}
	words := strings.Fields(strings.ToLower(l.Query))
	for _, cluster := range c.deps.State().Clusters {
		l.Any = true
		l.Ready = l.Ready && cluster.Ready()
		for _, name := range cluster.Services() {
			l.Total++
			// The name alone can rule nothing out: words may be of an address or a type.
			if s, ok := cluster.Service(name); ok && (l.State == "" || string(s.State()) == l.State) && s.has(words) {
				l.Matches++
				if len(l.Shown) < maxShown {
					l.Shown = append(l.Shown, s)
				}
			}
		}
	}
	c.show(w, http.StatusOK, "services", page{Title: "Services", Here: "services", Body: l})
}

// has says whether each word is in something that is said of the Service.
func (s *Service) has(words []string) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(s.Name + "." + s.Namespace + " " + s.Namespace + "/" + s.Name + " " + s.Type + " " + s.External + " " +
		string(s.State()) + " " + strings.Join(s.Addresses, " ") + " " + strings.Join(s.Ports, " "))
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
