package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
)

// testPatience is how long a test waits for what it expects before it fails.
const testPatience = 20 * time.Second

// recorder is a Sink that remembers, and a log.
type recorder struct {
	mu       sync.Mutex
	changed  *sync.Cond
	objects  map[Kind]map[string]Object
	replaced map[Kind]int
	deleted  int
	log      bytes.Buffer
}

func newRecorder() *recorder {
	r := &recorder{objects: map[Kind]map[string]Object{}, replaced: map[Kind]int{}}
	r.changed = sync.NewCond(&r.mu)
	for k := KindNamespace; k < numKinds; k++ {
		r.objects[k] = map[string]Object{}
	}
	return r
}

func nameOf(o Object) string {
	ns, name := o.Key()
	return ns + "/" + name
}

func (r *recorder) locked(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	r.changed.Broadcast()
}

func (r *recorder) Apply(o Object) { r.locked(func() { r.objects[o.Kind()][nameOf(o)] = o }) }

func (r *recorder) Delete(k Kind, ns, name string) {
	r.locked(func() { delete(r.objects[k], ns+"/"+name); r.deleted++ })
}

func (r *recorder) Replace(k Kind, all iter.Seq[Object]) {
	r.locked(func() {
		r.replaced[k]++
		r.objects[k] = map[string]Object{}
		for o := range all {
			r.objects[k][nameOf(o)] = o
		}
	})
}

func (r *recorder) Lookup(k Kind, ns, name string) Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[k][ns+"/"+name]
}

// Write takes log lines.
func (r *recorder) Write(p []byte) (n int, err error) {
	r.locked(func() { n, err = r.log.Write(p) })
	return n, err
}

// wait waits until cond, which is called locked, is true.
func (r *recorder) wait(t *testing.T, what string, cond func() bool) {
	t.Helper()
	late := false
	stop := time.AfterFunc(testPatience, func() { r.locked(func() { late = true }) })
	defer stop.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !cond() {
		if late {
			t.Fatalf("waited in vain for %s; log:\n%s", what, &r.log)
		}
		r.changed.Wait()
	}
}

// poll waits until cond is true, of things that tell nobody when they change.
func poll(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(testPatience)
	for !cond() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (r *recorder) synced(kinds ...Kind) func() bool {
	return func() bool {
		for _, k := range kinds {
			if r.replaced[k] == 0 {
				return false
			}
		}
		return true
	}
}

func (r *recorder) said(text string) func() bool {
	return func() bool { return strings.Contains(r.log.String(), text) }
}

func (r *recorder) has(k Kind, name string) func() bool {
	return func() bool { return r.objects[k][name] != nil }
}

func (r *recorder) hasNot(k Kind, name string) func() bool {
	return func() bool { return r.objects[k][name] == nil }
}

// TestDefaultPace: with the times that are not a test's, a connection that has gone silent is noticed within 30 s, and
// a restored backup within a minute.
func TestDefaultPace(t *testing.T) {
	t.Parallel()
	p := defaultPace()
	if silent := p.idle + p.ping; silent >= 30*time.Second {
		t.Errorf("a connection of HTTP/2 may be silent for %s", silent)
	}
	check := p.check + p.checkTimeout
	if check >= 30*time.Second {
		t.Errorf("one of HTTP/1.1 may be silent for %s", check)
	}
	if back := check + p.backoff.Cap*time.Duration(1+p.backoff.Jitter); back >= time.Minute {
		t.Errorf("a restored backup is seen after %s", back)
	}
}

// quick is a pace for tests.
func quick() pace {
	p := defaultPace()
	p.backoff.Duration, p.backoff.Cap = 10*time.Millisecond, 50*time.Millisecond
	p.check, p.checkTimeout = 50*time.Millisecond, 2*time.Second
	p.idle, p.ping = 100*time.Millisecond, 200*time.Millisecond
	return p
}

// running is a source at work.
type running struct {
	*recorder
	metrics *prometheus.Registry
	stop    func() error // ends it and gives what Run gave
}

func runSource(t *testing.T, o Options, p pace) *running {
	t.Helper()
	r := &running{recorder: newRecorder(), metrics: prometheus.NewRegistry()}
	log := slog.New(slog.NewTextHandler(r, nil))
	a := NewAPIServer(o, NewSourceMetrics(r.metrics), log)
	a.pace = p
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, r) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(testPatience):
			buf := make([]byte, 1<<20)
			return fmt.Errorf("still running:\n%s", buf[:runtime.Stack(buf, true)])
		}
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func namespace(name string, labels ...string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelled(labels)}}
}

func labelled(l []string) map[string]string {
	m := map[string]string{}
	for _, kv := range l {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	return m
}

func service(ns, name, ip string, labels ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labelled(labels)},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Selector: map[string]string{"app": name}},
	}
}

func slice(ns, svc, name string, addrs ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: svc}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, a := range addrs {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

func pod(ns, name, ip string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}}
}

func small() []kruntime.Object {
	return []kruntime.Object{
		namespace("default"), namespace("prod", "env=prod"),
		service("default", "web", "10.96.0.20", "tier=front"), service("prod", "db", corev1.ClusterIPNone),
		slice("default", "web", "web-1", "10.244.0.1", "10.244.0.2"), slice("prod", "db", "db-1", "10.244.0.3"),
		pod("default", "web-0", "10.244.0.1"),
	}
}

var usual = []Kind{KindNamespace, KindService, KindEndpointSlice}

func defaults(kubeconfig string) Options {
	return Options{KubeconfigFile: kubeconfig, Endpoints: true}
}

func TestAPIServerReadsAndFollows(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*kubetest.Server){
		"streamed list": func(*kubetest.Server) {},
		"plain list":    func(s *kubetest.Server) { s.NoStreaming(0) },
		"paged list":    func(s *kubetest.Server) { s.NoStreaming(1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kubetest.Start(t, small()...)
			prepare(s)
			o := defaults(s.Kubeconfig("", kubetest.Token))
			o.Pods = PodsVerified
			r := runSource(t, o, quick())
			r.wait(t, "sync", r.synced(KindNamespace, KindService, KindEndpointSlice, KindPod))
			r.wait(t, "first objects", func() bool {
				return len(r.objects[KindNamespace]) == 2 && len(r.objects[KindService]) == 2 && len(r.objects[KindEndpointSlice]) == 2 && len(r.objects[KindPod]) == 1
			})
			r.wait(t, "the line that says so", r.said("the cluster is read"))

			s.Put(service("default", "new", "10.96.0.21"))
			r.wait(t, "a new Service", r.has(KindService, "default/new"))
			s.Put(slice("default", "web", "web-1", "10.244.0.9"))
			r.wait(t, "a changed slice", func() bool {
				e := r.objects[KindEndpointSlice]["default/web-1"].(*EndpointSlice)
				return len(e.Endpoints) == 1 && e.Endpoints[0].Addr.String() == "10.244.0.9"
			})
			ended := pod("default", "web-0", "10.244.0.1")
			ended.Status.Phase = corev1.PodSucceeded
			s.Put(ended)
			r.wait(t, "an ended Pod to go", r.hasNot(KindPod, "default/web-0"))
			s.Delete(service("prod", "db", corev1.ClusterIPNone))
			r.wait(t, "a deleted Service to go", r.hasNot(KindService, "prod/db"))
			r.locked(func() {
				if strings.Contains(r.log.String(), "level=WARN") {
					t.Errorf("nothing went wrong, but the log says:\n%s", &r.log)
				}
			})
		})
	}
}

func TestAPIServerReadsOnlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	o := defaults(s.Kubeconfig("", kubetest.Token))
	o.Endpoints = false
	r := runSource(t, o, quick())
	r.wait(t, "sync", r.synced(KindNamespace, KindService))
	r.wait(t, "the line that says so", r.said("the cluster is read"))
	if n := s.Count("stream endpointslices") + s.Count("stream pods") + s.Count("list endpointslices"); n > 0 {
		t.Errorf("%d requests for kinds that are not needed", n)
	}
}

func TestAPIServerSelects(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	file := s.Kubeconfig("", kubetest.Token)
	for name, tt := range map[string]struct {
		set  func(*Options)
		want string
	}{
		"labels":           {func(o *Options) { o.Labels = "tier=front" }, "/default /prod default/web"},
		"namespace_labels": {func(o *Options) { o.NamespaceLabels = "env=prod" }, "/prod default/web prod/db"},
		"one namespace":    {func(o *Options) { o.Namespaces = []string{"prod"} }, "/prod prod/db"},
		"two namespaces":   {func(o *Options) { o.Namespaces = []string{"prod", "default"} }, "/default /prod default/web prod/db"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := defaults(file)
			o.Endpoints = false
			tt.set(&o)
			r := runSource(t, o, quick())
			r.wait(t, "sync", r.synced(KindNamespace, KindService))
			r.mu.Lock()
			defer r.mu.Unlock()
			var got []string
			for _, k := range []Kind{KindNamespace, KindService} {
				for _, n := range []string{"/default", "/prod", "default/web", "prod/db"} {
					if r.objects[k][n] != nil {
						got = append(got, n)
					}
				}
			}
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("got %q, want %q", g, tt.want)
			}
		})
	}
}

// A list that comes after events were lost is given to the sink as a whole, which applies it as a difference; there are no
// single deletions before it.
func TestAPIServerRelistsAfterGone(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	p := kubetest.StartProxy(t, s.Addr())
	pc := quick()
	pc.check = time.Hour
	r := runSource(t, defaults(s.Kubeconfig(p.Addr(), kubetest.Token)), pc)
	r.wait(t, "sync", r.synced(usual...))
	r.wait(t, "the line that says so", r.said("the cluster is read"))

	p.Freeze()
	s.Delete(service("prod", "db", corev1.ClusterIPNone))
	s.Put(service("default", "late", "10.96.0.30"))
	s.Compact()
	s.EndWatches()
	p.Cut()
	p.Thaw()
	r.wait(t, "the new list", r.has(KindService, "default/late"))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects[KindService]["prod/db"] != nil || r.deleted != 0 || r.replaced[KindService] < 2 {
		t.Errorf("deleted one by one: %d, lists: %d, objects: %v", r.deleted, r.replaced[KindService], r.objects[KindService])
	}
}

func TestAPIServerRefused(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	for name, tt := range map[string]struct {
		token string
		fail  int
		want  []string
	}{
		"credentials": {"wrong", 0, []string{"does not accept the credentials of kubeconfig ", "renew its token or client certificate"}},
		"permission":  {kubetest.Token, http.StatusForbidden, []string{"not allowed to read services", "verbs list and watch"}},
		"failure":     {kubetest.Token, http.StatusInternalServerError, []string{"the API server fails"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s
			if tt.fail != 0 {
				s = kubetest.Start(t, small()...)
				s.Fail(tt.fail)
			}
			r := runSource(t, defaults(s.Kubeconfig("", tt.token)), quick())
			for _, w := range tt.want {
				r.wait(t, w, r.said(w))
			}
			r.wait(t, "what becomes of queries", r.said("SERVFAIL until it can be read"))
			if tt.fail == 0 {
				return
			}
			s.Fail(0)
			r.wait(t, "sync", r.synced(usual...))
			r.wait(t, "recovery", r.said("can be read again"))
		})
	}
}

func TestAPIServerUnreachableAtStart(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	r := runSource(t, defaults(s.Kubeconfig(addr, kubetest.Token)), quick())
	r.wait(t, "the line that says so", r.said("cannot be reached"))
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.replaced); n > 0 {
		t.Errorf("%d kinds synced", n)
	}
}

// An outage is two lines of the log, and takes nothing away.
func TestAPIServerOutage(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	r := runSource(t, defaults(s.Kubeconfig("", kubetest.Token)), quick())
	r.wait(t, "sync", r.synced(usual...))
	r.wait(t, "the line that says so", r.said("the cluster is read"))
	s.Fail(http.StatusServiceUnavailable)
	r.wait(t, "the loss to be noticed", r.said("the API server fails"))
	tried := s.Count("list services") + s.Count("stream services") + s.Count("watch services")
	poll(t, "a few more attempts", func() bool {
		return s.Count("list services")+s.Count("stream services")+s.Count("watch services") >= tried+6
	})
	s.Put(service("default", "meanwhile", "10.96.0.40"))
	s.Fail(0)
	r.wait(t, "recovery", r.said("can be read again"))
	r.wait(t, "what changed meanwhile", r.has(KindService, "default/meanwhile"))
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := strings.Count(r.log.String(), "level=WARN"); n != 1 || r.deleted > 0 {
		t.Errorf("%d warnings, %d deletions; log:\n%s", n, r.deleted, &r.log)
	}
}

// A connection that has gone silent is found out although nothing closes it.
func TestAPIServerBlackHole(t *testing.T) {
	t.Parallel()
	for name, tls := range map[string]bool{"HTTP/2": true, "HTTP/1.1": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kubetest.Start(t, small()...)
			pc := quick()
			var p *kubetest.Proxy
			var o Options
			if tls {
				pc.check = time.Hour // so that it is the ping that notices
				p = kubetest.StartProxy(t, s.Addr())
				o = defaults(s.Kubeconfig(p.Addr(), kubetest.Token))
			} else {
				pc.checkTimeout = 200 * time.Millisecond
				p = kubetest.StartProxy(t, plain(t, s))
				o = Options{Endpoint: "http://" + p.Addr(), Endpoints: true}
			}
			r := runSource(t, o, pc)
			r.wait(t, "sync", r.synced(usual...))
			r.wait(t, "the line that says so", r.said("the cluster is read"))
			before := p.Accepted()
			p.Freeze()
			s.Put(service("default", "behind", "10.96.0.50"))
			poll(t, "another connection", func() bool { return p.Accepted() > before })
			p.Thaw()
			r.wait(t, "the lost change", r.has(KindService, "default/behind"))
		})
	}
}

// Where not even connections can be opened, client-go shows a watch as opened and over, for ever.
func TestAPIServerSilentOutage(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	p := kubetest.StartProxy(t, s.Addr())
	pc := quick()
	pc.check = time.Hour
	open := pc.dial
	var hole atomic.Bool
	pc.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !hole.Load() {
			return open(ctx, network, address)
		}
		// client-go takes a watch of less than a second for one that failed.
		ctx, cancel := context.WithTimeout(ctx, 1200*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		return nil, os.ErrDeadlineExceeded
	}
	r := runSource(t, defaults(s.Kubeconfig(p.Addr(), kubetest.Token)), pc)
	r.wait(t, "sync", r.synced(usual...))
	r.wait(t, "the line that says so", r.said("the cluster is read"))
	hole.Store(true)
	p.Cut()
	r.wait(t, "the outage to be noticed", r.said("the API server cannot be reached"))
	s.Put(service("default", "meanwhile", "10.96.0.51"))
	hole.Store(false)
	r.wait(t, "recovery", r.said("can be read again"))
	r.wait(t, "what changed meanwhile", r.has(KindService, "default/meanwhile"))
}

// plain serves s without TLS and without asking for credentials.
func plain(t *testing.T, s *kubetest.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+kubetest.Token)
		s.ServeHTTP(w, r)
	}), ReadHeaderTimeout: testPatience}
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.Serve(ln) })
	t.Cleanup(func() { _ = h.Close(); s.EndWatches(); wg.Wait() })
	return ln.Addr().String()
}

// While the API server takes its time over a list that is streamed, what we have is as old as the watch before, however quickly it answers checks.
func TestAPIServerListIsNotCurrentBeforeItsEnd(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	var slow atomic.Bool
	var waiting atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+kubetest.Token)
		q := r.URL.Query()
		switch {
		case !slow.Load() || q.Get("watch") == "":
			s.ServeHTTP(w, r)
		case q.Get("sendInitialEvents") == "":
			http.Error(w, "busy", http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			waiting.Add(1)
			<-r.Context().Done()
		}
	}))
	t.Cleanup(h.Close)
	o := defaults("")
	o.Endpoint = h.URL
	r := runSource(t, o, quick())
	r.wait(t, "the line that says so", r.said("the cluster is read"))
	slow.Store(true)
	s.EndWatches()
	poll(t, "the lists to begin", func() bool { return int(waiting.Load()) >= len(usual) })
	poll(t, "the data to be of age", func() bool { return ageOf(t, r.metrics) > 1 })
}

// ageOf is the age of the data that the metric shows, in seconds.
func ageOf(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == "clusterdns_kubernetes_data_age_seconds" {
			return m.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}

// A control plane that was put back to a backup never says so: its versions begin again lower, and the watch waits for higher ones.
func TestAPIServerGoesBackInTime(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	r := runSource(t, defaults(s.Kubeconfig("", kubetest.Token)), quick())
	r.wait(t, "sync", r.synced(usual...))
	backup := s.Snapshot()
	s.Put(service("default", "lost", "10.96.0.60"))
	for i := range 5 {
		s.Put(service("default", "web", fmt.Sprintf("10.96.1.%d", i)))
	}
	r.wait(t, "the last change", func() bool {
		return r.objects[KindService]["default/web"].(*Service).ClusterIPs[0].String() == "10.96.1.4"
	})
	s.Restore(backup)
	r.wait(t, "the line that says so", r.said("gone back in time"))
	r.wait(t, "the lost Service to go", r.hasNot(KindService, "default/lost"))
	s.Put(service("default", "after", "10.96.0.61"))
	r.wait(t, "a change that comes after", r.has(KindService, "default/after"))
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := r.objects[KindService]["default/web"].(*Service).ClusterIPs[0].String(); got != "10.96.0.20" {
		t.Errorf("web is at %s, as before the restoring", got)
	}
}

// The same behind an outage, where the list that ends it is the first that is seen of it.
func TestAPIServerGoesBackInTimeMeanwhile(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	pc := quick()
	pc.check = time.Hour
	r := runSource(t, defaults(s.Kubeconfig("", kubetest.Token)), pc)
	r.wait(t, "sync", r.synced(usual...))
	backup := s.Snapshot()
	s.Put(service("default", "lost", "10.96.0.60"))
	r.wait(t, "the change that will be lost", r.has(KindService, "default/lost"))
	s.Fail(http.StatusServiceUnavailable)
	r.wait(t, "the outage to be noticed", r.said("the API server fails"))
	s.Restore(backup)
	s.Fail(0)
	r.wait(t, "the lost Service to go", r.hasNot(KindService, "default/lost"))
	r.wait(t, "the line that says so", r.said("gone back in time"))
}

func TestAPIServerConfigErrors(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	good := s.Kubeconfig("", kubetest.Token)
	file := func(text string) string {
		t.Helper()
		f := filepath.Join(t.TempDir(), "bad.yaml")
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	bad := file("clusters: {{")
	for name, tt := range map[string]struct {
		o    Options
		want []string
	}{
		"malformed kubeconfig": {Options{KubeconfigFile: bad}, []string{bad}},
		"no kubeconfig":        {Options{KubeconfigFile: bad + ".not"}, []string{bad + ".not", "no such file"}},
		"no such context":      {Options{KubeconfigFile: good, Context: "other"}, []string{good, `no context "other"; known are test`}},
		"text as kubeconfig":   {Options{KubeconfigFile: file("127.0.0.1 localhost")}, []string{"it is not a kubeconfig"}},
		"other object":         {Options{KubeconfigFile: file("apiVersion: v1\nkind: Service")}, []string{"it is not a kubeconfig"}},
		"no contexts":          {Options{KubeconfigFile: file("{}")}, []string{"it has no contexts"}},
		"no current context":   {Options{KubeconfigFile: file("contexts: [{name: b}, {name: a}]")}, []string{"no current-context: set one", "known are a, b"}},
		"no certificate":       {Options{Endpoint: "https://127.0.0.1:1", TLSCert: bad + ".crt", TLSKey: bad, TLSCA: bad}, []string{"endpoint https://127.0.0.1:1", bad}},
		"not in a cluster":     {Options{}, []string{"not in a cluster", "kubeconfig or endpoint"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := NewAPIServer(tt.o, NewSourceMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)).Run(t.Context(), newRecorder())
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

// The programming latency is of changes, not of what was there at the start, and of each change once.
func TestAPIServerProgrammingLatency(t *testing.T) {
	t.Parallel()
	at := func(e *discoveryv1.EndpointSlice, began time.Time) *discoveryv1.EndpointSlice {
		e.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: began.Format(time.RFC3339Nano)}
		return e
	}
	began := time.Now().Add(-time.Second)
	manual := service("prod", "manual", corev1.ClusterIPNone)
	manual.Spec.Selector = nil
	s := kubetest.Start(t, namespace("prod"), service("prod", "vip", "10.96.0.70"), service("prod", "headless", corev1.ClusterIPNone), manual,
		at(slice("prod", "vip", "vip-1", "10.244.0.1"), began))
	r := runSource(t, defaults(s.Kubeconfig("", kubetest.Token)), quick())
	r.wait(t, "sync", r.synced(usual...))

	s.Put(at(slice("prod", "vip", "vip-1", "10.244.0.2"), began.Add(time.Millisecond)))
	relabelled := at(slice("prod", "vip", "vip-1", "10.244.0.2"), began.Add(time.Millisecond))
	relabelled.Labels["other"] = "label"
	s.Put(relabelled)
	s.Put(at(slice("prod", "headless", "headless-1", "10.244.0.3"), began))
	s.Put(at(slice("prod", "headless", "headless-2", "10.244.0.4"), began))
	s.Put(at(slice("prod", "manual", "manual-1", "10.244.0.5"), began))
	s.Put(slice("prod", "manual", "manual-2", "10.244.0.6"))
	r.wait(t, "the last slice", r.has(KindEndpointSlice, "prod/manual-2"))

	got := map[string]uint64{}
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "coredns_kubernetes_dns_programming_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			if n := len(m.GetHistogram().GetBucket()); n != 20 {
				t.Errorf("%d buckets", n)
			}
		}
	}
	for kind, want := range map[string]uint64{"cluster_ip": 1, "headless_with_selector": 2, "headless_without_selector": 1} {
		if got[kind] != want {
			t.Errorf("%s: %d observations, want %d", kind, got[kind], want)
		}
	}
	if n, err := testutil.GatherAndCount(r.metrics, "clusterdns_kubernetes_data_age_seconds"); n != 1 || err != nil {
		t.Errorf("%d ages, %v", n, err)
	}
}

// clientMetrics is where client-go's metrics go, which it takes once in a process, and before its first request.
var clientMetrics = prometheus.NewRegistry()

func TestMain(m *testing.M) {
	RegisterClientMetrics(clientMetrics)
	os.Exit(m.Run())
}

func TestAPIServerClientMetrics(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t, small()...)
	r := runSource(t, defaults(s.Kubeconfig("", kubetest.Token)), quick())
	r.wait(t, "sync", r.synced(usual...))
	s.NoStreaming(0)
	s.Compact()
	s.Fail(http.StatusForbidden)
	r.wait(t, "a failure", r.said("not allowed"))
	for _, name := range []string{"requests_total", "request_duration_seconds", "rate_limiter_duration_seconds"} {
		poll(t, name, func() bool {
			n, err := testutil.GatherAndCount(clientMetrics, "coredns_kubernetes_rest_client_"+name)
			return n > 0 && err == nil
		})
	}
}

// Nothing is left running, whatever the API server does.
func TestAPIServerEnds(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *kubetest.Server) Options{
		"following": func(_ *testing.T, s *kubetest.Server) Options { return defaults(s.Kubeconfig("", kubetest.Token)) },
		"refused":   func(_ *testing.T, s *kubetest.Server) Options { return defaults(s.Kubeconfig("", "wrong")) },
		"silent": func(t *testing.T, s *kubetest.Server) Options {
			p := kubetest.StartProxy(t, s.Addr())
			p.Freeze()
			return defaults(s.Kubeconfig(p.Addr(), kubetest.Token))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.Start(t, small()...)
			r := runSource(t, prepare(t, s), quick())
			switch name {
			case "following":
				r.wait(t, "sync", r.synced(usual...))
			case "refused":
				r.wait(t, "refusal", r.said("does not accept"))
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			poll(t, "the last reflector to end", func() bool {
				buf := make([]byte, 1<<20)
				return !strings.Contains(string(buf[:runtime.Stack(buf, true)]), "cache.(*Reflector)")
			})
		})
	}
}
