package kubernetes

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// resource is how the API names a kind.
type resource struct {
	gv      schema.GroupVersion
	name    string
	example kruntime.Object
	list    func() kruntime.Object
	// page is how many objects of a plain list come at once: with the objects' usual sizes about 1 MiB.
	page int64
}

func resourceOf(k Kind) resource {
	switch k {
	case KindNamespace:
		return resource{corev1.SchemeGroupVersion, "namespaces", &corev1.Namespace{}, func() kruntime.Object { return &corev1.NamespaceList{} }, 1000}
	case KindService:
		return resource{corev1.SchemeGroupVersion, "services", &corev1.Service{}, func() kruntime.Object { return &corev1.ServiceList{} }, 500}
	case KindEndpointSlice:
		return resource{discoveryv1.SchemeGroupVersion, "endpointslices", &discoveryv1.EndpointSlice{}, func() kruntime.Object { return &discoveryv1.EndpointSliceList{} }, 200}
	}
	return resource{corev1.SchemeGroupVersion, "pods", &corev1.Pod{}, func() kruntime.Object { return &corev1.PodList{} }, 200}
}

// feed keeps the objects of one kind in the sink.
type feed struct {
	kind      Kind
	res       resource
	client    *rest.RESTClient
	namespace string // the only one, or "" for all
	labels    string
	fields    string
	session   *session
	store     *store

	synced    atomic.Bool
	confirmed atomic.Int64           // when it was last known that the sink is right, in Unix nanoseconds
	version   atomic.Pointer[string] // resource version that the sink shows, or nil
	watching  atomic.Bool            // a watch is open
	listing   atomic.Bool            // it begins with a list, which is not whole yet
	opened    atomic.Bool            // a watch was opened before

	mu      sync.Mutex
	current *tracked           // the watch that is open, or nil
	restart context.CancelFunc // ends the reflector; another begins from nothing
}

// newFeed is a feed of one kind. Without a session and a sink, which are nil then, it can only make requests.
func newFeed(k Kind, o *Options, c *connection, s *session, to Sink, m *SourceMetrics) *feed {
	f := &feed{kind: k, res: resourceOf(k), session: s}
	f.client = c.groups[f.res.gv]
	f.store = &store{feed: f, sink: to, metrics: m, names: o.EndpointPodNames, zones: o.Zonal}
	f.store.services, _ = to.(serviceIndex)
	if len(o.Namespaces) == 1 && k != KindNamespace {
		f.namespace = o.Namespaces[0]
	}
	switch k {
	case KindNamespace:
		f.labels = o.NamespaceLabels
		if len(o.Namespaces) == 1 {
			f.fields = "metadata.name=" + o.Namespaces[0]
		}
	case KindPod:
		f.labels, f.fields = o.Labels, PodFieldSelector
	default:
		f.labels = o.Labels
	}
	return f
}

// run reads and follows until ctx ends. Each turn of the loop reads everything anew.
func (f *feed) run(ctx context.Context) {
	for ctx.Err() == nil {
		turn, cancel := context.WithCancel(ctx)
		f.mu.Lock()
		f.restart = cancel
		f.mu.Unlock()
		f.version.Store(nil)
		backoff := f.session.pace.backoff
		r := cache.NewReflectorWithOptions(f.listWatch(turn), f.res.example, f.store, cache.ReflectorOptions{
			Name:    f.res.name,
			Clock:   turnClock{ctx: turn},
			Backoff: &backoff,
		})
		r.RunWithContext(turn)
		cancel()
	}
}

// turnClock lets the reflector wait no longer than its context: client-go's back-off in the first list does not look at it.
type turnClock struct {
	clock.RealClock
	ctx context.Context
}

// After is clock.Clock's.
func (c turnClock) After(d time.Duration) <-chan time.Time {
	out := make(chan time.Time, 2)
	stop := context.AfterFunc(c.ctx, func() { out <- time.Now() })
	time.AfterFunc(d, func() {
		stop()
		out <- time.Now()
	})
	return out
}

// relist drops the reflector and begins a new one, which reads the present state whatever its resource version.
func (f *feed) relist() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version.Store(nil)
	if f.restart != nil {
		f.restart()
	}
}

// reconnect ends the watch; the reflector opens another where it ended.
func (f *feed) reconnect() {
	f.mu.Lock()
	w := f.current
	f.mu.Unlock()
	if w != nil {
		w.Stop()
	}
}

// listWatch is how the reflector reaches the API server. ctx ends all that is under way: the reflector itself lists without one.
func (f *feed) listWatch(ctx context.Context) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (kruntime.Object, error) {
			l, err := f.list(ctx, o)
			f.outcome(err)
			return l, err
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return f.watch(ctx, o)
		},
	}
}

func (f *feed) outcome(err error) {
	if err != nil {
		f.session.status.failed(f, err)
	}
}

func (f *feed) request(o *metav1.ListOptions) *rest.Request {
	return f.client.Get().NamespaceIfScoped(f.namespace, f.namespace != "").Resource(f.res.name).
		VersionedParams(o, metav1.ParameterCodec).MaxRetries(0) // the reflector tries again; twice would only delay the news
}

func (f *feed) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch, o.LabelSelector, o.FieldSelector = true, f.labels, f.fields
	var noted failure
	w, err := f.request(&o).Watch(context.WithValue(ctx, failureKey{}, &noted))
	if err == nil {
		err = noted.err
	}
	if err != nil {
		f.outcome(err)
		return nil, err
	}
	t := &tracked{Interface: w, feed: f}
	f.mu.Lock()
	f.current = t
	f.mu.Unlock()
	f.listing.Store(o.SendInitialEvents != nil)
	f.watching.Store(true)
	if o.SendInitialEvents == nil {
		f.session.status.ok(f)
	}
	if f.opened.Swap(true) {
		notify(f.session.reconnected)
	}
	return t, nil
}

// tracked is a watch that says when it ends.
type tracked struct {
	watch.Interface
	feed *feed
}

// Stop is watch.Interface's.
func (t *tracked) Stop() {
	t.feed.ended(t)
	t.Interface.Stop()
}

func (f *feed) ended(t *tracked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == t {
		f.current = nil
		f.watching.Store(false)
	}
}

// list reads the present state in pages, each of which is reduced before the next one is read: that is what keeps a large cluster from
// being in memory twice. It serves API servers that do not stream lists.
func (f *feed) list(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) {
	// The present state is never older than what the reflector asks for.
	o = metav1.ListOptions{Limit: f.res.page, LabelSelector: f.labels, FieldSelector: f.fields}
	out := &reducedList{}
	for {
		page := f.res.list()
		if err := f.request(&o).Do(ctx).Into(page); err != nil {
			return nil, err
		}
		next, err := f.store.add(out, page)
		if err != nil {
			return nil, fmt.Errorf("list of %s: %w", f.res.name, err)
		}
		if next == "" {
			return out, nil
		}
		o.Continue = next
	}
}
