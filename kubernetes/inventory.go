package kubernetes

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
)

// Inventory is the objects of a cluster in full as they are at one moment. It is an Inspector, and its Source feeds the same objects to
// an Index, so that what is explained and what is answered cannot differ. It is not changed once it is made.
type Inventory struct {
	Namespaces []NamespaceInfo // each list is sorted by namespace and name
	Services   []ServiceInfo
	Slices     []SliceInfo
	Pods       []PodInfo
	// PodsKnown is false where the API server does not let Pods be listed, and where manifests have none: then they were left out.
	PodsKnown bool
}

// ReadInventory reads the cluster that the options name: files of manifests, or else an API server. It reads Pods whether the options need
// them or not. What a namespaces or labels option hides is not in it.
func ReadInventory(ctx context.Context, o Options, log *slog.Logger) (*Inventory, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &inventoryBuilder{opts: o, objects: map[string]any{}, podsKnown: true}
	var err error
	if len(o.Manifests) > 0 {
		err = b.readManifests(log)
	} else {
		err = b.readAPIServer(ctx)
	}
	if err != nil {
		return nil, err
	}
	return b.inventory(), nil
}

// Source gives the inventory's objects to an Index. The options are those that the Index is made with.
func (v *Inventory) Source(o Options) Source { return inventorySource{v, o} }

type inventorySource struct {
	*Inventory
	opts Options
}

// Run implements Source.
func (v inventorySource) Run(ctx context.Context, to Sink) error {
	var all [numKinds][]Object
	for i := range v.Namespaces {
		all[KindNamespace] = append(all[KindNamespace], &v.Namespaces[i].Namespace)
	}
	for i := range v.Services {
		all[KindService] = append(all[KindService], &v.Services[i].Service)
	}
	for i := range v.Slices {
		all[KindEndpointSlice] = append(all[KindEndpointSlice], &v.Slices[i].EndpointSlice)
	}
	for i := range v.Pods {
		all[KindPod] = append(all[KindPod], &v.Pods[i].Pod)
	}
	for k := range numKinds {
		if v.opts.Needed(k) {
			to.Replace(k, slices.Values(all[k]))
		}
	}
	<-ctx.Done()
	return nil
}

// NamespaceNames implements Inspector.
func (v *Inventory) NamespaceNames() (out []string) {
	for i := range v.Namespaces {
		out = append(out, v.Namespaces[i].Name)
	}
	return out
}

// ServiceNames implements Inspector.
func (v *Inventory) ServiceNames(namespace string) (out []string) {
	for i := range v.Services {
		if strings.EqualFold(v.Services[i].Namespace, namespace) {
			out = append(out, v.Services[i].Name)
		}
	}
	return out
}

// Service implements Inspector.
func (v *Inventory) Service(namespace, name string) (ServiceInfo, bool) {
	for i := range v.Services {
		if s := &v.Services[i]; strings.EqualFold(s.Namespace, namespace) && strings.EqualFold(s.Name, name) {
			return *s, true
		}
	}
	return ServiceInfo{}, false
}

// SlicesOf implements Inspector.
func (v *Inventory) SlicesOf(namespace, service string) (out []SliceInfo) {
	for i := range v.Slices {
		if s := &v.Slices[i]; strings.EqualFold(s.Namespace, namespace) && strings.EqualFold(s.EndpointSlice.Service, service) {
			out = append(out, *s)
		}
	}
	return out
}

// Behind implements Inspector.
func (v *Inventory) Behind(addr netip.Addr) (name ServiceName, ok bool) {
	for i := range v.Services {
		if s := &v.Services[i]; slices.Contains(s.ClusterIPs, addr) {
			return ServiceName{s.Namespace, s.Name}, true
		}
	}
	for i := range v.Slices {
		sl := &v.Slices[i]
		if !slices.ContainsFunc(sl.Endpoints, func(e Endpoint) bool { return e.Addr == addr }) {
			continue
		}
		s, known := v.Service(sl.Namespace, sl.EndpointSlice.Service)
		published := func(e Endpoint) bool { return e.Addr == addr && s.Published(&e) }
		if found := (ServiceName{s.Namespace, s.Name}); known && slices.ContainsFunc(sl.Endpoints, published) && (!ok || found.less(name)) {
			name, ok = found, true
		}
	}
	return name, ok
}

// PodsOf implements Inspector.
func (v *Inventory) PodsOf(namespace string) (pods []PodInfo, known bool) {
	for i := range v.Pods {
		if strings.EqualFold(v.Pods[i].Namespace, namespace) {
			pods = append(pods, v.Pods[i])
		}
	}
	return pods, v.PodsKnown
}

// inventoryBuilder is the Sink of reduced objects, and is told what they were before.
type inventoryBuilder struct {
	opts      Options
	objects   map[string]any // *NamespaceInfo and so on, by kind and key: of several objects with one name the last counts
	podsKnown bool
	full      map[Object]any
}

// readManifests reads by the code that a server reads with.
func (b *inventoryBuilder) readManifests(log *slog.Logger) error {
	o := b.opts
	o.Pods, o.Endpoints = PodsVerified, true
	m := NewManifests(o, nil, log)
	dec, err := newDecoder(&o, m.warn)
	if err != nil {
		return err
	}
	b.full = map[Object]any{}
	dec.full = func(reduced Object, from any) { b.full[reduced] = from }
	if _, err := m.scan(dec, true); err != nil {
		return err
	}
	m.deliver(b)
	return nil
}

// Apply implements Sink.
func (b *inventoryBuilder) Apply(o Object) { b.add(o, b.full[o]) }

// Delete implements Sink.
func (b *inventoryBuilder) Delete(Kind, string, string) {}

// Replace implements Sink.
func (b *inventoryBuilder) Replace(_ Kind, objects iter.Seq[Object]) {
	for o := range objects {
		b.Apply(o)
	}
}

// readAPIServer lists each kind once.
func (b *inventoryBuilder) readAPIServer(ctx context.Context) error {
	conn, err := connect(&b.opts, defaultPace())
	if err != nil {
		return err
	}
	defer conn.close()
	for k := range numKinds {
		f := newFeed(k, &b.opts, conn, nil, nil, nil)
		err := f.each(ctx, func(o any) error {
			r, err := reduce(o)
			if err == nil {
				b.add(r, o)
			}
			return err
		})
		switch {
		case k == KindPod && apierrors.IsForbidden(err):
			b.podsKnown = false
		case err != nil:
			return fmt.Errorf("kubernetes: API server %s: list of %s: %w", conn.host, f.res.name, err)
		}
	}
	return nil
}

// each calls f for every object of the feed's kind, in pages.
func (f *feed) each(ctx context.Context, do func(any) error) error {
	o := metav1.ListOptions{Limit: f.res.page, LabelSelector: f.labels, FieldSelector: f.fields}
	for {
		page := f.res.list()
		if err := f.request(&o).Do(ctx).Into(page); err != nil {
			return err
		}
		list, err := meta.ListAccessor(page)
		if err == nil {
			err = meta.EachListItem(page, func(item kruntime.Object) error { return do(item) })
		}
		if err != nil || list.GetContinue() == "" {
			return err
		}
		o.Continue = list.GetContinue()
	}
}

func (b *inventoryBuilder) add(o Object, from any) {
	namespace, name := o.Key()
	within := namespace
	if o.Kind() == KindNamespace {
		within = name
	}
	if len(b.opts.Namespaces) > 0 && !slices.Contains(b.opts.Namespaces, within) {
		return
	}
	var info any
	switch o := o.(type) {
	case *Namespace:
		info = namespaceInfo(o, from)
	case *Service:
		info = serviceInfo(o, from)
	case *EndpointSlice:
		info = sliceInfo(o, from)
	case *Pod:
		info = podInfo(o, from)
	}
	key := o.Kind().String() + " " + objectKey(namespace, name)
	if _, implied := o.(*Namespace); implied && from == nil && b.objects[key] != nil {
		return // an object in the namespace says no more of it than the Namespace itself
	}
	b.objects[key] = info
}

func (b *inventoryBuilder) inventory() *Inventory {
	v := &Inventory{PodsKnown: b.podsKnown}
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		switch o := b.objects[key].(type) {
		case *NamespaceInfo:
			v.Namespaces = append(v.Namespaces, *o)
		case *ServiceInfo:
			v.Services = append(v.Services, *o)
		case *SliceInfo:
			v.Slices = append(v.Slices, *o)
		case *PodInfo:
			v.Pods = append(v.Pods, *o)
		}
	}
	if len(b.opts.Manifests) > 0 && len(v.Pods) == 0 {
		v.PodsKnown = false
	}
	return v
}

func namespaceInfo(o *Namespace, from any) *NamespaceInfo {
	out := &NamespaceInfo{Namespace: *o}
	if n, ok := from.(*corev1.Namespace); ok {
		out.Labels = n.Labels
	}
	return out
}

func serviceInfo(o *Service, from any) *ServiceInfo {
	out := &ServiceInfo{Service: *o}
	s, ok := from.(*corev1.Service)
	if !ok {
		return out
	}
	out.Labels, out.Labelled = s.Labels, s.Spec.Selector
	if _, unknown := s.Spec.Selector[UnknownSelector]; unknown { // nor do they know target ports
		out.Labelled = nil
		return out
	}
	for i := range s.Spec.Ports {
		t := s.Spec.Ports[i].TargetPort.String()
		if t == "0" || t == "" {
			t = fmt.Sprint(s.Spec.Ports[i].Port) // the API's default
		}
		out.Targets = append(out.Targets, t)
	}
	return out
}

func sliceInfo(o *EndpointSlice, from any) *SliceInfo {
	out := &SliceInfo{EndpointSlice: *o}
	s, ok := from.(*discoveryv1.EndpointSlice)
	if !ok {
		return out
	}
	out.Labels = s.Labels
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		node := ""
		if e.NodeName != nil {
			node = *e.NodeName
		}
		for range addrs(e.Addresses) {
			out.Nodes = append(out.Nodes, node)
		}
	}
	return out
}

// containers are those that run side by side: sidecars are init containers that go on.
func containers(p *corev1.PodSpec) (out []ContainerInfo) {
	for i := range p.Containers {
		out = append(out, containerInfo(&p.Containers[i]))
	}
	for i := range p.InitContainers {
		if c := &p.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = append(out, containerInfo(c))
		}
	}
	return out
}

func containerInfo(c *corev1.Container) ContainerInfo {
	info := ContainerInfo{Name: c.Name}
	for _, port := range c.Ports {
		info.Ports = append(info.Ports, Port{port.Name, uint16(port.ContainerPort), protocolOf(port.Protocol)})
	}
	return info
}

func podInfo(o *Pod, from any) *PodInfo {
	out := &PodInfo{Pod: *o}
	p, ok := from.(*corev1.Pod)
	if !ok {
		return out
	}
	out.Labels, out.Phase, out.Node, out.HostNetwork = p.Labels, string(p.Status.Phase), p.Spec.NodeName, p.Spec.HostNetwork
	out.DNSPolicy, out.Deleting = string(p.Spec.DNSPolicy), p.DeletionTimestamp != nil
	for _, c := range p.Status.Conditions {
		out.Ready = out.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	out.Containers = containers(&p.Spec)
	if d := p.Spec.DNSConfig; d != nil {
		out.Searches = d.Searches
		for _, opt := range d.Options {
			if opt.Name == "ndots" && opt.Value != nil {
				out.NDots = *opt.Value
			}
		}
	}
	return out
}
