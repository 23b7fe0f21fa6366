// Package ready is the ready directive: an HTTP end point that says whether the process can answer with the data it has.
//
// Ready is not the same as "everything around is well". A part that has its data stays ready while the API server or an upstream is
// away: it goes on answering, and taking it out of the Service would only move the load to replicas that are no better off.
package ready

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/admin"
	"github.com/clusterdns/clusterdns/server"
)

// DefaultAddress is where readiness is served unless the directive names an address.
const DefaultAddress = ":8181"

// Path is where readiness is served on each address.
const Path = "/ready"

// Monitor is how long the parts of a server block are asked.
type Monitor uint8

// The modes of monitoring.
const (
	UntilReady   Monitor = iota // a part that said it is ready once is not asked again
	Continuously                // every probe asks every part
)

// String is the word that the option takes.
func (m Monitor) String() string {
	if m == Continuously {
		return "continuously"
	}
	return "until-ready"
}

// Options are what one occurrence of the directive says.
type Options struct {
	Address string
	Monitor Monitor
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{{
		Name: "monitor", Usage: "until-ready|continuously", Min: 1, Max: 1,
		Help: "whether a part that was ready once is asked again",
		Set: func(o *Options, l *directive.Line) error {
			for _, m := range []Monitor{UntilReady, Continuously} {
				if l.Args[0].Text == m.String() {
					o.Monitor = m
					return nil
				}
			}
			return l.Args[0].Errorf("%q is neither until-ready nor continuously", l.Args[0].Text)
		},
	}}
}

// Parse reads one occurrence of the directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	if len(in.Args) == 1 {
		if path, ok := admin.UnixPath(in.Args[0].Text); ok {
			if !filepath.IsAbs(path) {
				return Options{}, in.Args[0].Errorf("%s: the path of a socket begins with /, as in unix:/run/clusterdns/ready", in.Name.Text)
			}
			o.Address = in.Args[0].Text
			return o, directive.ParseOptions(in, &o, Rows())
		}
	}
	var err error
	if o.Address, err = admin.ParseAddress(in, DefaultAddress); err != nil {
		return Options{}, err
	}
	return o, directive.ParseOptions(in, &o, Rows())
}

// Part is something in a server block that can say whether it is ready, under the name of its directive.
type Part struct {
	Name    string
	Part    server.Readiness
	Monitor Monitor // of the block's ready directive
}

// watched is a part and whether it has been ready.
type watched struct {
	Part
	was bool
}

// State is the readiness of the process. There is one; it outlives configurations. Its methods may be called concurrently.
type State struct {
	log *slog.Logger

	mu       sync.Mutex
	parts    []*watched
	begun    bool // there is a configuration
	stopping bool
	said     string // what was waited for when it was last logged
}

// New makes the state of a process that nothing has been asked of yet. It is not ready before the first Apply.
func New(log *slog.Logger) *State {
	return &State{log: log}
}

// Apply makes parts those that are asked, of all server blocks with the directive. A part that was watched before, the same one and under
// the same name, keeps having been ready. A configuration without such parts is ready.
func (s *State) Apply(parts []Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make([]*watched, 0, len(parts))
	for _, p := range parts {
		w := &watched{Part: p}
		for _, old := range s.parts {
			if old.Name == p.Name && same(old.Part.Part, p.Part) {
				w.was = old.was
			}
		}
		next = append(next, w)
	}
	s.parts, s.begun = next, true
}

// same says whether two parts are one; types that cannot be compared never are.
func same(a, b server.Readiness) bool {
	ta, tb := reflect.TypeOf(a), reflect.TypeOf(b)
	return ta == tb && ta != nil && ta.Comparable() && a == b
}

// Stop makes the process not ready for good: it is called first when it is told to end, so that it is taken out of the Service while it
// still answers.
func (s *State) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

// Ready says whether all parts are ready, and if not, the names of those that are not, sorted, each once; or that the process begins or
// ends.
func (s *State) Ready() (ok bool, waiting []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return false, []string{"Shutting down"}
	case !s.begun:
		return false, []string{"Starting"}
	}
	for _, w := range s.parts {
		if w.was && w.Monitor == UntilReady {
			continue
		}
		if w.Part.Part.Ready() {
			w.was = true
		} else {
			waiting = append(waiting, w.Name)
		}
	}
	slices.Sort(waiting)
	waiting = slices.Compact(waiting)
	s.say(strings.Join(waiting, ","))
	return len(waiting) == 0, waiting
}

// say logs what is waited for, once per change and not once per probe.
func (s *State) say(names string) {
	if names == s.said {
		return
	}
	s.said = names
	if names == "" {
		s.log.Info("plugin/ready: ready")
	} else {
		s.log.Info(fmt.Sprintf("plugin/ready: Still waiting on: %q", names))
	}
}

// ServeHTTP answers a probe: 200 OK, or 503 with the names of the directives that are waited for.
func (s *State) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	ok, waiting := s.Ready()
	if ok {
		_, _ = io.WriteString(w, http.StatusText(http.StatusOK)) // who does not read the answer does not get it
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, strings.Join(waiting, ","))
}

// Route is where one occurrence of the directive serves the state. All of them serve the same.
func (s *State) Route(o Options) admin.Route {
	return admin.Route{Addr: o.Address, Path: Path, Handler: s}
}
