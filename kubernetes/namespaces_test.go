package kubernetes

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestNamespacesThatAreGoneTakeNoRoom: whichever of a namespace and its Service and slice goes first, and whether each is told of or missing in a list, nothing is
// left of it, and one that comes again is found.
func TestNamespacesThatAreGoneTakeNoRoom(t *testing.T) {
	t.Parallel()
	o := Options{Endpoints: true}
	x := newIndex(&o)
	for k := range numKinds {
		x.Replace(k, values(nil))
	}
	addr := netip.MustParseAddr("10.0.0.1")
	for i := range 60 {
		ns := fmt.Sprint("test-", i)
		objects := [...]Object{
			&Namespace{ns},
			&Service{Namespace: ns, Name: "web", ClusterIPs: []netip.Addr{addr}},
			&EndpointSlice{Namespace: ns, Name: "web-1", Service: "web", Endpoints: []Endpoint{{Addr: addr, Ready: true}}},
		}
		orders := [...][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
		for _, k := range orders[i%6] {
			x.Apply(objects[k])
		}
		if _, found := x.ExternalService(ns, "web"); !found || !x.HasNamespace(ns) {
			t.Fatalf("%s is not found", ns)
		}
		x.Delete(KindNamespace, "", ns)
		if _, found := x.ExternalService(ns, "web"); found || x.HasNamespace(ns) {
			t.Fatalf("%s is found after it has gone", ns)
		}
		x.Apply(objects[KindNamespace])
		if _, found := x.ExternalService(ns, "web"); !found {
			t.Fatalf("%s is not found when it comes again", ns)
		}
		for _, k := range orders[(i/6)%6] {
			if i%2 == 0 {
				x.Replace(Kind(k), values(nil))
			} else {
				x.Delete(objects[k].Kind(), map[int]string{1: ns, 2: ns}[k], []string{ns, "web", "web-1"}[k])
			}
		}
	}
	if n := len(x.known) + len(x.cells) + len(x.slices); n != 0 {
		t.Errorf("%d namespaces, %d Services and %d slices are left", len(x.known), len(x.cells), len(x.slices))
	}
}
