package kubernetes_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// shop is a small cluster with everything that an inventory shows.
const shop = `apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: a}}
---
apiVersion: v1
kind: Service
metadata: {name: Web, namespace: shop, labels: {tier: front}}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: Http, port: 80, targetPort: http}, {name: raw, port: 81, targetPort: 8081}, {name: same, port: 82}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: Web, x: z}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.1], hostname: a, nodeName: node-0, zone: east, targetRef: {kind: Pod, name: web-a}, conditions: {ready: true}}
- {addresses: [10.0.0.2], nodeName: node-1, conditions: {ready: false, serving: true, terminating: true}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-a, namespace: shop, labels: {app: web}}
spec:
  nodeName: node-0
  dnsPolicy: ClusterFirst
  dnsConfig: {searches: [corp.example], options: [{name: ndots, value: "2"}]}
  containers: [{name: web, ports: [{name: http, containerPort: 8080, protocol: TCP}]}]
status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}], conditions: [{type: Ready, status: "True"}]}
`

// parsed are the documents of a text as objects of the API.
func parsed(t *testing.T, text string) (out []kruntime.Object) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var o kruntime.Object
		switch {
		case strings.Contains(doc, "kind: Namespace\n"):
			o = new(corev1.Namespace)
		case strings.Contains(doc, "kind: Service\n"):
			o = new(corev1.Service)
		case strings.Contains(doc, "kind: Pod\n"):
			o = new(corev1.Pod)
		default:
			o = new(discoveryv1.EndpointSlice)
		}
		if err := yaml.Unmarshal([]byte(doc), o); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func shopOptions(t *testing.T) kubernetes.Options {
	t.Helper()
	o := options(t, "cluster.local")
	file := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(file, []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Manifests = []string{file}
	return o
}

// TestInventorySources: files and an API server with the same objects give the same inventory.
func TestInventorySources(t *testing.T) {
	t.Parallel()
	files, err := kubernetes.ReadInventory(t.Context(), shopOptions(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := kubetest.Start(t, parsed(t, shop)...)
	s.NoStreaming(1) // pages of one
	o := options(t, "cluster.local")
	o.KubeconfigFile = s.Kubeconfig("", kubetest.Token)
	server, err := kubernetes.ReadInventory(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(files, server) {
		t.Errorf("files: %+v\nAPI server: %+v", files, server)
	}
	svc, ok := files.Service("SHOP", "web")
	if !ok || !reflect.DeepEqual(svc.Targets, []string{"http", "8081", "82"}) || svc.Labelled["app"] != "web" || svc.Labels["tier"] != "front" || svc.Ports[0].Name != "Http" {
		t.Errorf("Service %+v", svc)
	}
	slices := files.SlicesOf("shop", "web")
	if len(slices) != 1 || len(slices[0].Endpoints) != 2 || slices[0].Nodes[1] != "node-1" || slices[0].Endpoints[0].Pod != "web-a" {
		t.Errorf("slices %+v", slices)
	}
	pods, known := files.PodsOf("shop")
	if len(pods) != 1 || !known || !pods[0].Ready || pods[0].NDots != "2" || pods[0].Containers[0].Ports[0].Number != 8080 || !svc.Selects(pods[0].Labels) {
		t.Errorf("Pods %+v, known %t", pods, known)
	}
}

// TestInventoryFeedsIndex: what the index shows of a cluster is what the inventory that it was fed from has.
func TestInventoryFeedsIndex(t *testing.T) {
	t.Parallel()
	o := shopOptions(t)
	v, err := kubernetes.ReadInventory(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := kubernetes.New(o, v.Source(o), kubernetes.Deps{})
	run(t, k)
	<-k.Synced()
	var live kubernetes.Inspector = k
	if got := live.NamespaceNames(); !reflect.DeepEqual(got, v.NamespaceNames()) {
		t.Errorf("namespaces %v", got)
	}
	if got := live.ServiceNames("shop"); !reflect.DeepEqual(got, []string{"web"}) {
		t.Errorf("Services %v", got)
	}
	svc, ok := live.Service("shop", "WEB")
	if !ok || svc.ClusterIPs[0].String() != "10.96.0.1" || !svc.Service.Selector || svc.Labelled != nil || len(svc.Ports) != 3 {
		t.Errorf("Service %+v", svc)
	}
	got, want := live.SlicesOf("shop", "web"), v.SlicesOf("shop", "web")
	if len(got) != 1 || len(got[0].Endpoints) != 2 {
		t.Fatalf("slices %+v", got)
	}
	for i, e := range got[0].Endpoints {
		w := want[0].Endpoints[i]
		if e.Addr != w.Addr || e.Hostname != w.Hostname || e.Ready != w.Ready || e.Serving != w.Serving || e.Terminating != w.Terminating {
			t.Errorf("endpoint %+v, want %+v", e, w)
		}
	}
	if _, known := live.PodsOf("shop"); known {
		t.Error("Pods are known")
	}
	if _, ok := live.Service("shop", "nosuch"); ok {
		t.Error("a Service that does not exist")
	}
}

// TestInventoryLimits: what the options hide is not in the inventory, and an API server that does not answer is an error that names it.
func TestInventoryLimits(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"namespaces other", "labels tier=back"} {
		o := shopOptions(t)
		l := options(t, "cluster.local\n"+limit)
		o.Namespaces, o.Labels = l.Namespaces, l.Labels
		if v, err := kubernetes.ReadInventory(t.Context(), o, nil); err != nil || len(v.Services) > 0 {
			t.Errorf("%s: %+v, %v", limit, v, err)
		}
	}
	s := kubetest.Start(t)
	o := options(t, "cluster.local")
	o.KubeconfigFile = s.Kubeconfig("", "wrong")
	if _, err := kubernetes.ReadInventory(t.Context(), o, nil); err == nil || !strings.Contains(err.Error(), s.Addr()) {
		t.Errorf("wrong token: %v", err)
	}
}
