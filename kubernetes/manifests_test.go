package kubernetes_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// service is a manifest of a Service in namespace prod.
func service(name, ip string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: prod}\nspec: {clusterIP: " + ip + ", ports: [{port: 80}]}\n"
}

// logged is a log that tests read.
type logged struct {
	mu  gosync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// follow runs a Kubernetes over paths.
func follow(t *testing.T, log *logged, paths ...string) *server.Direct {
	t.Helper()
	o := options(t, "cluster.local in-addr.arpa\npods verified")
	o.Manifests = paths
	k := kubernetes.New(o, kubernetes.NewManifests(o, nil, slog.New(slog.NewTextHandler(log, nil))), kubernetes.Deps{})
	run(t, k)
	select {
	case <-k.Synced():
	case <-time.After(patience):
		t.Fatal("the manifests were not read")
	}
	return servertest.Direct(block(k, nil))
}

// soon waits until an address is answered, "" for none. Changes are to show within a second; the bound leaves room for a busy machine.
func soon(t *testing.T, d *server.Direct, service, want string) {
	t.Helper()
	q := servertest.Pack(t, servertest.Query(service+".prod.svc.cluster.local.", dns.TypeA, 0))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for ; ; <-tick.C {
		reply, _ := d.Answer(q, servertest.Client, server.UDP)
		var m dns.Msg
		if err := m.Unpack(reply); err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(m.Answer) > 0 {
			got = m.Answer[0].(*dns.A).A.String()
		}
		if got == want {
			return
		}
		if time.Since(start) > patience {
			t.Fatalf("%s is %q, want %q", service, got, want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestManifestsFollowFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := filepath.Join(dir, "one.yaml")
	write(t, one, service("web", "10.96.0.1"))
	write(t, filepath.Join(dir, "README.md"), "not a manifest: [")
	write(t, filepath.Join(dir, ".hidden.yaml"), "not a manifest: [")
	d := follow(t, new(logged), dir)
	soon(t, d, "web", "10.96.0.1")
	write(t, one, service("web", "10.96.0.2"))
	soon(t, d, "web", "10.96.0.2")
	write(t, filepath.Join(dir, "two.json"), `{"apiVersion":"v1","kind":"Service","metadata":{"name":"api","namespace":"prod"},"spec":{"clusterIP":"10.96.0.3"}}`)
	soon(t, d, "api", "10.96.0.3")
	write(t, filepath.Join(dir, "new"), service("web", "10.96.0.4"))
	if err := os.Rename(filepath.Join(dir, "new"), one); err != nil { // as editors and atomic writers do
		t.Fatal(err)
	}
	soon(t, d, "web", "10.96.0.4")
	soon(t, d, "api", "10.96.0.3")
	if err := os.Remove(filepath.Join(dir, "two.json")); err != nil {
		t.Fatal(err)
	}
	soon(t, d, "api", "")
}

// TestManifestsFollowLinks swaps a symbolic link to a folder, as the kubelet does with ConfigMaps.
func TestManifestsFollowLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	swap := func(version, ip string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "cluster.yaml"), service("web", ip))
		tmp := filepath.Join(dir, "..tmp")
		if err := os.Symlink(version, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("..v1", "10.96.0.1")
	if err := os.Symlink(filepath.Join("..data", "cluster.yaml"), filepath.Join(dir, "cluster.yaml")); err != nil {
		t.Fatal(err)
	}
	d := follow(t, new(logged), filepath.Join(dir, "cluster.yaml"))
	soon(t, d, "web", "10.96.0.1")
	swap("..v2", "10.96.0.2")
	soon(t, d, "web", "10.96.0.2")
	swap("..v3", "10.96.0.3")
	soon(t, d, "web", "10.96.0.3")
	write(t, filepath.Join(dir, "..v3", "cluster.yaml"), service("web", "10.96.0.4"))
	soon(t, d, "web", "10.96.0.4")
}

func TestManifestsKeepTheLastGoodState(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), new(logged)
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	write(t, one, service("web", "10.96.0.1"))
	write(t, two, service("api", "10.96.0.2"))
	d := follow(t, log, one, two)
	write(t, one, service("web", "10.96.0.7")+"---\n"+service("db", "10.96.0.300"))
	write(t, two, service("api", "10.96.0.3"))
	soon(t, d, "api", "10.96.0.3")
	soon(t, d, "web", "10.96.0.1")
	if err := os.Remove(two); err != nil {
		t.Fatal(err)
	}
	write(t, one, service("web", "10.96.0.8"))
	soon(t, d, "web", "10.96.0.8")
	soon(t, d, "api", "10.96.0.3") // a file that is named and missing keeps its last good state too
	write(t, two, service("api", "10.96.0.4"))
	soon(t, d, "api", "10.96.0.4")
	for _, want := range []string{"one.yaml: document 2: Service prod/db: spec.clusterIP: ", "10.96.0.300", "two.yaml: no such file"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

func TestManifestErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"yaml":      {service("a", "10.96.0.1") + "---\nkind: [", "document 2: "},
		"scalar":    {"just text", "document 1: not an object"},
		"array":     {"- a\n- b", "document 1: not an object"},
		"kind":      {"apiVersion: v1\nmetadata: {name: x}", "document 1: kind or apiVersion is missing"},
		"type":      {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: http}]}", `document 1: Service default/x: spec.ports[0].port: a whole number is expected, not "http"`},
		"text":      {"apiVersion: v1\nkind: Service\nmetadata: {name: x, labels: {app: y}}", "Service default/x: metadata.labels[app]: text is expected, not true: put quotes around it"},
		"unnamed":   {"apiVersion: v1\nkind: Service\nmetadata: {name: 7}", "document 1: Service: metadata.name: text is expected, not 7: put quotes around it"},
		"bool":      {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {publishNotReadyAddresses: 'yes'}", `spec.publishNotReadyAddresses: true or false is expected, not "yes"`},
		"listed":    {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {clusterIPs: 10.96.0.1}", `spec.clusterIPs: a list is expected, not "10.96.0.1"`},
		"mapping":   {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: [1]", "spec: a mapping is expected, not [1]"},
		"both":      {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {type: 1, clusterIP: 2}", "spec.clusterIP: text is expected, not 2: put quotes around it; spec.type: text is expected, not 1"},
		"head":      {"apiVersion: 1\nkind: Service", "document 1: apiVersion: text is expected, not 1"},
		"item":      {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}, status: {podIP: true}}", "document 1: item 1: Pod b/a: status.podIP: text is expected"},
		"line":      {service("a", "10.96.0.1") + "---\n# a comment\nkind: Service\nmetadata: {name: x\n", "document 2: yaml: line 8: "},
		"later":     {"a: 1\nb: {c: 1}\nb: 2\n", "line 3: "},
		"later yet": {service("a", "10.96.0.1") + "---\n" + service("b", "10.96.0.1") + "--- # third\nkind: x\nkind: y\n", "document 3: yaml: unmarshal errors:\n  line 12: "},
		"jsonline":  {"{\"kind\":\"Namespace\",\n\"apiVersion\":\"v1\",\n\"metadata\":{\"name\":\"a\"}}\n{\n\"kind\":,}", "document 2: line 5: "},
		"port":      {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 80},{port: 70000}]}", "Service default/x: spec.ports[1].port: 70000 is not within 1 and 65535"},
		"name":      {"apiVersion: v1\nkind: Service\nspec: {}", "document 1: Service: metadata.name is missing"},
		"target":    {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {type: ExternalName}", "spec.externalName is missing"},
		"address":   {"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: x}\naddressType: IPv4\nendpoints: [{addresses: [10.0.0.1]},{addresses: [web]}]", `endpoints[1].addresses[0]: "web" is not an IP address`},
		"pod":       {"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nstatus: {podIPs: [{ip: 1.2.3}]}", `Pod default/x: status.podIPs[0].ip: "1.2.3" is not an IP address`},
		"endpoints": {"apiVersion: v1\nkind: Endpoints\nmetadata: {name: x}\nsubsets: [{addresses: [{ip: x}]}]", `subsets[0]: address 0: "x" is not an IP address`},
		"list":      {`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}},{"apiVersion":"v1","kind":"Namespace"}]}`, "document 1: item 2: Namespace: metadata.name is missing"},
		"json":      {`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}} {`, "document 2: "},
		"twice":     {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nmetadata: {name: y}", `key "metadata" already set`},
		"many":      {strings.Repeat("kind: x\n---\n", 50), "document 10: kind or apiVersion is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "bad.yaml")
			write(t, file, c.text)
			o := options(t, "cluster.local\npods verified")
			o.Manifests = []string{file}
			k := kubernetes.New(o, kubernetes.NewManifests(o, nil, nil), kubernetes.Deps{})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			err := k.Run(ctx)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file+": ") {
				t.Errorf("error %v, want one of %s with %q", err, file, c.want)
			}
			if k.Ready() {
				t.Error("ready with a bad manifest")
			}
		})
	}
	o := options(t, "cluster.local")
	o.Manifests = []string{filepath.Join(t.TempDir(), "missing")}
	if err := kubernetes.New(o, kubernetes.NewManifests(o, nil, nil), kubernetes.Deps{}).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("error %v, want one of the missing file", err)
	}
}

// TestManifestsUnreadFields puts what no schema allows into fields that no record is made of.
func TestManifestsUnreadFields(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), new(logged)
	write(t, filepath.Join(dir, "dump.yaml"), `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: web-0, namespace: prod, annotations: {n: 1}, finalizers: 7}
  spec: {containers: [{name: y, volumeMounts: [{name: y}]}], volumes: no}
  status: {podIP: 10.0.0.1, startTime: never}
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: prod, creationTimestamp: later}
  spec: {clusterIP: 10.96.0.1, sessionAffinity: off, selecter: {a: b}, ports: [{port: 80, nodePort: x, nome: a}]}
  status: {conditions: none}
`)
	d := follow(t, log, dir)
	soon(t, d, "web", "10.96.0.1")
	for _, want := range []string{"dump.yaml: document 1: item 2: Service prod/web: the field spec.selecter is not known", "the field spec.ports[0].nome is not known"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

// TestManifestsOfNothing looks for the warnings of what would pass for an empty cluster.
func TestManifestsOfNothing(t *testing.T) {
	t.Parallel()
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n"
	good := "---\n" + service("web", "10.96.0.1")
	object := func(version, kind string) string {
		return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: x}\n" + good
	}
	for name, c := range map[string]struct{ file, text, want string }{
		"empty folder":   {"", "", "no objects in DIR/ (only .yaml, .yml and .json are read)"},
		"other files":    {"a.yml.bak", good, "no objects in DIR/ (only .yaml, .yml and .json are read)"},
		"foreign":        {"a.yaml", deployment, "no objects in DIR/ of a kind that is read: Namespace, Service"},
		"only comments":  {"a.yaml", "# nothing\n", "no objects in DIR/ of a kind"},
		"slip":           {"a.yaml", object("v1", "Servise"), "Servise of v1 is not read; is Service of v1 meant?"},
		"case":           {"a.yaml", object("v1", "service"), "is Service of v1 meant?"},
		"list":           {"a.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Endpoint}\n" + good, "document 1: item 1: Endpoint: Endpoint of v1 is not read; is Endpoints of v1 meant?"},
		"old version":    {"a.yaml", object("discovery.k8s.io/v1beta1", "EndpointSlice"), "is EndpointSlice of discovery.k8s.io/v1 meant?"},
		"group":          {"a.yaml", object("v1", "EndpointSlice"), "is EndpointSlice of discovery.k8s.io/v1 meant?"},
		"core":           {"a.yaml", object("core/v1", "Service"), "is Service of v1 meant?"},
		"others' kinds":  {"a.yaml", object("serving.knative.dev/v1", "Service"), ""},
		"Node":           {"a.yaml", object("v1", "Node"), ""},
		"Job":            {"a.yaml", object("batch/v1", "Job"), ""},
		"ServiceAccount": {"a.yaml", object("v1", "ServiceAccount"), ""},
		"Deployment":     {"a.yaml", deployment + good, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, log := t.TempDir(), new(logged)
			if c.file != "" {
				write(t, filepath.Join(dir, c.file), c.text)
			}
			follow(t, log, dir)
			got := strings.ReplaceAll(log.String(), dir, "DIR")
			if !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("the log is %q, want %q", got, c.want)
			}
		})
	}
}

// TestManifestsSayWhatChanges counts the lines and the metric of a file that breaks and heals.
func TestManifestsSayWhatChanges(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), new(logged)
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	write(t, one, service("web", "10.96.0.1"))
	write(t, two, service("api", "10.96.0.1"))
	o := options(t, "cluster.local")
	o.Manifests = []string{dir}
	reg := prometheus.NewRegistry()
	k := kubernetes.New(o, kubernetes.NewManifests(o, kubernetes.NewSourceMetrics(reg), slog.New(slog.NewTextHandler(log, nil))), kubernetes.Deps{})
	run(t, k)
	d := servertest.Direct(block(k, nil))
	gauge := func(want float64) {
		t.Helper()
		all, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.GetName() == "clusterdns_kubernetes_manifest_errors" && f.Metric[0].Gauge.GetValue() == want {
				return
			}
		}
		t.Errorf("the metric is not %v", want)
	}
	soon(t, d, "web", "10.96.0.1")
	gauge(0)
	write(t, one, service("web", "x")+"---\n"+service("db", "y"))
	write(t, two, service("api", "10.96.0.2"))
	soon(t, d, "api", "10.96.0.2") // files are read in the order of their names
	gauge(1)
	write(t, one, service("web", "10.96.0.3"))
	soon(t, d, "web", "10.96.0.3")
	gauge(0)
	for want, n := range map[string]int{"its last good state stays": 2, "Service prod/web: spec.clusterIP": 1, "Service prod/db: spec.clusterIP": 1, "can be used again": 1} {
		if got := strings.Count(log.String(), want); got != n {
			t.Errorf("%q is logged %d times, want %d:\n%s", want, got, n, log)
		}
	}
}

// TestManifestKinds reads what kubectl writes and people write.
func TestManifestKinds(t *testing.T) {
	t.Parallel()
	k := cluster(t, "cluster.local in-addr.arpa\nlabels app notin (hidden)\npods verified", `# only a comment
---
apiVersion: v1
kind: ServiceList
items:
- metadata: {name: listed, namespace: prod}
  spec: {clusterIP: 10.96.0.1, futureField: true}
- metadata: {name: hidden, namespace: prod, labels: {app: hidden}}
  spec: {clusterIP: 10.96.0.2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ignored}
spec: {replicas: not-a-number}
---
apiVersion: v1
kind: Service
metadata: {name: plain}
spec: {clusterIP: 10.96.0.3}
---
apiVersion: v1
kind: Service
metadata: {name: legacy, namespace: prod}
spec: {clusterIP: None, ports: [{name: sql, port: 3306}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: legacy, namespace: prod}
subsets:
- addresses: [{ip: 192.0.2.1, hostname: db1}, {ip: "2001:db8::1"}]
  notReadyAddresses: [{ip: 192.0.2.2}]
  ports: [{name: sql, port: 3306}]
---
apiVersion: v1
kind: Service
metadata: {name: selects, namespace: prod}
spec: {clusterIP: None, selector: {app: x}}
---
apiVersion: v1
kind: Endpoints
metadata: {name: selects, namespace: prod}
subsets: [{addresses: [{ip: 192.0.2.3}]}]
---
apiVersion: v1
kind: Service
metadata: {name: skipped, namespace: prod}
spec: {clusterIP: None}
---
apiVersion: v1
kind: Endpoints
metadata: {name: skipped, namespace: prod, labels: {endpointslice.kubernetes.io/skip-mirror: "true"}}
subsets: [{addresses: [{ip: 192.0.2.4}]}]
---
apiVersion: v1
kind: Endpoints
metadata: {name: no-service, namespace: prod}
subsets: [{addresses: [{ip: 192.0.2.5}]}]
`)
	s := servertest.Start(t, block(k, nil))
	check(t, s, map[string]string{
		"listed.prod.svc.cluster.local. A":   "NOERROR aa\nlisted.prod.svc.cluster.local. 5 IN A 10.96.0.1",
		"hidden.prod.svc.cluster.local. A":   nxdomain,
		"plain.default.svc.cluster.local. A": "NOERROR aa\nplain.default.svc.cluster.local. 5 IN A 10.96.0.3",
		"_sql._tcp.legacy.prod.svc.cluster.local. SRV": `NOERROR aa
_sql._tcp.legacy.prod.svc.cluster.local. 5 IN SRV 0 50 3306 2001-db8--1.legacy.prod.svc.cluster.local.
_sql._tcp.legacy.prod.svc.cluster.local. 5 IN SRV 0 50 3306 db1.legacy.prod.svc.cluster.local.
+ 2001-db8--1.legacy.prod.svc.cluster.local. 5 IN AAAA 2001:db8::1
+ db1.legacy.prod.svc.cluster.local. 5 IN A 192.0.2.1`,
		"selects.prod.svc.cluster.local. A":    nxdomain,
		"skipped.prod.svc.cluster.local. A":    nxdomain,
		"no-service.prod.svc.cluster.local. A": nxdomain,
		"prod.svc.cluster.local. A":            nodata, // it exists because objects are in it
		"nosuch.svc.cluster.local. A":          nxdomain,
	})
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	k := cluster(t, "cluster.local in-addr.arpa\npods verified", ports+"---"+pods+`
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: staging}
status: {podIP: 127.0.0.1}
`)
	for name, want := range map[string]map[string]string{
		"_http._tcp.web.prod.svc.cluster.local.": {"port-name": "http", "protocol": "tcp", "service": "web", "namespace": "prod", "kind": "svc", "endpoint": "", "client-namespace": "staging", "client-pod-name": "client"},
		"db-0.DB.prod.svc.cluster.local.":        {"endpoint": "db-0", "service": "db", "port-name": "", "protocol": ""},
		"10-0-0-1.prod.pod.cluster.local.":       {"kind": "pod", "service": "10-0-0-1", "namespace": "prod"},
		"a.b.c.d.e.f.cluster.local.":             {"kind": "", "service": ""},
		"example.org.":                           {"kind": "?", "client-namespace": "staging"},
		"1.0.0.10.in-addr.arpa.":                 {"kind": "?", "namespace": "?"},
	} {
		var got map[string]string
		probe := server.Stage{Name: "probe", Handler: handler(func(r *server.Reply, q *server.Query) server.Verdict {
			got = map[string]string{}
			for label := range want {
				v, known := k.Metadata(q, "kubernetes/"+label)
				if !known {
					v = "?"
				}
				got[label] = v
			}
			return server.Done
		})}
		d := servertest.Direct(servertest.Block(".", probe))
		d.Answer(servertest.Pack(t, servertest.Query(name, dns.TypeA, 0)), netip.MustParseAddrPort("127.0.0.1:1"), server.UDP)
		for label, w := range want {
			if got[label] != w {
				t.Errorf("%s: kubernetes/%s is %q, want %q", name, label, got[label], w)
			}
		}
	}
}

// handler is a function as a server.Handler.
type handler func(r *server.Reply, q *server.Query) server.Verdict

// Answer implements server.Handler.
func (h handler) Answer(r *server.Reply, q *server.Query) server.Verdict { return h(r, q) }
