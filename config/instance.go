package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/plugin/pprof"
	"github.com/clusterdns/clusterdns/server"
)

// Instance is a running server whose configuration can be changed. Its methods may be called concurrently.
type Instance struct {
	shared *Shared
	server *server.Server
	port   string
	ctx    context.Context // the parts of all configurations end with it
	cancel context.CancelFunc
	// reading is held while the Corefile is read again and for what follows from that. It is taken before mu, and Stop does without: a Corefile, and
	// what it names, may take long to read.
	reading sync.Mutex
	path    string // of the Corefile, "" if it cannot be read again
	failed  string // hash of a configuration that could not be taken into use, "" for none
	tried   string // hash of the configuration that was tried last without success
	said    string // the last error that was logged

	mu      sync.Mutex  // held while a configuration is taken into use
	gen     *generation // changed with both locks held
	stopped bool
	served  atomic.Pointer[[]server.Listener] // by gen
	kick    chan struct{}
	left    sync.WaitGroup // what still ends in the background
	logged  chan struct{}  // closed when the log has been written
	unlog   context.CancelFunc
}

// NewInstance makes a server that serves nothing yet. port is that of labels that name none.
func NewInstance(shared *Shared, port string) *Instance {
	ctx, cancel := context.WithCancel(context.Background())
	srv := server.New(server.DefaultLimits(), shared.hooks())
	shared.prometheus.Watch(srv.Parked, shared.out.Lost, srv.SocketDrops)
	i := &Instance{
		shared: shared, server: srv, port: port,
		ctx: ctx, cancel: cancel, kick: make(chan struct{}, 1),
	}
	if shared.Explain != nil {
		shared.explain = shared.Explain(srv, i.Listeners)
	}
	if shared.Dump != nil {
		shared.dump = shared.Dump(i.Listeners)
	}
	return i
}

// usualPatience is how long a query may wait in a server block without a cancel directive, and a little.
const usualPatience = 6 * time.Second

// grace is how long the parts of an old configuration work on for queries that began with it: as long as one may wait.
func (g *generation) grace() time.Duration {
	longest := usualPatience
	for _, s := range g.sites {
		longest = max(longest, s.options.Patience)
	}
	return longest
}

// Start reads a Corefile and serves it. It returns when it serves, which may take as long as the kubernetes directive's
// startup_timeout. An error means that nothing is served. The Corefile's warnings are logged.
func (i *Instance) Start(ctx context.Context, src Source) error {
	i.startLog()
	c, err := Parse(src, i.port)
	i.warn(c)
	if err != nil {
		return err
	}
	i.reading.Lock()
	defer i.reading.Unlock()
	i.path = src.Path
	return i.apply(ctx, c)
}

// startLog writes the log until Stop. Its lines go out until the very end, so nothing else ends it.
func (i *Instance) startLog() {
	ctx, cancel := context.WithCancel(context.Background())
	i.unlog, i.logged = cancel, make(chan struct{})
	go func() {
		defer close(i.logged)
		_ = i.shared.out.Run(ctx)
	}()
	i.left.Go(func() { _ = i.shared.prometheus.Run(i.ctx) })
}

func (i *Instance) warn(c *Config) {
	for _, w := range c.Warnings {
		i.shared.log.Warn(w.Error())
	}
}

// apply takes a configuration into use, or changes nothing. i.reading is held.
func (i *Instance) apply(ctx context.Context, c *Config) error {
	g, err := build(i.shared, c, i.gen)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return errStopped
	}
	if err := i.shared.admin.Apply(g.routes); err != nil {
		return g.placed(err)
	}
	g.start(i.ctx)
	err = g.await(ctx)
	if late := g.late(); err == nil && len(late) > 0 {
		err = i.unready(late)
	}
	if err == nil {
		err = g.placed(i.server.Apply(g.served))
	}
	if err != nil {
		i.withdraw(g)
		return err
	}
	i.take(g)
	return nil
}

// take makes a generation that serves the one in use. Both locks are held.
func (i *Instance) take(g *generation) {
	old := i.gen
	i.gen = g
	i.served.Store(&g.served)
	i.shared.ready.Apply(g.ready)
	i.shared.reload.running(g.config.Hash)
	pprof.SetBlockRate(g.pprof...)
	i.shared.level.Set(slog.LevelInfo)
	if g.debug {
		i.shared.level.Set(slog.LevelDebug)
	}
	for _, f := range g.taken {
		f()
	}
	i.shared.stacks.Store(g.stacks)
	i.shared.prometheus.Apply(g.enabled, g.metrics...)
	if old != nil {
		i.retire(old, g)
	}
	select {
	case i.kick <- struct{}{}:
	default:
	}
}

// unready judges parts that cannot answer yet when they should be taken into use. At a start there is nothing better; later there is: the configuration that runs
// has its data.
func (i *Instance) unready(names []string) error {
	if i.gen != nil {
		return fmt.Errorf("%s: %w", strings.Join(names, ", "), errUnready)
	}
	for _, n := range names {
		i.shared.Logger(n).Warn("starting without data: until it has been read, names are answered with SERVFAIL")
	}
	return nil
}

var errStopped = errors.New("the server has been stopped")

// errUnready is a fault that may heal while the Corefile stays as it is.
var errUnready = errors.New("no data could be read in time")

// withdraw undoes what apply did for a generation that cannot be used.
func (i *Instance) withdraw(g *generation) {
	if i.gen == nil {
		g.end(nil)
		return
	}
	if err := i.shared.admin.Apply(i.gen.routes); err != nil {
		i.shared.log.Error(fmt.Sprintf("cannot serve HTTP as before: %v", err))
	}
	g.end(i.gen)
}

// retire ends what only the old generation used, once the queries that began with it are over.
func (i *Instance) retire(old, next *generation) {
	i.left.Go(func() {
		select {
		case <-time.After(old.grace()):
		case <-i.ctx.Done():
		}
		for _, p := range old.end(next) {
			<-p.done
		}
	})
}

// Reload reads the Corefile again and takes it into use even if it has not changed. With an error the old configuration serves on; it has been counted
// and logged.
func (i *Instance) Reload(ctx context.Context) error {
	i.reading.Lock()
	defer i.reading.Unlock()
	return i.reread(ctx, true)
}

var errNoPath = errors.New("the Corefile came from standard input and cannot be read again")

// reread reads the Corefile again. Unless forced, it does nothing if that says what it said before. i.reading is held.
func (i *Instance) reread(ctx context.Context, force bool) error {
	c, err := i.parseAgain()
	if !force {
		c, err = i.settled(ctx, c, err)
	}
	same := err == nil && !force
	switch {
	case same && c.Hash == i.gen.config.Hash:
		if i.said != "" {
			i.shared.Logger("reload").Info("the Corefile says again what is in use")
		}
		i.failed, i.said = "", ""
		return nil
	case same && c.Hash == i.failed:
		return nil // what was wrong with it still is
	case err == nil:
		if err = i.change(ctx, c); err == nil {
			return nil
		}
	}
	if ctx.Err() == nil && !errors.Is(err, errStopped) { // else the process ends, which is no fault of the Corefile
		i.refuse(err, force)
	}
	return err
}

// refuse counts and says why a Corefile cannot be used: once, or each time that somebody asked for it to be read.
func (i *Instance) refuse(err error, asked bool) {
	said := err.Error()
	if !asked && said == i.said {
		return
	}
	i.said = said
	i.shared.reload.failed.Inc()
	i.shared.Logger("reload").Error("the Corefile cannot be used, the configuration before stays in use: " + said)
}

// maxUnsettled is how often a Corefile is read again that is another one each time.
const maxUnsettled = 10

// settled reads a Corefile that is not the one in use until it says the same twice, as it may be read while it is being written.
func (i *Instance) settled(ctx context.Context, c *Config, err error) (*Config, error) {
	for range maxUnsettled {
		if err == nil && c.Hash == i.gen.config.Hash {
			break
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c2, err2 := i.parseAgain()
		same := errorText(err) == errorText(err2) && (err != nil || c.Hash == c2.Hash)
		if c, err = c2, err2; same {
			break
		}
	}
	return c, err
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// change takes a changed configuration into use. i.reading is held.
func (i *Instance) change(ctx context.Context, c *Config) error {
	log := i.shared.Logger("reload")
	if c.Hash != i.tried { // not again for what is only tried again
		log.Info("Reloading")
		i.warn(c)
	}
	i.tried = c.Hash
	if err := i.apply(ctx, c); err != nil {
		i.failed = c.Hash
		if errors.Is(err, errUnready) {
			i.failed = "" // it is tried again when the files are looked at next
		}
		return err
	}
	i.failed, i.said, i.tried = "", "", ""
	log.Info("Reloading complete", "sha512", c.Hash)
	return nil
}

func (i *Instance) parseAgain() (*Config, error) {
	if i.path == "" {
		return nil, errNoPath
	}
	src, err := ReadSource(i.path)
	if err != nil {
		return nil, err
	}
	return Parse(src, i.port)
}

// Banner says what is served, a line a zone and address, as CoreDNS does when it starts: ".:53", "example.org.:53 on 127.0.0.1". Ports are those in use.
func (i *Instance) Banner() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.gen == nil {
		return ""
	}
	addrs := i.server.Addrs()
	var b strings.Builder
	for _, l := range i.gen.served {
		ap := addrs[keyOf(l)]
		for _, blk := range l.Blocks {
			scheme, _, _ := strings.Cut(blk.Server, "://")
			z := Zone{Name: blk.ZoneName, Port: fmt.Sprint(ap.Port()), Transport: scheme}
			b.WriteString(z.String())
			if l.Host != "" {
				b.WriteString(" on " + l.Host)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Addrs are the addresses in use by those asked for, as server.Server.Addrs gives them.
func (i *Instance) Addrs() map[string]netip.AddrPort { return i.server.Addrs() }

// HTTPAddr is the address in use for one that a directive such as health names, or "".
func (i *Instance) HTTPAddr(addr string) string { return i.shared.admin.Addr(addr) }
