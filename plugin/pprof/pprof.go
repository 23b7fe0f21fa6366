// Package pprof is the pprof directive: the profiles of the running process for go tool pprof, under /debug/pprof.
package pprof

import (
	"math"
	"net/http"
	"net/http/pprof"
	"runtime"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/admin"
)

// DefaultAddress is where profiles are served unless the directive names an address. Only the machine itself reaches it: profiles
// tell much, and taking them costs.
const DefaultAddress = "localhost:6053"

// Path is where the index of the profiles is served on each address.
const Path = "/debug/pprof"

// Options are what one occurrence of the directive says.
type Options struct {
	Address   string
	BlockRate int // of blocking events one per so many nanoseconds blocked is sampled; 1 for all, 0 for none
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{{
		Name: "block", Usage: "[RATE]", Min: 0, Max: 1,
		Help: "sample one blocking event per RATE nanoseconds blocked; 1, every event, by default",
		Set: func(o *Options, l *directive.Line) (err error) {
			o.BlockRate = 1
			if len(l.Args) > 0 {
				o.BlockRate, err = l.Args[0].Int(1, math.MaxInt32)
			}
			return err
		},
	}}
}

// Parse reads one occurrence of the directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	var err error
	if o.Address, err = admin.ParseAddress(in, DefaultAddress); err != nil {
		return Options{}, err
	}
	return o, directive.ParseOptions(in, &o, Rows())
}

// Routes are where the profiles of one occurrence are served. Profiles take as long as the client asks, so nothing limits them.
func Routes(o Options) []admin.Route {
	allowed := admin.HostsOf(o.Address)
	h := func(path string, f http.HandlerFunc) admin.Route {
		return admin.Route{Addr: o.Address, Path: Path + path, Handler: guard(allowed, f), Patience: -1}
	}
	return []admin.Route{
		h("", http.RedirectHandler(Path+"/", http.StatusFound).ServeHTTP),
		h("/", pprof.Index),
		h("/cmdline", pprof.Cmdline),
		h("/profile", pprof.Profile),
		h("/symbol", pprof.Symbol),
		h("/trace", pprof.Trace),
	}
}

// guard keeps what the machine alone is to reach from pages on the web, which come by a name of their own that they make resolve to it.
func guard(allowed admin.Hosts, next http.Handler) http.Handler {
	if !allowed.Loopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed.Has(r.Host) {
			http.Error(w, "this host name is not served here", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// SetBlockRate makes the process sample blocking events as the occurrences of its configuration say: the finest rate of those that want
// it, or not at all. It is called each time a configuration is taken into use, without occurrences too.
func SetBlockRate(all ...Options) {
	rate := 0
	for _, o := range all {
		if o.BlockRate > 0 && (rate == 0 || o.BlockRate < rate) {
			rate = o.BlockRate
		}
	}
	runtime.SetBlockProfileRate(rate)
}
