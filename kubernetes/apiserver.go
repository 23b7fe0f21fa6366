package kubernetes

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// APIServer is the Source that reads a cluster from its API server and follows its changes. Whatever happens to the API server, what
// was read from it stays; an APIServer logs one line when it loses it and one when it has it back.
type APIServer struct {
	opts    Options
	metrics *SourceMetrics
	log     *slog.Logger
	pace    pace
}

// pace is the times of an APIServer.
type pace struct {
	backoff      wait.Backoff  // between attempts to read while it cannot
	check        time.Duration // between checks that the API server still has what we were told
	checkTimeout time.Duration // for the answer to a check
	idle         time.Duration // without a byte, after which a connection is asked for a sign of life
	ping         time.Duration // for the sign of life
	handshake    time.Duration // for TLS to begin on a new connection
	dial         func(ctx context.Context, network, address string) (net.Conn, error)
}

// defaultPace notices a connection that has gone silent after 15 seconds, a restored backup after about 15, and is back within 4
// seconds of the API server.
func defaultPace() pace {
	return pace{
		// client-go's own goes up to a minute, all the while the answers grow old. An attempt every 2 to 4 seconds for each kind is
		// little to an API server, and the jitter spreads the replicas.
		backoff: wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 16, Cap: 2 * time.Second},
		// One tiny request for each kind; at 100 replicas 20 requests a second.
		check: 15 * time.Second,
		// An API server that takes longer for a list of one is overloaded, or not there.
		checkTimeout: 8 * time.Second,
		// client-go's defaults are 30 and 15 seconds: 45 of answers that may be wrong.
		idle: 10 * time.Second,
		ping: 5 * time.Second,
		// As long as connecting may take.
		handshake: dialTimeout,
		dial:      dialer().DialContext,
	}
}

// NewAPIServer is a source for the API server that o names: kubeconfig, endpoint, or the service account of the Pod.
func NewAPIServer(o Options, m *SourceMetrics, log *slog.Logger) *APIServer {
	return &APIServer{opts: o, metrics: m, log: log, pace: defaultPace()}
}

// Run is Source's. It fails only for credentials and files that cannot be read; see Source.
func (a *APIServer) Run(ctx context.Context, to Sink) error {
	conn, err := connect(&a.opts, a.pace)
	if err != nil {
		return err
	}
	defer conn.close()
	st := newStatus(a.log.With("apiserver", conn.host), conn.credentials)
	s := &session{pace: a.pace, status: st, relisted: make(chan struct{}, 1), reconnected: make(chan struct{}, 1)}
	for k := KindNamespace; k < numKinds; k++ {
		if a.opts.Needed(k) {
			s.feeds = append(s.feeds, newFeed(k, &a.opts, conn, s, to, a.metrics))
		}
	}
	defer a.metrics.track(conn.host, s.age)()
	s.run(ctx)
	return nil
}

// session is one run of an APIServer: a feed for each kind, and what watches over them.
type session struct {
	pace        pace
	feeds       []*feed
	status      *status
	relisted    chan struct{} // holds one: a kind was read whole
	reconnected chan struct{} // holds one: a watch was opened again
	litter      litter
}

// run returns when ctx has ended and all goroutines with it.
func (s *session) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, f := range s.feeds {
		wg.Go(func() { f.run(ctx) })
	}
	s.oversee(ctx)
	wg.Wait()
}

// oversee checks the API server from time to time and whenever a watch was opened again, and tidies up after lists.
func (s *session) oversee(ctx context.Context) {
	begun, synced := time.Now(), false
	tick := time.NewTicker(s.pace.check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.relisted:
			if !s.complete() {
				continue
			}
			if !synced {
				synced = true
				s.status.synced(time.Since(begun))
				notify(s.reconnected) // the first check: client-go has no times of watches, and dashboards look for some at once
			}
			// A list leaves several times its size behind as garbage, which the runtime would give back only over minutes.
			debug.FreeOSMemory()
		case <-s.reconnected:
			s.check(ctx)
		case <-tick.C:
			s.check(ctx)
		}
	}
}

// complete says whether every kind was read whole.
func (s *session) complete() bool {
	for _, f := range s.feeds {
		if !f.synced.Load() {
			return false
		}
	}
	return true
}

// age is how long ago the kind that was confirmed longest ago was confirmed; ok is false before all kinds were read.
func (s *session) age() (age time.Duration, ok bool) {
	for _, f := range s.feeds {
		if !f.synced.Load() {
			return 0, false
		}
		age = max(age, time.Since(time.Unix(0, f.confirmed.Load())))
	}
	return age, true
}

// notify puts a token into a channel that holds one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
