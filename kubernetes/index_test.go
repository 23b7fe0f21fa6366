package kubernetes_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	gosync "sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// world is a random cluster of few names, so that objects often meet: services with and without slices, slices before their Services, the
// same addresses in several.
type world struct {
	rnd     *rand.Rand
	objects [kubernetes.KindPod + 1]map[string]kubernetes.Object
}

func newWorld(seed uint64) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 1))}
	for k := range w.objects {
		w.objects[k] = map[string]kubernetes.Object{}
	}
	return w
}

func (w *world) addr() netip.Addr {
	if w.rnd.IntN(4) == 0 {
		return netip.AddrFrom16([16]byte{0xfd, 15: byte(w.rnd.IntN(12))})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(w.rnd.IntN(12))})
}

func (w *world) pick(names ...string) string { return names[w.rnd.IntN(len(names))] }

func (w *world) ports() []kubernetes.Port {
	all := []kubernetes.Port{{Name: "http", Number: 80}, {Name: "dns", Number: 53, Protocol: kubernetes.UDP}, {Name: "dns-tcp", Number: 53}}
	return all[:w.rnd.IntN(len(all)+1)]
}

func (w *world) object() kubernetes.Object {
	ns := w.pick("x", "y")
	switch w.rnd.IntN(8) {
	case 0:
		return &kubernetes.Namespace{Name: ns}
	case 1, 2:
		s := &kubernetes.Service{Namespace: ns, Name: w.pick("a", "b", "c"), Ports: w.ports(), Unready: w.rnd.IntN(3) == 0}
		switch w.rnd.IntN(4) {
		case 0:
			s.Type, s.ExternalName = kubernetes.ExternalName, "a.x.svc.cluster.local"
		case 1, 2:
			s.Headless = true
		default:
			s.ClusterIPs = []netip.Addr{w.addr()}
		}
		return s
	case 3:
		return &kubernetes.Pod{Namespace: ns, Name: w.pick("p", "q"), IPs: []netip.Addr{w.addr()}}
	}
	s := &kubernetes.EndpointSlice{Namespace: ns, Name: w.pick("s", "t", "u"), Service: w.pick("a", "b", "c", ""), Ports: w.ports()}
	for range w.rnd.IntN(6) {
		s.Endpoints = append(s.Endpoints, kubernetes.Endpoint{
			Addr: w.addr(), Hostname: w.pick("", "", "h", "i"), Pod: w.pick("", "p", "p.q"), Zone: w.pick("", "z"), Ready: w.rnd.IntN(3) > 0,
		})
	}
	return s
}

// step changes something in both the world and the sink.
func (w *world) step(to kubernetes.Sink) {
	o := w.object()
	ns, name := o.Key()
	all := w.objects[o.Kind()]
	switch w.rnd.IntN(10) {
	case 0, 1:
		delete(all, ns+"/"+name)
		to.Delete(o.Kind(), ns, name)
	case 2:
		for range w.rnd.IntN(4) {
			if n := w.object(); n.Kind() == o.Kind() {
				ns, name := n.Key()
				all[ns+"/"+name] = n
			} else {
				delete(all, w.pick("x", "y")+"/"+w.pick("a", "s", "p"))
			}
		}
		to.Replace(o.Kind(), w.all(o.Kind()))
	default:
		all[ns+"/"+name] = o
		to.Apply(o)
	}
}

func (w *world) all(k kubernetes.Kind) iter.Seq[kubernetes.Object] {
	return func(yield func(kubernetes.Object) bool) {
		for _, o := range w.objects[k] {
			if !yield(o) {
				return
			}
		}
	}
}

// questions are all names that a world can have.
func questions() (out []*dns.Msg) {
	for _, ns := range []string{"x", "y"} {
		for _, svc := range []string{"a", "b", "c"} {
			base := svc + "." + ns + ".svc.cluster.local."
			for _, pre := range []string{"", "h.", "i.", "p.", "10-0-0-3.", "fd00--4.", "_http._tcp.", "_dns._udp.", "_._tcp.", "z.pin._zone.", "z.prefer._zone.", "_tcp."} {
				for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} {
					out = append(out, servertest.Query(pre+base, typ, 0))
				}
			}
		}
		out = append(out, servertest.Query(ns+".svc.cluster.local.", dns.TypeA, 0))
	}
	for i := range 12 {
		out = append(out, servertest.Query(fmt.Sprintf("%d.0.0.10.in-addr.arpa.", i), dns.TypePTR, 0))
		out = append(out, servertest.Query(fmt.Sprintf("10-0-0-%d.x.pod.cluster.local.", i), dns.TypeA, 0))
		out = append(out, servertest.Query(fmt.Sprintf("%x.%s0.0.d.f.ip6.arpa.", i, zeros(27)), dns.TypePTR, 0))
	}
	return out
}

func zeros(n int) (s string) {
	for range n {
		s += "0."
	}
	return s
}

// answers asks everything.
func answers(t *testing.T, d *server.Direct, all [][]byte) (out []string) {
	t.Helper()
	for _, q := range all {
		reply, ok := d.Answer(q, servertest.Client, server.TCP)
		var m dns.Msg
		if err := m.Unpack(reply); !ok || err != nil {
			t.Fatal(ok, err)
		}
		out = append(out, answer(&m))
	}
	return out
}

// TestIndexIsItsObjects: whatever came before, the answers are those of an index that was given the same objects at once.
func TestIndexIsItsObjects(t *testing.T) {
	t.Parallel()
	var all [][]byte
	for _, q := range questions() {
		all = append(all, servertest.Pack(t, q))
	}
	for seed, opts := range []string{"pods verified\nzonal", "endpoint_pod_names\npods verified", "namespaces x\npods verified", "ignore empty_service", "noendpoints"} {
		o := options(t, "cluster.local in-addr.arpa ip6.arpa\n"+opts)
		w := newWorld(uint64(seed))
		lived := kubernetes.New(o, nil, kubernetes.Deps{})
		sync(lived)
		d := servertest.Direct(block(lived, nil))
		for step := range 1500 {
			w.step(lived)
			if step%50 != 49 {
				continue
			}
			fresh := kubernetes.New(o, nil, kubernetes.Deps{})
			for k := range kubernetes.KindPod + 1 {
				fresh.Replace(k, w.all(k))
			}
			got, want := answers(t, d, all), answers(t, servertest.Direct(block(fresh, nil)), all)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%q, step %d, %v:\n got %s\nwant %s", opts, step, questions()[i].Question[0], got[i], want[i])
				}
			}
		}
	}
}

// TestNothingDisappears asks for what stays while everything around it changes.
func TestNothingDisappears(t *testing.T) {
	t.Parallel()
	k := kubernetes.New(options(t, "cluster.local in-addr.arpa\npods verified"), nil, kubernetes.Deps{})
	stays := []kubernetes.Object{
		&kubernetes.Namespace{Name: "prod"},
		&kubernetes.Service{Namespace: "prod", Name: "web", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}},
		&kubernetes.Service{Namespace: "prod", Name: "db", Headless: true},
		&kubernetes.Pod{Namespace: "prod", Name: "p", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
	}
	slice := func(n int) *kubernetes.EndpointSlice {
		s := &kubernetes.EndpointSlice{Namespace: "prod", Name: "db-1", Service: "db"}
		for i := range 1 + n%7 {
			s.Endpoints = append(s.Endpoints, kubernetes.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)}), Ready: true})
		}
		return s
	}
	sync(k, append(stays, slice(0))...)
	stop := make(chan struct{})
	var asking gosync.WaitGroup
	for range 2 {
		asking.Go(func() {
			d := servertest.Direct(block(k, nil))
			for {
				select {
				case <-stop:
					return
				default:
				}
				for name, typ := range map[string]uint16{
					"web.prod.svc.cluster.local.": dns.TypeA, "db.prod.svc.cluster.local.": dns.TypeA, "10-0-0-1.db.prod.svc.cluster.local.": dns.TypeA,
					"1.0.96.10.in-addr.arpa.": dns.TypePTR, "1.0.0.10.in-addr.arpa.": dns.TypePTR, "10-0-0-1.prod.pod.cluster.local.": dns.TypeA,
				} {
					reply, _ := d.Answer(servertest.Pack(t, servertest.Query(name, typ, 0)), servertest.Client, server.UDP)
					if reply[3]&0xF != 0 || reply[7] == 0 {
						t.Errorf("%s: rcode %d, %d answers", name, reply[3]&0xF, reply[7])
						return
					}
				}
			}
		})
	}
	for i := range 400 {
		objects := append(slices.Clone(stays), slice(i))
		for j := range i % 40 {
			name := fmt.Sprintf("other-%d", j)
			objects = append(objects, &kubernetes.Namespace{Name: name},
				&kubernetes.Service{Namespace: name, Name: "s", ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 97, byte(i), byte(j)})}},
				&kubernetes.EndpointSlice{Namespace: name, Name: "e", Service: "s", Endpoints: slice(j).Endpoints},
				&kubernetes.Pod{Namespace: name, Name: "p", IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, byte(j)})}})
		}
		sync(k, objects...)
	}
	close(stop)
	asking.Wait()
}

// TestMemory holds the index of a large cluster to what it may cost: the process that it is part of is to fit 48 MB.
func TestMemory(t *testing.T) { //nolint:paralleltest // it measures the heap of the whole process
	const services, endpoints, maxMB = 8000, 75000, 12
	base := heap()
	k := kubernetes.New(options(t, "cluster.local in-addr.arpa"), nil, kubernetes.Deps{})
	sync(k)
	k.Apply(&kubernetes.Namespace{Name: "load"})
	for i := range services {
		name := fmt.Sprintf("service-%05d", i)
		k.Apply(&kubernetes.Service{
			Namespace: "load", Name: name, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports: []kubernetes.Port{{Name: "http", Number: 80}, {Name: "metrics", Number: 9090}}, Selector: true,
		})
		s := &kubernetes.EndpointSlice{Namespace: "load", Name: name + "-x7k2p", Service: name, Ports: []kubernetes.Port{{Name: "http", Number: 80}, {Name: "metrics", Number: 9090}}}
		for j := i * endpoints / services; j < (i+1)*endpoints/services; j++ {
			s.Endpoints = append(s.Endpoints, kubernetes.Endpoint{
				Addr: netip.AddrFrom4([4]byte{10, byte(j >> 16), byte(j >> 8), byte(j)}), Pod: fmt.Sprintf("%s-%d", name, j), Zone: "zone-a", Ready: true, Serving: true,
			})
		}
		k.Apply(s)
	}
	used := float64(heap()-base) / (1 << 20)
	t.Logf("%d Services and %d endpoints take %.1f MB, %.0f bytes an endpoint", services, endpoints, used, used*(1<<20)/endpoints)
	if used > maxMB {
		t.Errorf("%.1f MB, want at most %d", used, maxMB)
	}
	runtime.KeepAlive(k)
}

// TestPodMemory does so with Pods.
func TestPodMemory(t *testing.T) { //nolint:paralleltest // it measures the heap of the whole process
	const pods, maxMB = 75000, 20
	base := heap()
	k := kubernetes.New(options(t, "cluster.local in-addr.arpa\npods verified"), nil, kubernetes.Deps{})
	sync(k)
	for i := range pods {
		k.Apply(&kubernetes.Pod{
			Namespace: fmt.Sprintf("team-%d", i%50), Name: fmt.Sprintf("deployment-%d-7d9f8b6c5d-%05d", i%2000, i),
			IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})},
		})
	}
	used := float64(heap()-base) / (1 << 20)
	t.Logf("%d Pods take %.1f MB, %.0f bytes a Pod", pods, used, used*(1<<20)/pods)
	if used > maxMB {
		t.Errorf("%.1f MB, want at most %d", used, maxMB)
	}
	runtime.KeepAlive(k)
}

// heap is the live heap in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
