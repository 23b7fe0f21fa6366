// Package kubetest is an API server for tests: as much of one as a client needs that lists and watches Namespaces, Services,
// EndpointSlices and Pods, in protobuf or JSON, streamed lists included, with the ways in which a real one fails.
package kubetest

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
)

// Token is the bearer token that the server takes.
const Token = "right"

// Server is an API server. Its methods may be called at any time.
type Server struct {
	URL string // https://127.0.0.1:port

	tb     testing.TB
	http   *httptest.Server
	codecs serializer.CodecFactory

	mu        sync.Mutex
	changed   *sync.Cond // something below has changed
	version   int64      // of the last change
	compacted int64      // changes up to this one are forgotten
	objects   map[string]map[string]runtime.Object
	events    map[string][]event
	streaming bool                        // lists can be streamed
	fail      int                         // HTTP status of all replies, or 0
	epoch     int                         // grows when all watches are to end
	count     map[string]int              // requests by verb and resource
	page      int                         // most objects of a list, whatever is asked for; 0 for no bound
	rest      map[string][]runtime.Object // what is left of lists in pages, by token
	tokens    int                         // that were given out
}

// event is one change of an object.
type event struct {
	version  int64
	kind     watch.EventType
	old, now runtime.Object // nil where there is none
}

// kinds are the resources served and the lists they come in.
var kinds = map[string]struct {
	gv   schema.GroupVersion
	list func() runtime.Object
}{
	"namespaces":     {corev1.SchemeGroupVersion, func() runtime.Object { return &corev1.NamespaceList{} }},
	"services":       {corev1.SchemeGroupVersion, func() runtime.Object { return &corev1.ServiceList{} }},
	"pods":           {corev1.SchemeGroupVersion, func() runtime.Object { return &corev1.PodList{} }},
	"endpointslices": {discoveryv1.SchemeGroupVersion, func() runtime.Object { return &discoveryv1.EndpointSliceList{} }},
}

// Start starts a server that holds some objects. It ends with the test.
func Start(tb testing.TB, objects ...runtime.Object) *Server {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	s := &Server{tb: tb, codecs: serializer.NewCodecFactory(scheme), version: 100, streaming: true,
		objects: map[string]map[string]runtime.Object{}, events: map[string][]event{}, rest: map[string][]runtime.Object{}, count: map[string]int{}}
	s.changed = sync.NewCond(&s.mu)
	for _, o := range objects {
		s.Put(o)
	}
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	s.URL = s.http.URL
	tb.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	s.EndWatches()
	s.http.CloseClientConnections()
	s.http.Close()
}

// Addr is the server's host and port.
func (s *Server) Addr() string { return s.http.Listener.Addr().String() }

// Kubeconfig writes a kubeconfig for the server behind addr, which is the server itself when it is "", with a bearer token.
func (s *Server) Kubeconfig(addr, token string) string {
	s.tb.Helper()
	if addr == "" {
		addr = s.Addr()
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	file := filepath.Join(s.tb.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority-data: %s, tls-server-name: example.com}}]
users: [{name: test, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, addr, base64.StdEncoding.EncodeToString(ca), token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	return file
}

// TLS is the server's certificate, for a stand-in.
func (s *Server) TLS() tls.Certificate { return s.http.TLS.Certificates[0] }

func resourceOf(o runtime.Object) string {
	switch o.(type) {
	case *corev1.Namespace:
		return "namespaces"
	case *corev1.Service:
		return "services"
	case *corev1.Pod:
		return "pods"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	}
	panic(fmt.Sprintf("kubetest: no resource for %T", o))
}

func keyOf(o runtime.Object) string {
	m, err := meta.Accessor(o)
	if err != nil {
		panic(err)
	}
	return m.GetNamespace() + "/" + m.GetName()
}

// Put creates or updates an object, and gives its resource version.
func (s *Server) Put(o runtime.Object) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o = o.DeepCopyObject()
	m, _ := meta.Accessor(o)
	m.SetResourceVersion(strconv.FormatInt(s.version, 10))
	r, key := resourceOf(o), keyOf(o)
	if s.objects[r] == nil {
		s.objects[r] = map[string]runtime.Object{}
	}
	e := event{version: s.version, kind: watch.Added, old: s.objects[r][key], now: o}
	if e.old != nil {
		e.kind = watch.Modified
	}
	s.objects[r][key] = o
	s.events[r] = append(s.events[r], e)
	s.changed.Broadcast()
	return s.version
}

// Delete removes an object.
func (s *Server) Delete(o runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, key := resourceOf(o), keyOf(o)
	old := s.objects[r][key]
	if old == nil {
		return
	}
	s.version++
	delete(s.objects[r], key)
	s.events[r] = append(s.events[r], event{version: s.version, kind: watch.Deleted, old: old})
	s.changed.Broadcast()
}

// Compact forgets all changes so far: who was not told is told 410 when it asks.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.version
	clear(s.events)
}

// Snapshot is a backup of a Server.
type Snapshot struct {
	version int64
	objects map[string]map[string]runtime.Object
}

// Snapshot takes a backup.
func (s *Server) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{s.version, copyOf(s.objects)}
}

// Restore puts the server back to a backup. Clients are not told, and their watches go on: they wait for versions to come.
func (s *Server) Restore(b Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.compacted, s.objects = b.version, 0, copyOf(b.objects)
	clear(s.events)
}

func copyOf(in map[string]map[string]runtime.Object) map[string]map[string]runtime.Object {
	out := map[string]map[string]runtime.Object{}
	for r, all := range in {
		out[r] = map[string]runtime.Object{}
		for k, o := range all {
			out[r][k] = o
		}
	}
	return out
}

// EndWatches ends all watches, as an API server does from time to time.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.changed.Broadcast()
}

// Fail makes every reply one of an HTTP status, and ends all watches; 0 ends that.
func (s *Server) Fail(status int) {
	s.mu.Lock()
	s.fail = status
	s.mu.Unlock()
	s.EndWatches()
}

// NoStreaming makes the server one that cannot stream lists, and gives at most page objects at once.
func (s *Server) NoStreaming(page int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streaming, s.page = false, page
}

// Count is the number of requests so far, such as "list services", "stream pods" or "watch namespaces".
func (s *Server) Count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[what]
}

// ServeHTTP is http.Handler's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r) }
