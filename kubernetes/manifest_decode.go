package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// manifest is what one file of manifests holds.
type manifest struct {
	objects    []Object
	endpoints  []*endpointsObject
	namespaces map[string]bool // of the objects: they exist even if no Namespace says so, as in a cluster
	read       int             // how many objects were of a kind that is read, whether the options let them be seen or not
}

// decoder reads files of manifests.
type decoder struct {
	labels     labels.Selector
	namespaces labels.Selector
	pods       bool
	// warn takes what is no error and most likely not meant: fields that are not known, and kinds that are nearly those that are read.
	warn func(place, what string)
	full func(reduced Object, from any) // nil, or told what each object was before it was reduced
}

func newDecoder(o *Options, warn func(place, what string)) (*decoder, error) {
	d := &decoder{pods: o.Needed(KindPod), warn: warn}
	var err error
	if d.labels, err = labels.Parse(o.Labels); err != nil {
		return nil, err
	}
	d.namespaces, err = labels.Parse(o.NamespaceLabels)
	return d, err
}

// maxErrors bounds how many faults of one file are told: after a few the reader knows.
const maxErrors = 10

// decode reads a file. Its error names each bad document by number, from 1, and the field.
func (d *decoder) decode(file string, data []byte) (m *manifest, err error) {
	m = &manifest{namespaces: map[string]bool{}}
	var errs []error
	err = documents(data, func(n, before int, doc []byte) {
		place := fmt.Sprintf("%s: document %d", file, n)
		if err := d.guarded(m, place, before, doc); err != nil && len(errs) < maxErrors {
			errs = append(errs, err)
		}
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", file, err))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return m, nil
}

// guarded is document, whose parsers are not ours: a panic of theirs is an error of the file. before is how many lines stand in front.
func (d *decoder) guarded(m *manifest, place string, before int, doc []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: malformed: %v", place, p)
		}
	}()
	if t := bytes.TrimSpace(doc); len(t) == 0 {
		return nil
	} else if t[0] != '{' {
		if doc, err = yaml.YAMLToJSONStrict(doc); err != nil {
			return fmt.Errorf("%s: %w", place, inFile(err, before))
		}
	}
	return d.document(m, place, doc, head{}, 0)
}

// head is what says of a document what it is.
type head struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Items      []json.RawMessage `json:"items"`
}

// document reads one object or list in JSON. as is its kind where it does not say so itself, as within lists of one kind; depth is how many lists it
// stands in.
func (d *decoder) document(m *manifest, place string, doc []byte, as head, depth int) error {
	switch t := bytes.TrimSpace(doc); {
	case string(t) == "null":
		return nil // only comments
	case len(t) == 0 || t[0] != '{':
		return fmt.Errorf("%s: not an object", place)
	}
	h, r := as, fieldReader{}
	r.read(doc, reflect.ValueOf(&h).Elem(), nil, "")
	if len(r.faults) > 0 {
		return fmt.Errorf("%s: %s", place, strings.Join(r.faults, "; "))
	}
	if h.Kind == "" || h.APIVersion == "" {
		return fmt.Errorf("%s: kind or apiVersion is missing", place)
	}
	if strings.HasSuffix(h.Kind, "List") {
		return d.list(m, place, h, depth)
	}
	return d.object(m, place, doc, h)
}

// maxLists is how deep lists may stand in lists. What is in one is read again for each that is around it; kubectl nests none.
const maxLists = 4

func (d *decoder) list(m *manifest, place string, h head, depth int) error {
	if depth++; depth > maxLists {
		return fmt.Errorf("%s: lists stand in lists more than %d deep", place, maxLists)
	}
	as := head{Kind: strings.TrimSuffix(h.Kind, "List"), APIVersion: h.APIVersion}
	var errs []error
	for i, item := range h.Items {
		if err := d.document(m, fmt.Sprintf("%s: item %d", place, i+1), item, as, depth); err != nil && len(errs) < maxErrors {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// object reads one object of a kind that makes records, and nothing of the others.
func (d *decoder) object(m *manifest, place string, doc []byte, h head) error {
	place += ": " + h.Kind
	switch h.APIVersion + " " + h.Kind {
	case "v1 Namespace":
		return read(d, m, place, doc, new(corev1.Namespace), objectFields(), nil, func(o *corev1.Namespace) { d.take(m, FromNamespace(o), o) })
	case "v1 Service":
		return read(d, m, place, doc, new(corev1.Service), serviceFields(), checkService, func(o *corev1.Service) { d.take(m, FromService(o), o) })
	case "discovery.k8s.io/v1 EndpointSlice":
		return read(d, m, place, doc, new(discoveryv1.EndpointSlice), sliceFields(), checkSlice, func(o *discoveryv1.EndpointSlice) { d.take(m, FromEndpointSlice(o), o) })
	case "v1 Endpoints":
		return read(d, m, place, doc, new(endpointsObject), endpointsFields(), checkEndpoints, func(o *endpointsObject) { m.endpoints = append(m.endpoints, o) })
	case "v1 Pod":
		if d.pods {
			return read(d, m, place, doc, new(corev1.Pod), podFields(d.full != nil), checkPod, func(o *corev1.Pod) { d.take(m, FromPod(o), o) })
		}
	default:
		if near := nearKind(h); near != "" {
			d.warn(place, fmt.Sprintf("%s of %s is not read; is %s meant?", h.Kind, h.APIVersion, near))
		}
	}
	return nil
}

// read decodes an object, fills in the namespace that kubectl would take, checks it, and takes it if the options let it be seen.
func read[O metav1.Object](d *decoder, m *manifest, place string, doc []byte, o O, want fields, check func(O) error, take func(O)) error {
	m.read++
	r := fieldReader{}
	r.read(doc, reflect.ValueOf(o).Elem(), want, "")
	if _, whole := any(o).(*corev1.Namespace); !whole && o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	if o.GetName() != "" {
		place += " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	}
	switch {
	case len(r.faults) > 0:
		return fmt.Errorf("%s: %s", place, strings.Join(r.faults, "; "))
	case o.GetName() == "":
		return fmt.Errorf("%s: metadata.name is missing", place)
	case check != nil:
		if err := check(o); err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	}
	for _, field := range r.unknown {
		d.warn(place, "the field "+field+" is not known")
	}
	if d.keep(m, o) {
		take(o)
	}
	return nil
}

func (d *decoder) take(m *manifest, reduced Object, from any) {
	m.objects = append(m.objects, reduced)
	if d.full != nil {
		d.full(reduced, from)
	}
}

// keep says whether the options let an object be seen, and notes its namespace.
func (d *decoder) keep(m *manifest, o metav1.Object) bool {
	if n, ok := o.(*corev1.Namespace); ok {
		return d.namespaces.Matches(namespaceLabels(n))
	}
	m.namespaces[o.GetNamespace()] = true
	return d.labels.Matches(labels.Set(o.GetLabels()))
}

// namespaceLabels are a Namespace's labels, with the one that the control plane gives each.
func namespaceLabels(n *corev1.Namespace) labels.Set {
	all := labels.Set{corev1.LabelMetadataName: n.Name}
	for k, v := range n.Labels {
		all[k] = v
	}
	return all
}

func checkService(s *corev1.Service) error {
	if s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
		if err := checkAddr("spec.clusterIP", s.Spec.ClusterIP); err != nil {
			return err
		}
	}
	for i, a := range s.Spec.ClusterIPs {
		if a == corev1.ClusterIPNone {
			continue
		}
		if err := checkAddr(fmt.Sprintf("spec.clusterIPs[%d]", i), a); err != nil {
			return err
		}
	}
	for i, p := range s.Spec.Ports {
		if err := checkPort(fmt.Sprintf("spec.ports[%d].port", i), p.Port); err != nil {
			return err
		}
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName && s.Spec.ExternalName == "" {
		return errors.New("spec.externalName is missing")
	}
	if len(s.Name) > 63 {
		return errors.New("metadata.name is longer than 63 bytes")
	}
	return nil
}

func checkSlice(s *discoveryv1.EndpointSlice) error {
	for i, p := range s.Ports {
		if p.Port == nil {
			continue
		}
		if err := checkPort(fmt.Sprintf("ports[%d].port", i), *p.Port); err != nil {
			return err
		}
	}
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	for i := range s.Endpoints {
		for j, a := range s.Endpoints[i].Addresses {
			if err := checkAddr(fmt.Sprintf("endpoints[%d].addresses[%d]", i, j), a); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkEndpoints(e *endpointsObject) error {
	for i, sub := range e.Subsets {
		for j, a := range slices.Concat(sub.Addresses, sub.NotReadyAddresses) {
			if err := checkAddr(fmt.Sprintf("subsets[%d]: address %d", i, j), a.IP); err != nil {
				return err
			}
		}
		for j, p := range sub.Ports {
			if err := checkPort(fmt.Sprintf("subsets[%d].ports[%d].port", i, j), p.Port); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkPod(p *corev1.Pod) error {
	for i, a := range p.Status.PodIPs {
		if err := checkAddr(fmt.Sprintf("status.podIPs[%d].ip", i), a.IP); err != nil {
			return err
		}
	}
	if p.Status.PodIP == "" {
		return nil
	}
	return checkAddr("status.podIP", p.Status.PodIP)
}

func checkAddr(field, text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		return fmt.Errorf("%s: %q is not an IP address", field, text)
	}
	return nil
}

func checkPort(field string, n int32) error {
	if n < 1 || n > 65535 {
		return fmt.Errorf("%s: %d is not within 1 and 65535", field, n)
	}
	return nil
}
