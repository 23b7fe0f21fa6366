package kubernetes

import (
	"slices"
	"testing"
)

// FuzzManifest reads any text as a file of manifests and puts what comes of it into an index: malformed files are errors, never more.
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
