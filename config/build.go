package config

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/admin"
	"github.com/clusterdns/clusterdns/plugin/health"
	"github.com/clusterdns/clusterdns/plugin/pprof"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/plugin/ready"
	"github.com/clusterdns/clusterdns/plugin/transfer"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// generation is one configuration, built: all that changes when another is taken into use.
type generation struct {
	shared  *Shared
	config  *Config
	prev    *generation // only while building
	sites   []*site
	kept    map[partKey]*part
	changes map[string]*notifier // by server block
	routes  []admin.Route
	http    map[string]directive.Arg // the first directive that wants an address of HTTP
	ready   []ready.Part
	waits   []*part // those that are new and starters
	served  []server.Listener
	wants   []directive.Arg // what in the Corefile each of them is for: the bind directive, or the zone
	health  []health.Options
	pprof   []pprof.Options
	reload  *reloadOptions
	enabled []prometheus.Enabled
	metrics []prometheus.Options
	debug   bool
	stacks  bool     // an errors directive wants stack traces
	taken   []func() // called when the configuration has been taken into use
}

// starter is a part that serving waits for when it is new: it blocks until it can answer, until it has waited as long as its
// options say, or until ctx ends.
type starter interface{ AwaitStart(ctx context.Context) }

// partKey finds the part that a directive had in the configuration before.
type partKey struct {
	block string
	name  string
	index int
}

// part is something that a directive made and that a later configuration may go on with.
type part struct {
	at      directive.Arg // the directive
	options any
	value   any
	cancel  context.CancelFunc // ends its Run; nil while it does not run
	done    chan struct{}
	err     error // what Run gave; good when done is closed
}

// failed says whether the part has come to its end by a fault: a configuration to come had better try anew.
func (p *part) failed() bool {
	select {
	case <-p.done:
		return p.err != nil
	default:
		return false
	}
}

// site is a server block being built.
type site struct {
	*generation
	block     *Block
	key       string
	use       *Use // the occurrence being built
	made      int  // how many parts it has made
	hosts     []string
	chain     []stage
	observers []func(*server.Block) server.Observer
	unrouted  func(listener string) server.Observer // of queries on the block's addresses that no block takes
	provided  []server.MetadataProvider
	providers []server.MetadataProvider
	options   server.Options
	view      string
	match     func(*server.Query) bool
	sockets   int
	timeouts  server.Timeouts
	tls       *tls.Config
	forwarder server.Forwarder
	cluster   *cluster
	sources   []transfer.Source // whose zones can be transferred, in the order of the chain
	notify    *notifier
	transfer  *transfer.Transfer
	last      []func() error // see finally
}

// stage is a handler that may differ between the zones and listeners of its server block.
type stage struct {
	name string
	rank int // the higher, the later it is asked
	make func(*server.Block) server.Handler
}

// rank is that of handlers of a row of the table; one less is right before them.
func (s *site) rank(name string) int {
	return 2 * slices.IndexFunc(s.config.table, func(d Directive) bool { return d.Name == name })
}

// handle puts a handler into the chain.
func (s *site) handle(h server.Handler) {
	s.handleEach(func(*server.Block) server.Handler { return h })
	if p, ok := h.(server.MetadataProvider); ok {
		s.provide(p)
	}
}

// handleEach puts a handler into the chain that is made for each zone and listener: the block that is given has all but its chain.
func (s *site) handleEach(f func(*server.Block) server.Handler) {
	name := s.use.Directive.Name
	s.chain = append(s.chain, stage{name, s.rank(name), f})
}

// finally calls f when all directives of the block have been built.
func (s *site) finally(f func() error) {
	u := s.use
	s.last = append(s.last, func() error {
		s.use, s.made = u, 0
		return s.at(f())
	})
}

// handleBefore puts a handler into the chain before where another directive stands, whether that is used or not.
func (s *site) handleBefore(other string, h server.Handler) {
	make := func(*server.Block) server.Handler { return h }
	s.chain = append(s.chain, stage{s.use.Directive.Name, s.rank(other) - 1, make})
}

// observe adds an observer.
func (s *site) observe(o server.Observer) {
	s.observeEach(func(*server.Block) server.Observer { return o })
}

// observeEach adds an observer that is made for each zone and listener.
func (s *site) observeEach(f func(*server.Block) server.Observer) {
	s.observers = append(s.observers, f)
}

// provide adds a provider of metadata, which a metadata directive lets be asked.
func (s *site) provide(p server.MetadataProvider) { s.provided = append(s.provided, p) }

// route serves something over HTTP.
func (s *site) route(r ...admin.Route) {
	s.routes = append(s.routes, r...)
	for i := range r {
		if _, found := s.http[r[i].Addr]; !found {
			s.http[r[i].Addr] = s.use.Input.Name
		}
	}
}

// logger is the one of the directive being built.
func (s *site) logger() *slog.Logger { return s.shared.Logger(s.use.Directive.Name) }

// at puts the place of the directive being built before an error.
func (s *site) at(err error) error {
	var placed *directive.Error
	if err == nil || errors.As(err, &placed) {
		return err
	}
	return s.use.Input.Name.Errorf("%w", err)
}

// keep gives what the same directive of the same server block made of deeply equal options in the configuration that runs now, unless its Run has failed, or
// calls make. If it is a server.Runner, Run is called before it is taken into use and ends after it is no longer. Readiness and
// AwaitStart are found by their methods too.
func keep[T any](s *site, options any, make func() (T, error)) (T, error) {
	k := partKey{s.key, s.use.Directive.Name, s.use.index<<8 | s.made}
	s.made++
	p := s.kept[k]
	if s.prev != nil {
		if old := s.prev.kept[k]; old != nil && reflect.DeepEqual(old.options, options) && !old.failed() {
			p = old
		}
	}
	if p == nil {
		v, err := make()
		if err != nil {
			return v, err
		}
		p = &part{at: s.use.Input.Name, options: options, value: v}
		if _, ok := p.value.(starter); ok {
			s.waits = append(s.waits, p)
		}
	}
	s.kept[k] = p
	return p.value.(T), nil
}

// build makes a generation of a configuration, beside the one that runs now, if any. It starts nothing; what it makes can be dropped.
func build(shared *Shared, c *Config, prev *generation) (*generation, error) {
	g := &generation{shared: shared, config: c, prev: prev, kept: map[partKey]*part{}, changes: map[string]*notifier{}, http: map[string]directive.Arg{}}
	defer func() { g.prev = nil }()
	var errs []error
	seen := newOverlaps()
	for _, b := range c.Blocks {
		s, err := g.site(b)
		errs = appendError(errs, err)
		if err == nil {
			errs = append(errs, seen.add(b.Zones, s.hosts, s.match != nil)...)
		}
		g.sites = append(g.sites, s)
	}
	if err := inOrder(errs); err != nil {
		return nil, err
	}
	g.reserve()
	g.served = g.listeners()
	return g, nil
}

// reserve keeps server blocks from speaking of names that another block, for a zone within or around theirs, does not let every client ask for.
func (g *generation) reserve() {
	var beside []*site
	for _, s := range g.sites {
		if !s.options.Reserved && slices.ContainsFunc(g.sites, func(o *site) bool { return o.options.Reserved && s.block.overlaps(o.block) }) {
			beside = append(beside, s)
		}
	}
	for _, s := range beside {
		s.options.Reserved = true
	}
}

// overlaps says whether a zone of one block is within one of the other, on whichever port and transport.
func (b *Block) overlaps(o *Block) bool {
	return slices.ContainsFunc(b.Zones, func(z Zone) bool {
		x := wire.NewZone(wire.MustCanonical(z.Name))
		return slices.ContainsFunc(o.Zones, func(z Zone) bool {
			y := wire.NewZone(wire.MustCanonical(z.Name))
			return x.Contains(y.Name()) || y.Contains(x.Name())
		})
	})
}

func (g *generation) site(b *Block) (*site, error) {
	s := &site{generation: g, block: b, key: blockKey(b)}
	s.notify = g.notifier(s.key)
	var errs []error
	for i := 0; i < len(b.Uses); {
		end := i + 1
		for end < len(b.Uses) && b.Uses[end].Directive.Name == b.Uses[i].Directive.Name {
			end++
		}
		errs = appendError(errs, b.Uses[i].Directive.build(s, b.Uses[i:end]))
		i = end
	}
	for _, f := range s.last {
		errs = appendError(errs, f())
	}
	s.taken = append(s.taken, func() { s.notify.to.Store(s.transfer) })
	slices.SortStableFunc(s.chain, func(a, b stage) int { return a.rank - b.rank })
	if len(s.hosts) == 0 {
		s.hosts = []string{""}
	}
	return s, errors.Join(errs...)
}

// blockKey is what a server block is known by across configurations.
func blockKey(b *Block) string {
	var k strings.Builder
	for _, z := range b.Zones {
		k.WriteString(z.String() + " ")
	}
	for _, w := range bindWords(b) {
		k.WriteString("on " + w + " ")
	}
	if v := b.use("view"); v != nil {
		k.WriteString("view " + texts(v.Input.Args))
	}
	return k.String()
}

// listeners are what the server is given: the blocks of each address in the order of the Corefile.
func (g *generation) listeners() []server.Listener {
	var out []server.Listener
	at := map[string]int{}
	for _, s := range g.sites {
		for _, z := range s.block.Zones {
			for _, h := range s.hosts {
				l := server.Listener{Host: h, Port: z.Port, Sockets: s.sockets, Timeouts: s.timeouts}
				switch z.Transport {
				case "tls":
					l.Transport, l.TLS = server.TLS, s.tls
				case "https":
					l.Transport, l.TLS = server.HTTPS, s.tls
				}
				key := keyOf(l)
				i, found := at[key]
				if !found {
					i = len(out)
					at[key] = i
					out = append(out, l)
					g.wants = append(g.wants, s.wanted(z))
				}
				label := z.Transport + "://" + net.JoinHostPort(h, z.Port)
				if out[i].Unrouted == nil && s.unrouted != nil {
					out[i].Unrouted = []server.Observer{s.unrouted(label)}
				}
				out[i].Blocks = append(out[i].Blocks, s.serverBlock(z, label))
			}
		}
	}
	return out
}

// wanted is what in the Corefile asks for a zone's addresses.
func (s *site) wanted(z Zone) directive.Arg {
	if u := s.block.use("bind"); u != nil {
		return u.Input.Name
	}
	return z.at
}

// placed puts the place in the Corefile before an error of listening.
func (g *generation) placed(err error) error {
	var dns *server.ListenError
	var http *admin.AddressError
	switch {
	case errors.As(err, &dns) && dns.Index < len(g.wants):
		return g.wants[dns.Index].Errorf("%s: %w", g.wants[dns.Index].Text, err)
	case errors.As(err, &http):
		if at, known := g.http[http.Addr]; known {
			return at.Errorf("%s: %w", at.Text, err)
		}
	}
	return err
}

// serverBlock makes what the server is given of one zone on one listener.
func (s *site) serverBlock(z Zone, listener string) *server.Block {
	b := &server.Block{
		Zone: wire.NewZone(wire.MustCanonical(z.Name)), ZoneName: z.Name, Server: listener,
		View: s.view, Match: s.match, Options: s.options, Providers: s.providers,
	}
	names := make([]string, 0, len(s.chain))
	for _, st := range s.chain {
		b.Chain = append(b.Chain, server.Stage{Name: st.name, Handler: st.make(b)})
	}
	for _, f := range s.observers {
		b.Observers = append(b.Observers, f(b))
	}
	for _, u := range s.block.Uses {
		if !slices.Contains(names, u.Directive.Name) {
			names = append(names, u.Directive.Name)
		}
	}
	if s.block.use("prometheus") != nil {
		s.enabled = append(s.enabled, prometheus.Enabled{Server: listener, Zone: z.Name, View: s.view, Directives: names})
	}
	return b
}

// start runs the parts that do not run yet. ctx is the process's. What waits for a part must not hold on to the generation: a part may live through many.
func (g *generation) start(ctx context.Context) {
	shared := g.shared
	for k, p := range g.kept {
		r, ok := p.value.(server.Runner)
		if !ok || p.cancel != nil {
			continue
		}
		var pctx context.Context
		pctx, p.cancel = context.WithCancel(ctx)
		p.done = make(chan struct{})
		awaited := slices.Contains(g.waits, p)
		go func() {
			defer close(p.done)
			if err := r.Run(pctx); err != nil && pctx.Err() == nil {
				p.err = p.placed(k.name, err)
			}
			if p.err != nil && !awaited {
				shared.fault(k.name, p.err)
			}
		}()
	}
}

// placed puts the place of the part's directive before what is wrong with it.
func (p *part) placed(name string, err error) error {
	var out []error
	for _, e := range Errors(err) {
		out = append(out, p.at.Errorf("%s: %w", name, e))
	}
	return errors.Join(out...)
}

// fault logs what is wrong with a directive's part.
func (s *Shared) fault(name string, err error) {
	for _, e := range Errors(err) {
		s.Logger(name).Error(e.Error())
	}
}

// await waits for the parts that can answer only after a while. An error is that of a part which cannot work; it is the caller's to tell,
// and those that come later are logged.
func (g *generation) await(ctx context.Context) error {
	shared := g.shared
	for _, p := range g.waits {
		wctx, cancel := context.WithCancel(ctx)
		if p.done != nil {
			go func() {
				select {
				case <-p.done:
					cancel()
				case <-wctx.Done():
				}
			}()
		}
		p.value.(starter).AwaitStart(wctx)
		cancel()
		select {
		case <-p.done:
			if p.err != nil {
				return p.err
			}
		default:
			if p.done != nil {
				go func() {
					<-p.done
					shared.fault(p.at.Text, p.err)
				}()
			}
		}
	}
	return ctx.Err()
}

// late are the directives whose parts are new and cannot answer yet.
func (g *generation) late() (names []string) {
	for k, p := range g.kept {
		r, ok := p.value.(server.Readiness)
		if ok && slices.Contains(g.waits, p) && !r.Ready() {
			names = append(names, k.name)
		}
	}
	return names
}

// end ends the parts that next does not go on with; next is nil for all of them. It does not wait for them.
func (g *generation) end(next *generation) (ended []*part) {
	goesOn := map[*part]bool{}
	if next != nil {
		for _, p := range next.kept {
			goesOn[p] = true
		}
	}
	for _, p := range g.kept {
		if p.cancel != nil && !goesOn[p] {
			p.cancel()
			ended = append(ended, p)
		}
	}
	return ended
}

// keyOf is what server.Server.Addrs knows a listener by.
func keyOf(l server.Listener) string {
	addr := net.JoinHostPort(l.Host, l.Port)
	switch {
	case l.Transport == server.TLS:
		return "tls://" + addr
	case l.Transport == server.HTTPS && l.TLS == nil:
		return "http://" + addr
	case l.Transport == server.HTTPS:
		return "https://" + addr
	}
	return addr
}
