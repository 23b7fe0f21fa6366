package prometheus

import (
	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/admin"
)

// DefaultAddress is where metrics are served unless the directive names an address.
const DefaultAddress = "localhost:9153"

// Path is where metrics are served on each address.
const Path = "/metrics"

const (
	// defaultClients is how many clients are named where the option says no number: what fits into a panel of a dashboard.
	defaultClients = 20
	// maxClients bounds the series that clients make, whatever the configuration says.
	maxClients = 100
)

// Options are what one occurrence of the directive says.
type Options struct {
	Address        string
	RuntimeMetrics bool   // everything that Go's runtime/metrics has, not only the usual few
	TLS            string // path of a Prometheus web configuration file; "" for plain HTTP
	Clients        int    // how many of the busiest clients are named; 0 for none
}

// Rows are the directive's options.
func Rows(in *directive.Input) []directive.Option[Options] {
	return []directive.Option[Options]{
		{
			Name: "runtime_metrics",
			Help: "export everything that Go's runtime/metrics has",
			Set:  func(o *Options, _ *directive.Line) error { o.RuntimeMetrics = true; return nil },
		}, {
			Name: "tls", Usage: "CONFIG_FILE", Min: 1, Max: 1,
			Help: "serve over HTTPS as this Prometheus web configuration file says",
			Set: func(o *Options, l *directive.Line) error {
				o.TLS = in.Path(l.Args[0].Text)
				return nil
			},
		}, {
			Name: "clients", Usage: "[COUNT]", Max: 1,
			Help: "name the busiest COUNT clients by pod and namespace; 20 by default",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.Clients = defaultClients
				if len(l.Args) > 0 {
					o.Clients, err = l.Args[0].Int(1, maxClients)
				}
				return err
			},
		},
	}
}

// Parse reads one occurrence of the directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	var err error
	if o.Address, err = admin.ParseAddress(in, DefaultAddress); err != nil {
		return Options{}, err
	}
	return o, directive.ParseOptions(in, &o, Rows(in))
}
