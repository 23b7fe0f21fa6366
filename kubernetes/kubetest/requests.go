package kubetest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// request is one request, understood.
type request struct {
	s         *Server
	w         http.ResponseWriter
	resource  string
	namespace string
	media     string
	partial   bool // wanted as PartialObjectMetadata
	labels    labels.Selector
	fields    fields.Selector
	query     map[string][]string
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	q, ok := s.parse(w, r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	fail := s.fail
	s.count[q.verb()+" "+q.resource]++
	s.mu.Unlock()
	switch {
	case fail != 0:
		q.status(apierrors.NewGenericServerResponse(fail, "get", schema.GroupResource{Resource: q.resource}, "", "failing as told", 0, true))
	case r.Header.Get("Authorization") != "Bearer "+Token:
		q.status(apierrors.NewUnauthorized("no such token"))
	case q.get("watch") == "true" || q.get("watch") == "1":
		q.watch(r.Context())
	default:
		q.list()
	}
}

func (s *Server) parse(w http.ResponseWriter, r *http.Request) (*request, bool) {
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v1/")
	if !ok {
		path, ok = strings.CutPrefix(r.URL.Path, "/apis/discovery.k8s.io/v1/")
	}
	q := &request{s: s, w: w, resource: path, query: r.URL.Query(), media: runtime.ContentTypeJSON}
	if rest, scoped := strings.CutPrefix(path, "namespaces/"); scoped {
		q.namespace, q.resource, ok = strings.Cut(rest, "/")
	}
	accept := r.Header.Get("Accept")
	if strings.HasPrefix(accept, runtime.ContentTypeProtobuf) {
		q.media = runtime.ContentTypeProtobuf
	}
	q.partial = strings.Contains(accept, "as=PartialObjectMetadataList")
	var err, ferr error
	q.labels, err = labels.Parse(q.get("labelSelector"))
	q.fields, ferr = fields.ParseSelector(q.get("fieldSelector"))
	_, known := kinds[q.resource]
	return q, ok && known && err == nil && ferr == nil
}

func (q *request) get(name string) string {
	if v := q.query[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (q *request) verb() string {
	switch {
	case q.get("sendInitialEvents") == "true":
		return "stream"
	case q.get("watch") != "":
		return "watch"
	case q.partial:
		return "check"
	}
	return "list"
}

// encode gives an object in the wanted form, as replies and events carry it.
func (q *request) encode(o runtime.Object, gv schema.GroupVersion) []byte {
	info, _ := runtime.SerializerInfoForMediaType(q.s.codecs.SupportedMediaTypes(), q.media)
	b, err := runtime.Encode(q.s.codecs.EncoderForVersion(info.Serializer, gv), o)
	if err != nil {
		panic(err)
	}
	return b
}

func (q *request) reply(code int, o runtime.Object, gv schema.GroupVersion) {
	q.w.Header().Set("Content-Type", q.media)
	q.w.WriteHeader(code)
	_, _ = q.w.Write(q.encode(o, gv)) // a client that has gone needs no answer
}

func (q *request) status(err *apierrors.StatusError) {
	st := err.Status()
	q.reply(int(st.Code), &st, corev1.SchemeGroupVersion)
}

// matches says whether o falls under the request; nil does not.
func (q *request) matches(o runtime.Object) bool {
	if o == nil {
		return false
	}
	m, _ := meta.Accessor(o)
	set := fields.Set{"metadata.name": m.GetName(), "metadata.namespace": m.GetNamespace()}
	if p, ok := o.(*corev1.Pod); ok {
		set["status.phase"] = string(p.Status.Phase)
	}
	return (q.namespace == "" || m.GetNamespace() == q.namespace) && q.labels.Matches(labels.Set(m.GetLabels())) && q.fields.Matches(set)
}

// present are the objects that match, in the order of their keys. The server is locked.
func (q *request) present() []runtime.Object {
	all := q.s.objects[q.resource]
	keys := make([]string, 0, len(all))
	for k, o := range all {
		if q.matches(o) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	out := make([]runtime.Object, len(keys))
	for i, k := range keys {
		out[i] = all[k]
	}
	return out
}

func (q *request) list() {
	items, version, next := q.pageOf()
	lm := metav1.ListMeta{ResourceVersion: strconv.FormatInt(version, 10), Continue: next}
	if q.partial {
		l := &metav1.PartialObjectMetadataList{ListMeta: lm}
		for _, o := range items {
			m, _ := meta.Accessor(o)
			l.Items = append(l.Items, *meta.AsPartialObjectMetadata(m))
		}
		q.reply(http.StatusOK, l, metav1.SchemeGroupVersion)
		return
	}
	l := kinds[q.resource].list()
	if err := meta.SetList(l, items); err != nil {
		panic(err)
	}
	m, _ := meta.ListAccessor(l)
	m.SetResourceVersion(lm.ResourceVersion)
	m.SetContinue(lm.Continue)
	q.reply(http.StatusOK, l, kinds[q.resource].gv)
}

// pageOf gives a page of a list, its version, and the token of the next page. The pages behind the first are of the time of that, as they are
// in an API server.
func (q *request) pageOf() (items []runtime.Object, version int64, next string) {
	s := q.s
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.page
	if n, err := strconv.Atoi(q.get("limit")); err == nil && (limit == 0 || n < limit) {
		limit = n
	}
	token := q.get("continue")
	items, version = s.rest[token], s.version
	if before, _, ok := strings.Cut(token, "-"); ok {
		version, _ = strconv.ParseInt(before, 10, 64)
	} else {
		items = q.present()
	}
	if limit == 0 || len(items) <= limit {
		return items, version, ""
	}
	s.tokens++
	next = fmt.Sprintf("%d-%d", version, s.tokens)
	s.rest[next] = items[limit:]
	return items[:limit], version, next
}

// watch streams changes until the client goes or the server ends all watches.
func (q *request) watch(ctx context.Context) {
	s := q.s
	stop := context.AfterFunc(ctx, func() { s.mu.Lock(); s.changed.Broadcast(); s.mu.Unlock() })
	defer stop()
	from, _ := strconv.ParseInt(q.get("resourceVersion"), 10, 64)
	initial := q.get("sendInitialEvents") == "true"
	s.mu.Lock()
	epoch, items, version, compacted, streaming := s.epoch, q.present(), s.version, s.compacted, s.streaming
	s.mu.Unlock()
	switch {
	case initial && !streaming:
		q.status(apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil))
		return
	case !initial && from < compacted:
		q.status(apierrors.NewResourceExpired("too old resource version"))
		return
	}
	q.w.Header().Set("Content-Type", q.media+streamSuffix(q.media))
	q.w.WriteHeader(http.StatusOK)
	if initial {
		for _, o := range items {
			q.send(watch.Added, o)
		}
		q.bookmark(version)
		from = version
	}
	q.flush()
	q.follow(ctx, from, epoch)
}

func streamSuffix(media string) string {
	if media == runtime.ContentTypeProtobuf {
		return ";stream=watch"
	}
	return ""
}

// follow sends the changes after a version.
func (q *request) follow(ctx context.Context, from int64, epoch int) {
	s := q.s
	for {
		s.mu.Lock()
		var todo []event
		for {
			if ctx.Err() != nil || s.epoch != epoch {
				s.mu.Unlock()
				return
			}
			events := s.events[q.resource] // in the order of their versions
			todo = slices.Clone(events[sort.Search(len(events), func(i int) bool { return events[i].version > from }):])
			if len(todo) > 0 {
				break
			}
			s.changed.Wait()
		}
		s.mu.Unlock()
		for _, e := range todo {
			q.change(e)
			from = e.version
		}
		q.flush()
	}
}

// change sends a change as it looks through the selectors.
func (q *request) change(e event) {
	was, is := q.matches(e.old), q.matches(e.now)
	switch {
	case is && was:
		q.send(watch.Modified, e.now)
	case is:
		q.send(watch.Added, e.now)
	case was:
		gone := e.old.DeepCopyObject()
		m, _ := meta.Accessor(gone)
		m.SetResourceVersion(strconv.FormatInt(e.version, 10))
		q.send(watch.Deleted, gone)
	}
}

// bookmark ends the objects of a streamed list.
func (q *request) bookmark(version int64) {
	o := emptyOf(q.resource)
	m, _ := meta.Accessor(o)
	m.SetResourceVersion(strconv.FormatInt(version, 10))
	m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	q.send(watch.Bookmark, o)
}

func (q *request) flush() { q.w.(http.Flusher).Flush() }

// send writes one event in a frame of its own. It encodes a copy: an encoder writes the kind into what it is given, and all watches
// share the stored objects.
func (q *request) send(kind watch.EventType, o runtime.Object) {
	o = o.DeepCopyObject()
	info, _ := runtime.SerializerInfoForMediaType(q.s.codecs.SupportedMediaTypes(), q.media)
	e := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: q.encode(o, kinds[q.resource].gv)}}
	b, err := runtime.Encode(info.StreamSerializer.Serializer, e)
	if err != nil {
		panic(err)
	}
	_, _ = info.StreamSerializer.Framer.NewFrameWriter(q.w).Write(b) // a client that has gone ends the context
}

func emptyOf(resource string) runtime.Object {
	switch resource {
	case "namespaces":
		return &corev1.Namespace{}
	case "services":
		return &corev1.Service{}
	case "pods":
		return &corev1.Pod{}
	}
	return &discoveryv1.EndpointSlice{}
}
