package explain

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
)

// patience bounds the time for one name: an upstream server that does not answer costs 5 seconds for each question, and the reader of a page gives
// up sooner than all of them take.
const patience = 10 * time.Second

// Served is Handler for a server: client is who asks, and listeners are what is served at the moment.
func Served(s *server.Server, listeners func() []server.Listener) http.Handler {
	client := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	return Handler(func(ctx context.Context) (*Explainer, error) {
		return New(s, listeners(), client, func(h ClusterHandler) kubernetes.Inspector { return h.Detailed(ctx) })
	})
}

// maxQuery bounds a request's query string: a name, a namespace and a few words.
const maxQuery = 4096

// Handler explains names over HTTP: GET /explain?name=…&from=…[&ndots=…][&search=…][&o=text|json]. current gives the Explainer of what is served at the
// moment; it is called for each request, whose context it is given. The answer says much of the cluster, so the handler belongs on an address that strangers
// do not reach. It changes nothing.
func Handler(current func(ctx context.Context) (*Explainer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		req, ok := request(w, r)
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		e, err := current(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		x, err := e.Explain(ctx, req)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		case r.URL.Query().Get("o") == "json":
			w.Header().Set("Content-Type", "application/json")
			_ = x.JSON(w) // whoever does not read it does not need it
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_ = x.Text(w, false)
		}
	})
}

// request reads the query string.
func request(w http.ResponseWriter, r *http.Request) (Request, bool) {
	if len(r.URL.RawQuery) > maxQuery {
		http.Error(w, "the query is too long", http.StatusRequestURITooLong)
		return Request{}, false
	}
	q := r.URL.Query()
	for name := range q {
		if !slices.Contains([]string{"name", "from", "ndots", "search", "o"}, name) {
			http.Error(w, fmt.Sprintf("unknown parameter %q; known are name, from, ndots, search and o", name), http.StatusBadRequest)
			return Request{}, false
		}
	}
	if o := q.Get("o"); !slices.Contains([]string{"", "text", "json"}, o) {
		http.Error(w, fmt.Sprintf("o=%q is neither text nor json", o), http.StatusBadRequest)
		return Request{}, false
	}
	req := Request{Name: q.Get("name"), From: q.Get("from"), NDots: DefaultNDots}
	if req.Name == "" {
		http.Error(w, "say which name: /explain?name=NAME&from=NAMESPACE", http.StatusBadRequest)
		return req, false
	}
	if s := q.Get("ndots"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > 15 {
			http.Error(w, "ndots is not a number within 0 and 15", http.StatusBadRequest)
			return req, false
		}
		req.NDots = n
	}
	if s := q.Get("search"); s != "" {
		req.Search = strings.Split(s, ",")
	}
	return req, true
}
