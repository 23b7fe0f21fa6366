package kubernetes

import (
	"iter"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"
)

// Index is the live state of a cluster: a Sink for one source, and what queries read, without locks.
type Index struct {
	services *table[entry]
	spaces   *table[spaceRef]
	byAddr   *addrTable[cell] // of cluster IPs and published endpoints
	podAddr  *addrTable[podData]
	serial   atomic.Uint32
	synced   atomic.Bool // what names of Services need
	complete atomic.Bool // every kind that is needed
	whole    chan struct{}
	stale    atomic.Bool   // what is shown is, in part at least, from a snapshot
	current  chan struct{} // closed when the source has delivered every kind that is needed
	edits    atomic.Uint64 // how often a snapshot would have changed

	// What follows is the writers'.
	mu     sync.Mutex
	needs  [numKinds]bool
	had    [numKinds]bool // by Replace or restore
	fresh  [numKinds]bool // by Replace
	unread bool           // not all of them
	limits map[string]bool
	names  bool // endpoint_pod_names
	zonal  bool
	cells  map[string]*cell      // by service key
	slices map[string]*sliceData // by objectKey
	pods   map[string]*podData
	known  map[string]*space // namespaces by label
	dirty  []*cell
	gen    uint32
	items  []item
	before [][16]byte
	after  [][16]byte
	now    func() time.Time
}

// entry is what queries see of a Service. It is immutable.
type entry struct {
	key   string // wire labels of name and namespace
	svc   *svcData
	space *space
	v4    [][4]byte // what the Service's own name resolves to
	v6    [][16]byte
	eps   *endpoints // published; nil if there are none
	total int        // endpoints, published or not
}

// cell is what the writers know of a Service: the object, if there is one, and its slices, in whichever order they came.
type cell struct {
	entry  atomic.Pointer[entry] // nil while there is no Service
	key    string
	id     uint32 // in byAddr
	svc    *svcData
	slices []*sliceData
	gen    uint32
	dirty  bool
}

// spaceRef is a namespace in the table of those that exist.
type spaceRef struct{ *space }

// space is a namespace that exists, or one that objects name.
type space struct {
	exists  atomic.Bool
	gen     uint32
	entries int // of Services in it; the writers'
}

// podData is what the index keeps of a Pod. It is immutable but for gen and id.
type podData struct {
	namespace interned
	name      string
	first     [16]byte
	more      [][16]byte // other addresses
	gen       uint32
	id        uint32
}

func newIndex(o *Options) *Index {
	x := &Index{
		services: newTable[entry](),
		spaces:   newTable[spaceRef](),
		byAddr:   newAddrTable[cell](),
		podAddr:  newAddrTable[podData](),
		whole:    make(chan struct{}),
		current:  make(chan struct{}),
		unread:   true,
		names:    o.EndpointPodNames,
		zonal:    o.Zonal,
		cells:    map[string]*cell{},
		slices:   map[string]*sliceData{},
		pods:     map[string]*podData{},
		known:    map[string]*space{},
		now:      time.Now,
	}
	for k := range numKinds {
		x.needs[k] = o.Needed(k)
	}
	if len(o.Namespaces) > 0 {
		x.limits = map[string]bool{}
		for _, n := range o.Namespaces {
			x.limits[n] = true
		}
	}
	x.serial.Store(uint32(x.now().Unix()))
	return x
}

// Apply implements Sink.
func (x *Index) Apply(o Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.apply(o)
	x.flush()
}

// Delete implements Sink.
func (x *Index) Delete(kind Kind, namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch kind {
	case KindNamespace:
		if label, ok := wireLabels(name); ok {
			x.dropNamespace(label)
		}
	case KindService:
		if key, ok := serviceKey(namespace, name); ok && x.cells[key] != nil {
			x.setService(x.cells[key], nil)
		}
	case KindEndpointSlice:
		x.dropSlice(objectKey(namespace, name))
	case KindPod:
		x.dropPod(objectKey(namespace, name))
	}
	x.flush()
}

// Replace implements Sink.
func (x *Index) Replace(kind Kind, objects iter.Seq[Object]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.replace(kind, objects)
	x.fresh[kind] = true
	x.settle()
}

func (x *Index) replace(kind Kind, objects iter.Seq[Object]) {
	x.gen++
	for o := range objects {
		x.apply(o)
	}
	x.sweep(kind)
	x.flush()
	x.had[kind] = true
}

// settle notes what is synced now.
func (x *Index) settle() {
	x.synced.Store(x.all(&x.had, KindNamespace, KindService, KindEndpointSlice))
	if x.all(&x.had, KindNamespace, KindService, KindEndpointSlice, KindPod) && !x.complete.Swap(true) {
		close(x.whole)
	}
	if x.all(&x.fresh, KindNamespace, KindService, KindEndpointSlice, KindPod) && x.unread {
		x.unread = false
		x.stale.Store(false)
		x.edits.Add(1) // an empty cluster is one to be remembered, too
		close(x.current)
	}
}

// all says whether those of the kinds that are needed have come.
func (x *Index) all(come *[numKinds]bool, kinds ...Kind) bool {
	return !slices.ContainsFunc(kinds, func(k Kind) bool { return x.needs[k] && !come[k] })
}

// Lookup gives a Service that was applied, or nil; other kinds are not kept in a form that could be given back. It has no more than
// what the index needs: not its ports' letter case, and no addresses that do not parse.
func (x *Index) Lookup(kind Kind, namespace, name string) Object {
	x.mu.Lock()
	defer x.mu.Unlock()
	key, ok := serviceKey(namespace, name)
	if c := x.cells[key]; ok && kind == KindService && c != nil && c.svc != nil {
		return c.svc.object(namespace, name)
	}
	return nil
}

// objectKey is the key of an object that has a namespace.
func objectKey(namespace, name string) string { return namespace + "/" + name }

func (x *Index) apply(o Object) {
	namespace, name := o.Key()
	if o.Kind() == KindNamespace {
		namespace = name
	}
	if x.limits != nil && !x.limits[namespace] {
		return
	}
	switch o := o.(type) {
	case *Namespace:
		x.putNamespace(o)
	case *Service:
		x.putService(o)
	case *EndpointSlice:
		x.putSlice(o)
	case *Pod:
		x.putPod(o)
	}
}

// sweep deletes the objects of a kind that the Replace under way has not named.
func (x *Index) sweep(kind Kind) {
	switch kind {
	case KindNamespace:
		sweepMap(x.known, x.gen, func(label string, _ *space) { x.dropNamespace(label) })
	case KindService:
		sweepMap(x.cells, x.gen, func(_ string, c *cell) {
			if c.svc != nil {
				x.setService(c, nil)
			}
		})
	case KindEndpointSlice:
		sweepMap(x.slices, x.gen, func(id string, _ *sliceData) { x.dropSlice(id) })
	case KindPod:
		sweepMap(x.pods, x.gen, func(id string, _ *podData) { x.dropPod(id) })
	}
}

// aged is something that a Replace names or does not name.
type aged interface{ age() uint32 }

func (s *space) age() uint32     { return s.gen }
func (c *cell) age() uint32      { return c.gen }
func (s *sliceData) age() uint32 { return s.gen }
func (p *podData) age() uint32   { return p.gen }

// sweepMap calls drop for what is older than gen.
func sweepMap[T aged](all map[string]T, gen uint32, drop func(id string, old T)) {
	for id, o := range all {
		if o.age() != gen {
			drop(id, o)
		}
	}
}

// changed moves the serial: seconds since 1970, as CoreDNS has it, and never backwards.
func (x *Index) changed() {
	x.edits.Add(1)
	x.serial.Store(max(x.serial.Load(), uint32(x.now().Unix())))
}

func (x *Index) putNamespace(n *Namespace) {
	label, ok := wireLabels(n.Name)
	if !ok {
		return
	}
	s := x.space(label)
	s.gen = x.gen
	if !s.exists.Swap(true) {
		x.spaces.put(label, spaceRef{s})
		x.changed()
	}
}

func (x *Index) dropNamespace(label string) {
	s := x.known[label]
	if s == nil {
		return
	}
	if s.exists.Swap(false) {
		x.spaces.delete(label)
		x.changed()
	}
	x.leave(label, s)
}

// leave forgets a namespace that does not exist and that no entry points to: some clusters make thousands a day, each with a name of its own.
func (x *Index) leave(label string, s *space) {
	if s.entries == 0 && !s.exists.Load() {
		delete(x.known, label)
	}
}

// space is the namespace of a label, which need not exist yet.
func (x *Index) space(label string) *space {
	s := x.known[label]
	if s == nil {
		s = new(space)
		x.known[label] = s
	}
	return s
}

// cellOf is the cell of a Service, made if need be.
func (x *Index) cellOf(key string) *cell {
	c := x.cells[key]
	if c == nil {
		c = &cell{key: key}
		c.id = x.byAddr.enter(c)
		x.cells[key] = c
	}
	return c
}

func (x *Index) putService(s *Service) {
	key, ok := serviceKey(s.Namespace, s.Name)
	if !ok {
		return
	}
	c := x.cellOf(key)
	c.gen = x.gen
	svc := newService(s)
	if c.svc == nil || !c.svc.equal(svc) {
		x.setService(c, svc)
	}
}

func (x *Index) setService(c *cell, svc *svcData) {
	c.svc = svc
	x.touch(c)
}

// touch notes that a cell's entry must be made anew.
func (x *Index) touch(c *cell) {
	x.edits.Add(1)
	if !c.dirty {
		c.dirty = true
		x.dirty = append(x.dirty, c)
	}
}

func (x *Index) putSlice(s *EndpointSlice) {
	id := objectKey(s.Namespace, s.Name)
	key, ok := serviceKey(s.Namespace, s.Service)
	old := x.slices[id]
	if !ok {
		x.dropSlice(id) // it belongs to no Service any more
		return
	}
	n := x.newSlice(s)
	n.gen, n.cell = x.gen, x.cellOf(key)
	if old != nil && old.cell == n.cell && old.eps.equal(n.eps) && slices.Equal(old.states, n.states) {
		old.gen = x.gen
		return
	}
	x.slices[id] = n
	if old != nil && old.cell == n.cell {
		n.cell.slices[slices.Index(n.cell.slices, old)] = n
	} else {
		if old != nil {
			x.unlink(old)
		}
		n.cell.slices = append(n.cell.slices, n)
	}
	x.touch(n.cell)
}

func (x *Index) dropSlice(id string) {
	if s := x.slices[id]; s != nil {
		delete(x.slices, id)
		x.unlink(s)
	}
}

func (x *Index) unlink(s *sliceData) {
	c := s.cell
	c.slices = slices.Delete(c.slices, slices.Index(c.slices, s), slices.Index(c.slices, s)+1)
	x.touch(c)
}

// newSlice reduces a slice to arrays.
func (x *Index) newSlice(s *EndpointSlice) *sliceData {
	items := x.items[:0]
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		it := item{addr: e.Addr, state: stateOf(e)}
		host := e.Hostname
		if host == "" && x.names {
			host = e.Pod
		}
		if host != "" {
			it.host, _ = wireLabels(host)
		}
		if x.zonal && e.Zone != "" {
			if z, ok := wireLabels(e.Zone); ok {
				it.zone = z
			}
		}
		items = append(items, it)
	}
	slices.SortStableFunc(items, compareItems)
	out := &sliceData{eps: newEndpoints(items, [][]port{portsOf(s.Ports)})}
	if slices.ContainsFunc(items, func(it item) bool { return it.state != stateUsual }) {
		out.states = make([]state, len(items))
		for i := range items {
			out.states[i] = items[i].state
		}
	}
	x.items = items
	return out
}

func stateOf(e *Endpoint) (s state) {
	if e.Ready {
		s |= stateReady
	}
	if e.Serving {
		s |= stateServing
	}
	if e.Terminating {
		s |= stateTerminating
	}
	return s
}

func (x *Index) putPod(p *Pod) {
	var room [128]byte // for a list of the same Pods once more, which leaves no garbage
	key := append(append(append(room[:0], p.Namespace...), '/'), p.Name...)
	old := x.pods[string(key)]
	if old != nil && old.at(p.IPs) {
		old.gen = x.gen
		return
	}
	id := string(key)
	if len(p.IPs) == 0 {
		x.dropPod(id)
		return
	}
	n := &podData{namespace: unique.Make(p.Namespace), name: id[len(p.Namespace)+1:], first: p.IPs[0].As16(), gen: x.gen}
	for _, a := range p.IPs[1:] {
		n.more = append(n.more, a.As16())
	}
	x.pods[id] = n
	x.edits.Add(1)
	n.id = x.podAddr.enter(n)
	n.each(func(a *[16]byte) { x.podAddr.add(a, n.id) })
	if old != nil {
		x.forget(old)
	}
}

// at says whether the Pod has these addresses, in this order.
func (p *podData) at(ips []netip.Addr) bool {
	if len(ips) != 1+len(p.more) || p.first != ips[0].As16() {
		return false
	}
	for i := range p.more {
		if p.more[i] != ips[1+i].As16() {
			return false
		}
	}
	return true
}

func (x *Index) dropPod(id string) {
	if p := x.pods[id]; p != nil {
		delete(x.pods, id)
		x.edits.Add(1)
		x.forget(p)
	}
}

// forget takes a Pod's addresses out.
func (x *Index) forget(p *podData) {
	p.each(func(a *[16]byte) { x.podAddr.remove(a, p.id) })
	x.podAddr.leave(p.id)
}

func (p *podData) each(f func(a *[16]byte)) {
	f(&p.first)
	for i := range p.more {
		f(&p.more[i])
	}
}

// has says whether the Pod has an address.
func (p *podData) has(a *[16]byte) bool { return p.first == *a || slices.Contains(p.more, *a) }
