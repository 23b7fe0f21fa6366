//go:build unix

package steady_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/test/internal/load"
)

const (
	// sockets is how many long-lived clients there are.
	sockets = 8
	// late is how long after the last query a reply may come.
	late = 5 * time.Second
)

// startLoad asks for a name of the cluster, for one that is not there, and for one outside, at the rate of the run.
func startLoad(t *testing.T, addr string) *load.Load {
	t.Helper()
	var queries []load.Query
	for _, n := range []string{"web.prod.svc.cluster.local.", "missing.prod.svc.cluster.local.", "www.example.com."} {
		queries = append(queries, load.Query{Wire: servertest.Pack(t, servertest.Query(n, dns.TypeA, 0))})
	}
	return load.Start(t, load.Options{Addr: addr, Rate: rate(t), Sockets: sockets, Late: late, Queries: func(int) []load.Query { return queries }})
}

// readiness asks /ready all the time: it must never say no.
type readiness struct {
	quit chan struct{}
	done chan error
}

func watchReady(t *testing.T, url string) *readiness {
	t.Helper()
	r := &readiness{quit: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		asked := 0
		for {
			select {
			case <-r.quit:
				if asked == 0 {
					r.done <- fmt.Errorf("%s was never asked", url)
					return
				}
				r.done <- nil
				return
			case <-ticker.C:
			}
			res, err := http.Get(url)
			if err == nil {
				res.Body.Close()
				if res.StatusCode != http.StatusOK {
					err = fmt.Errorf("%s: %s", url, res.Status)
				}
			}
			if err != nil {
				r.done <- err
				return
			}
			asked++
		}
	}()
	return r
}

// stop gives the first failure.
func (r *readiness) stop() error {
	close(r.quit)
	return <-r.done
}
