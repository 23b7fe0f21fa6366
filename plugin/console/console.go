// Package console is the console directive: a page for people that shows what the server does at the moment, and why.
//
// It is read only: nothing that is asked of it changes the server or the cluster. What it says of a cluster is as much as its Services and
// EndpointSlices say, so it belongs where strangers do not reach it; by default only the machine itself does.
package console

import (
	"html/template"
	"log/slog"
	"net/http"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/admin"
)

// DefaultAddress is where the page is served unless the directive names an address.
const DefaultAddress = "127.0.0.1:8053"

// Options are what one occurrence of the directive says.
type Options struct {
	Address string
}

// Parse reads one occurrence of the directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	var err error
	if o.Address, err = admin.ParseAddress(in, DefaultAddress); err != nil {
		return Options{}, err
	}
	return o, in.NoBlock()
}

// Deps are what a Console shows. Its functions may be called at any time and concurrently.
type Deps struct {
	// State is the configuration that the page was made for.
	State func() State
	// Explain answers GET /explain?name=NAME&from=NAMESPACE&o=json; see Explanation. nil where names cannot be explained.
	Explain http.Handler
	// Dump answers GET /dump with what is known of the clusters, as manifests. nil where there is nothing to give.
	Dump    http.Handler
	Version string
	Log     *slog.Logger
}

// State is what is configured, and what its parts know at this moment.
type State struct {
	Zones     []Zone
	Clusters  []Cluster
	Upstreams []Upstream
	// DNS is where this server can be asked over the network, "127.0.0.1:53"; "" if nowhere.
	DNS string
}

// Zone is one zone of one server block on one listener.
type Zone struct {
	Name, Listener, View string
	Directives           []string // in the order of the chain
	State, Why           string   // a word, and what there is to say of it, or ""
}

// Upstream is a server that queries are forwarded to.
type Upstream struct {
	Zone, Address string // as metrics have it
	State, Why    string // as those of a Zone
}

// Cluster is what a kubernetes directive knows.
type Cluster interface {
	// Zones are its zones other than reverse ones, with a dot at the end.
	Zones() []string
	// Source says where its objects come from.
	Source() string
	// Ready says whether they have been read.
	Ready() bool
	// Stale says whether they are, in part at least, what a snapshot remembers.
	Stale() bool
	// Namespaces is how many there are.
	Namespaces() int
	// Services are the names of all Services, sorted.
	Services() []ServiceName
	// Service is one of them; ok is false for one that is gone.
	Service(ServiceName) (s Service, ok bool)
}

// ServiceName names a Service.
type ServiceName struct{ Namespace, Name string }

// Service is what there is to say of a Service in a line.
type Service struct {
	ServiceName
	Type      string // as kubectl shows it, or Headless
	Addresses []string
	External  string // target of an ExternalName
	Ports     []string
	Ready     int // endpoints by address
	Endpoints int
	Published bool // endpoints are, ready or not
}

// Console serves the page. It is made anew for each configuration; the Monitor lives on.
type Console struct {
	opts    Options
	deps    Deps
	monitor *Monitor
	allowed admin.Hosts
	pages   *template.Template
	running chan struct{} // has room for the experiments that may run
	asking  chan struct{} // and for the names that may be explained at a time
	dumping chan struct{} // and for the dumps
}

const (
	// maxExperiments is how many experiments run at a time: they load the server that they measure.
	maxExperiments = 1
	// maxExplained is how many names are explained at a time. One may wait for an upstream for some seconds.
	maxExplained = 4
	// maxDumps is how many dumps are written at a time: each is half a second of work in a large cluster.
	maxDumps = 1
	// dumpPatience is how long one may take to be fetched: 75,000 endpoints are some 11 MB, which a slow port-forward takes minutes for.
	dumpPatience = 5 * time.Minute
	// patience is how long a page may take whose questions go upstream, and be fetched.
	patience = experimentPatience + 10*time.Second
)

// New makes a Console.
func New(o Options, m *Monitor, d Deps) *Console {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return &Console{
		opts: o, deps: d, monitor: m, allowed: admin.HostsOf(o.Address), pages: parsePages(),
		running: make(chan struct{}, maxExperiments), asking: make(chan struct{}, maxExplained),
		dumping: make(chan struct{}, maxDumps),
	}
}

// Routes are where the page is served.
func (c *Console) Routes() []admin.Route {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", c.overview)
	mux.HandleFunc("/live.json", c.live)
	mux.HandleFunc("/services", c.services)
	mux.HandleFunc("/explain", c.explain)
	mux.HandleFunc("/ndots", c.experiment)
	mux.HandleFunc("/dump", c.dump)
	for _, f := range []string{"style.css", "console.js", "icon.svg"} {
		mux.HandleFunc("/"+f, file(f))
	}
	h := guard(c.allowed, mux)
	route := func(path string, patience time.Duration) admin.Route {
		return admin.Route{Addr: c.opts.Address, Path: path, Handler: h, Patience: patience}
	}
	return []admin.Route{route("/", 0), route("/explain", patience), route("/ndots", patience), route("/dump", dumpPatience)}
}

// dump gives the clusters as manifests.
func (c *Console) dump(w http.ResponseWriter, r *http.Request) {
	if c.deps.Dump == nil {
		http.NotFound(w, r)
		return
	}
	select {
	case c.dumping <- struct{}{}:
		defer func() { <-c.dumping }()
		c.deps.Dump.ServeHTTP(w, r)
	default:
		http.Error(w, "another dump is being written; try again", http.StatusTooManyRequests)
	}
}

// NewMonitor makes what remembers how the metrics of a process went. Run keeps it going.
func NewMonitor(g prom.Gatherer) *Monitor { return &Monitor{gather: g, now: time.Now} }
