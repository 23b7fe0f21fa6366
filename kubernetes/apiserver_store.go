package kubernetes

import (
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// serviceIndex is a Sink that can be asked for the Services it holds. Only with it is the programming latency measured.
type serviceIndex interface {
	// Lookup gives the Service that was applied last, or nil.
	Lookup(kind Kind, namespace, name string) Object
}

// store is what a reflector writes to: it reduces what it is given and passes it on to the sink. It keeps no objects itself.
type store struct {
	feed     *feed
	sink     Sink
	services serviceIndex // nil if the sink is none
	metrics  *SourceMetrics
	triggers triggers
	names    bool // the names of endpoints' Pods are needed
	zones    bool // the zones of endpoints are needed
}

var (
	_ cache.TransformingStore      = (*store)(nil)
	_ cache.ResourceVersionUpdater = (*store)(nil)
)

// Transformer makes the reflector reduce the objects of a streamed list as they arrive.
func (s *store) Transformer() cache.TransformFunc {
	return func(in any) (any, error) {
		o, err := s.reduce(in)
		s.feed.session.litter.add()
		return o, err
	}
}

// Add is called for events only, lists come through Replace.
func (s *store) Add(in any) error {
	o, err := s.reduce(in)
	if err != nil {
		return err
	}
	s.sink.Apply(o)
	if slice, ok := o.(*EndpointSlice); ok && s.triggers.note(slice) {
		s.observe(slice)
	}
	return nil
}

// Update is as Add.
func (s *store) Update(in any) error { return s.Add(in) }

// Delete is called for events only.
func (s *store) Delete(in any) error {
	m, err := meta.Accessor(in)
	if err != nil {
		return err
	}
	s.sink.Delete(s.feed.kind, m.GetNamespace(), m.GetName())
	s.triggers.forget(m.GetNamespace(), m.GetName())
	return nil
}

// Replace is called with each list: at the start, and again when the API server no longer knows where we were.
func (s *store) Replace(list []any, version string) error {
	all := make([]Object, 0, len(list))
	for _, in := range list {
		o, err := s.reduce(in)
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	if known := s.feed.version.Load(); known != nil && versionBehind(version, *known) {
		s.feed.session.status.restored(s.feed.res.name, *known, version) // while we were cut off, so that no check saw it
	}
	s.sink.Replace(s.feed.kind, values(all))
	s.triggers.replace(all)
	s.UpdateResourceVersion(version)
	s.feed.listing.Store(false)
	s.feed.synced.Store(true)
	s.feed.session.status.ok(s.feed)
	notify(s.feed.session.relisted)
	return nil
}

func values(all []Object) iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, o := range all {
			if !yield(o) {
				return
			}
		}
	}
}

// Resync has nothing to do.
func (s *store) Resync() error { return nil }

// UpdateResourceVersion is called after each event, bookmarks included.
func (s *store) UpdateResourceVersion(version string) {
	s.feed.version.Store(&version)
	s.feed.confirmed.Store(time.Now().UnixNano())
}

// observe measures how long the change that a slice shows took from its beginning to being answered.
func (s *store) observe(slice *EndpointSlice) {
	if s.services == nil {
		return
	}
	if svc, ok := s.services.Lookup(KindService, slice.Namespace, slice.Service).(*Service); ok {
		s.metrics.programmed(svc, time.Since(slice.Trigger))
	}
}

// reduce is the function reduce for what the options need.
func (s *store) reduce(in any) (Object, error) {
	if e, ok := in.(*discoveryv1.EndpointSlice); ok {
		s.trim(e)
	}
	return reduce(in)
}

// reduce makes an Object of what the API server sent, or gives back one that is reduced already.
func reduce(in any) (Object, error) {
	switch o := in.(type) {
	case reduced:
		return o.Object, nil
	case Object:
		return o, nil
	case *corev1.Namespace:
		return FromNamespace(o), nil
	case *corev1.Service:
		return FromService(o), nil
	case *discoveryv1.EndpointSlice:
		return FromEndpointSlice(o), nil
	case *corev1.Pod:
		return FromPod(o), nil
	}
	return nil, fmt.Errorf("an object of type %T, which was not asked for", in)
}

// trim drops what the options have no use for. Of a large list the names of Pods would be a third.
func (s *store) trim(e *discoveryv1.EndpointSlice) {
	for i := range e.Endpoints {
		if !s.names {
			e.Endpoints[i].TargetRef = nil
		}
		if !s.zones {
			e.Endpoints[i].Zone = nil
		}
	}
}

// reduced carries an Object through the part of client-go that wants objects of the API.
type reduced struct{ Object }

// GetObjectKind is runtime.Object's.
func (reduced) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject is runtime.Object's. An Object is never changed, so that it can be its own copy.
func (r reduced) DeepCopyObject() kruntime.Object { return r }

// reducedList is the list that a feed's plain lists become.
type reducedList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []kruntime.Object
}

// DeepCopyObject is runtime.Object's.
func (l *reducedList) DeepCopyObject() kruntime.Object {
	out := *l
	out.Items = append([]kruntime.Object(nil), l.Items...)
	return &out
}

// add reduces a page and gives the token of the next one, "" after the last.
func (s *store) add(l *reducedList, page kruntime.Object) (next string, err error) {
	m, err := meta.ListAccessor(page)
	if err != nil {
		return "", err
	}
	// Every page carries the version of the first.
	l.ResourceVersion = m.GetResourceVersion()
	err = meta.EachListItem(page, func(item kruntime.Object) error {
		o, err := s.reduce(item)
		if err == nil {
			l.Items = append(l.Items, reduced{o})
			s.feed.session.litter.add()
		}
		return err
	})
	return m.GetContinue(), err
}
