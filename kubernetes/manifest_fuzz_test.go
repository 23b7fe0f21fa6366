package kubernetes

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// whole decodes a document with all its fields, as clients of the API do, and gives what is left of it. ok is false where that fails: fields that
// are not read here may be wrong.
func whole(text []byte) (o Object, ok bool) {
	var kind metav1.TypeMeta
	if yaml.Unmarshal(text, &kind) != nil {
		return nil, false
	}
	namespace := func(o metav1.Object) {
		if o.GetNamespace() == "" {
			o.SetNamespace(metav1.NamespaceDefault)
		}
	}
	switch kind.Kind {
	case "Service":
		s := new(corev1.Service)
		ok = yaml.Unmarshal(text, s) == nil
		namespace(s)
		return FromService(s), ok
	case "EndpointSlice":
		s := new(discoveryv1.EndpointSlice)
		ok = yaml.Unmarshal(text, s) == nil
		namespace(s)
		return FromEndpointSlice(s), ok
	case "Pod":
		p := new(corev1.Pod)
		ok = yaml.Unmarshal(text, p) == nil
		namespace(p)
		return FromPod(p), ok
	}
	return nil, false
}

// FuzzManifest reads any text as a file of manifests and puts what comes of it into an index: malformed files are errors, never more. A file of one
// object gives what is left of the object when all its fields are decoded.
func FuzzManifest(f *testing.F) {
	for _, text := range []string{
		"", "---\n---\n", "# nothing", "null", "[]", "kind: x", "kind: Service\napiVersion: v1\nmetadata: {name: a}", "a: &a [*a]", "? - \n: -",
		`{"kind":"List","apiVersion":"v1","items":[{"kind":"List","apiVersion":"v1","items":[]}]}`, `{"kind":"ServiceList","apiVersion":"v1","items":[null,{}]}`,
		"apiVersion: v1\nkind: Service\nmetadata: {name: '', namespace: a}\nspec: {clusterIPs: [None, 1.1.1.1, '::1%eth0']}",
		"apiVersion: v1\nkind: Service\nmetadata: {name: A.B, namespace: " + string(slices.Repeat([]byte("n"), 70)) + "}\nspec: {type: ExternalName, externalName: '..'}",
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s, labels: {kubernetes.io/service-name: a}}\nendpoints: [{addresses: [10.0.0.1, '::ffff:10.0.0.1'], hostname: 'h.', zone: '.', targetRef: {name: p.q}}]\nports: [{port: 80}, {name: x}]",
		"apiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\nsubsets: [{addresses: [{ip: '::1', hostname: h}], ports: [{port: 1}]}]",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nstatus: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: '::1'}]}",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: 1}",
	} {
		f.Add([]byte(text))
	}
	o := Options{Endpoints: true, Pods: PodsVerified, EndpointPodNames: true, Zonal: true}
	dec, err := newDecoder(&o, func(string, string) {})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := dec.decode("file", text)
		if (m == nil) != (err != nil) {
			t.Fatalf("%v and %v", m, err)
		}
		if err != nil {
			return
		}
		if want, ok := whole(text); ok && len(m.objects) == 1 && m.read == 1 && !reflect.DeepEqual(m.objects[0], want) {
			t.Errorf("%+v, want %+v", m.objects[0], want)
		}
		x := newIndex(&o)
		for k := range numKinds {
			x.Replace(k, slices.Values(m.objects))
			x.Replace(k, func(func(Object) bool) {})
		}
		for _, e := range m.endpoints {
			for _, s := range mirror(e) {
				x.Apply(s)
			}
		}
	})
}
