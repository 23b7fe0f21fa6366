package dump_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/dump"
	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

const (
	demo        = "../../../deploy/demo/cluster"
	conformance = "../../../test/conformance/testdata/"
)

// write writes a file of the test's own and gives its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// run is the subcommand; it gives the path of a file with what it wrote.
func run(t *testing.T, args ...string) (file, text string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if exit := dump.Run(t.Context(), args, &stdout, &stderr); exit != 0 || stderr.Len() > 0 {
		t.Fatalf("dump %q: exit %d\n%s", args, exit, stderr.String())
	}
	return write(t, "dump.yaml", stdout.String()), stdout.String()
}

// corefile is one with the options of a kubernetes directive.
func corefile(t *testing.T, manifests, options string) string {
	t.Helper()
	abs, err := filepath.Abs(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "Corefile", fmt.Sprintf(".:53 {\n kubernetes cluster.local in-addr.arpa ip6.arpa {\n  manifests %q\n%s\n }\n}\n", abs, options))
}

// direct answers by a Corefile.
func direct(t *testing.T, file string) *server.Direct {
	t.Helper()
	src, err := config.ReadSource(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(src, config.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	o, err := config.NewOffline(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o.Server().Direct(o.Listeners()[0].Blocks)
}

type question struct{ Name, Type string }

// ask gives the answer as text, records sorted, the serial as 0.
func ask(t *testing.T, d *server.Direct, q question) string {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(q.Name, dns.StringToType[q.Type])
	m.SetEdns0(4096, false)
	b, err := m.Pack()
	if err != nil {
		t.Fatalf("%v: %v", q, err)
	}
	reply, _ := d.Answer(b, netip.MustParseAddrPort("127.0.0.1:4000"), server.TCP)
	var r dns.Msg
	if err := r.Unpack(reply); err != nil {
		t.Fatalf("%v: %v", q, err)
	}
	var lines []string
	for _, rr := range slices.Concat(r.Answer, r.Ns, r.Extra) {
		if soa, ok := rr.(*dns.SOA); ok {
			soa.Serial = 0
		}
		lines = append(lines, rr.String())
	}
	slices.Sort(lines)
	return dns.RcodeToString[r.Rcode] + "\n" + strings.Join(lines, "\n")
}

// recorded are the questions of one of the conformance suite's variants.
func recorded(t *testing.T, variant string) (out []question) {
	t.Helper()
	f, err := os.Open(conformance + "answers/" + variant + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for sc := bufio.NewScanner(z); sc.Scan(); {
		var q question
		if err := json.Unmarshal(sc.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		if _, err := wire.ParseName(q.Name); err == nil && dns.StringToType[q.Type] != 0 {
			out = append(out, q)
		}
	}
	return out
}

// everything are questions for all that an inventory has.
func everything(v *kubernetes.Inventory) (out []question) {
	add := func(name string) {
		for _, typ := range []string{"A", "AAAA", "SRV", "CNAME", "TXT"} {
			out = append(out, question{name + ".cluster.local.", typ})
		}
	}
	reverse := func(a netip.Addr) {
		if name, err := dns.ReverseAddr(a.String()); err == nil {
			out = append(out, question{name, "PTR"})
		}
	}
	for _, n := range v.NamespaceNames() {
		add(n + ".svc")
	}
	for i := range v.Services {
		s := &v.Services[i]
		name := s.Name + "." + s.Namespace + ".svc"
		add(name)
		for _, p := range s.Ports {
			add("_" + p.Name + "._" + p.Protocol.String() + "." + name)
		}
		for _, a := range s.ClusterIPs {
			reverse(a)
		}
	}
	for i := range v.Slices {
		s := &v.Slices[i]
		for _, e := range s.Endpoints {
			label := strings.NewReplacer(".", "-", ":", "-").Replace(e.Addr.String())
			if e.Hostname != "" {
				label = e.Hostname
			}
			add(label + "." + s.EndpointSlice.Service + "." + s.Namespace + ".svc")
			reverse(e.Addr)
		}
	}
	for i := range v.Pods {
		for _, a := range v.Pods[i].IPs {
			add(strings.NewReplacer(".", "-", ":", "-").Replace(a.String()) + "." + v.Pods[i].Namespace + ".pod")
		}
	}
	return slices.DeleteFunc(out, func(q question) bool {
		_, err := wire.ParseName(q.Name)
		return err != nil || strings.Contains(q.Name, "_.")
	})
}

func inventory(t *testing.T, path, options string) *kubernetes.Inventory {
	t.Helper()
	in := &directive.Input{Zones: []string{"cluster.local."}, Warn: func(directive.Arg, string, ...any) {}}
	in.Name = directive.Arg{Text: "kubernetes"}
	o, err := kubernetes.Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	o.Manifests = []string{path}
	v, err := kubernetes.ReadInventory(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRoundTrip: a dump answers every question as what it was made of does.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	cluster := conformance + "cluster.yaml"
	for name, c := range map[string]struct {
		path, options string
		questions     []question
	}{
		"demo":        {demo, "pods verified", everything(inventory(t, demo, ""))},
		"everything":  {cluster, "pods verified", everything(inventory(t, cluster, ""))},
		"kubeadm":     {cluster, "pods insecure", recorded(t, "1-kubeadm")},
		"verified":    {cluster, "pods verified\nendpoint_pod_names\nignore empty_service", recorded(t, "2-verified")},
		"noendpoints": {cluster, "noendpoints", recorded(t, "4-noendpoints")},
		"zonal":       {cluster, "namespace_labels env=prod\nzonal\npods insecure", recorded(t, "5-zonal")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(c.questions) < 100 {
				t.Fatalf("only %d questions", len(c.questions))
			}
			before := corefile(t, c.path, c.options)
			file, _ := run(t, "-conf", before)
			was, is := direct(t, before), direct(t, corefile(t, file, c.options))
			wrong := 0
			for _, q := range c.questions {
				if want, got := ask(t, was, q), ask(t, is, q); got != want && wrong < 10 {
					wrong++
					t.Errorf("%v:\n%s\nwant\n%s", q, got, want)
				}
			}
		})
	}
}

// shape is what must stay as it was when names do not: for each Service its type, ports and endpoints by readiness.
func shape(v *kubernetes.Inventory) (out []string) {
	for i := range v.Services {
		s := &v.Services[i]
		text := fmt.Sprintf("%d headless=%t unready=%t selector=%d ips=%d external=%d", s.Type, s.Headless, s.Unready, len(s.Labelled), len(s.ClusterIPs), len(s.External))
		for j, p := range s.Ports {
			text += fmt.Sprintf(" %d/%s→%d", p.Number, p.Protocol, len(s.Targets[j]))
		}
		pods, _ := v.PodsOf(s.Namespace)
		selected := 0
		for j := range pods {
			if s.Selects(pods[j].Labels) {
				selected++
			}
		}
		text += fmt.Sprintf(" pods=%d", selected)
		var states []string
		for _, sl := range v.SlicesOf(s.Namespace, s.Name) {
			for _, e := range sl.Endpoints {
				states = append(states, fmt.Sprintf("%t%t%t4=%t host=%t pod=%t", e.Ready, e.Serving, e.Terminating, e.Addr.Is4(), e.Hostname != "", e.Pod != ""))
			}
		}
		slices.Sort(states)
		out = append(out, text+strings.Join(states, ","))
	}
	slices.Sort(out)
	return out
}

// TestAnonymize: names and addresses are gone, structure stays, and a second time gives the same.
func TestAnonymize(t *testing.T) {
	t.Parallel()
	file, text := run(t, "-manifests", demo, "-anonymize")
	_, body, _ := strings.Cut(text, "\n") // behind the line that has the time
	if _, again := run(t, "-manifests", demo, "-anonymize"); !strings.HasSuffix(again, "\n"+body) {
		t.Error("a second time gives something else")
	}
	before, after := inventory(t, demo, ""), inventory(t, file, "")
	was, is := shape(before), shape(after)
	for i := range was { // lengths of names of target ports differ, those of numbers do not
		was[i], is[i] = regexp.MustCompile(`→\d+`).ReplaceAllString(was[i], ""), regexp.MustCompile(`→\d+`).ReplaceAllString(is[i], "")
	}
	if !slices.Equal(was, is) {
		t.Errorf("structure\n%s\nwas\n%s", strings.Join(is, "\n"), strings.Join(was, "\n"))
	}
	for _, word := range secrets(before) {
		if regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text) {
			t.Errorf("%q can be read", word)
		}
	}
	for _, kept := range []string{"name: default", "name: kube-system", "name: kubernetes", "name: kube-dns", "externalName: name-", ".svc.cluster.local", "example.com", "clusterIP: None", "publishNotReadyAddresses: true"} {
		if !strings.Contains(text, kept) {
			t.Errorf("no %q", kept)
		}
	}
	// The target of the ExternalName Service in the cluster is still one that exists.
	d := direct(t, corefile(t, file, "pods verified"))
	found := false
	for i := range after.Services {
		if s := &after.Services[i]; s.Type == kubernetes.ExternalName && strings.Contains(s.ExternalName, "cluster.local") {
			found = strings.Contains(ask(t, d, question{s.Name + "." + s.Namespace + ".svc.cluster.local.", "A"}), "IN\tA\t")
		}
	}
	if !found {
		t.Error("the ExternalName Service leads nowhere")
	}
}

// TestAnonymizeRest: the root in a search list stays the root, and a label without a prefix is nobody's but the user's.
func TestAnonymizeRest(t *testing.T) {
	t.Parallel()
	file := write(t, "cluster.yaml", `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {acme.kubernetes.io: a, kubernetes.io: b, node.kubernetes.io/role: c}}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: shop}
spec: {dnsConfig: {searches: [".", shop.svc.cluster.local, corp.example.]}, containers: [{name: a}]}
status: {podIP: 10.1.0.9}
`)
	file, text := run(t, "-manifests", file, "-anonymize")
	if strings.Contains(text, "acme") || !strings.Contains(text, "node.kubernetes.io/role: ") {
		t.Error(text)
	}
	v := inventory(t, file, "")
	if got, want := v.Pods[0].Searches, []string{".", v.NamespaceNames()[0] + ".svc.cluster.local", "host-1.example.com."}; !slices.Equal(got, want) {
		t.Errorf("searches %q, want %q", got, want)
	}
}

// secrets are the words of an inventory that must not be read any more.
func secrets(v *kubernetes.Inventory) []string {
	kept := []string{"default", "kube-system", "kubernetes", "kube-dns", ""}
	var out []string
	add := func(words ...string) {
		for _, w := range words {
			if !slices.Contains(kept, w) && !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	add(v.NamespaceNames()...)
	for i := range v.Services {
		add(v.Services[i].Name)
		for _, a := range v.Services[i].External {
			add(a.Addr.String())
		}
	}
	for i := range v.Slices {
		add(v.Slices[i].Name)
		add(v.Slices[i].Nodes...)
		for _, e := range v.Slices[i].Endpoints {
			add(e.Hostname, e.Pod, e.Zone)
		}
	}
	for i := range v.Pods {
		add(v.Pods[i].Name, v.Pods[i].Node)
		for _, a := range v.Pods[i].IPs {
			add(a.String())
		}
	}
	return out
}

// TestConsistent: what was equal stays equal, across kinds of objects.
func TestConsistent(t *testing.T) {
	t.Parallel()
	_, text := run(t, "-anonymize", "-manifests", write(t, "in.yaml", `apiVersion: v1
kind: Service
metadata: {name: db, namespace: prod, labels: {app: db, acme.example/owner: jane}}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: acme-rpc, port: 9, targetPort: acme-rpc}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-x, namespace: prod, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: acme-rpc, port: 9, protocol: TCP}]
endpoints:
- {addresses: [10.1.2.3], hostname: db-0, zone: moon-base, nodeName: rack.acme.example, targetRef: {kind: Pod, name: db-0}}
- {addresses: [8.8.8.8], hostname: 10-1-2-3}
- {addresses: [127.0.0.1]}
---
apiVersion: v1
kind: Service
metadata: {name: alias, namespace: prod}
spec: {type: ExternalName, externalName: DB-0.db.prod.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: out, namespace: prod}
spec: {type: LoadBalancer, clusterIP: 10.1.2.3}
status: {loadBalancer: {ingress: [{hostname: lb.acme.example}, {ip: 1.1.1.1}]}}
`))
	for _, secret := range []string{"acme", "jane", "prod", "10.1.2.3", "10-1-2-3", "8.8.8.8", "1.1.1.1", "moon", "rack", "alias"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q can be read in\n%s", secret, text)
		}
	}
	m := regexp.MustCompile(`externalName: (name-\d+)-0\.(name-\d+)\.(name-\d+)\.svc\.cluster\.local`).FindStringSubmatch(text)
	if m == nil || m[1] != m[2] {
		t.Fatalf("the target of the alias: %q in\n%s", m, text)
	}
	for _, want := range []string{"hostname: " + m[1] + "-0", "name: " + m[1] + "-0", "kubernetes.io/service-name: " + m[1], "namespace: " + m[3], "app: " + m[1], "- 127.0.0.1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	addr := regexp.MustCompile(`clusterIP: (10\.\d+\.\d+\.\d+)`).FindStringSubmatch(text)
	if addr == nil || !strings.Contains(text, "hostname: "+strings.ReplaceAll(addr[1], ".", "-")) {
		t.Errorf("the dashed address does not follow the address %q", addr)
	}
}

// TestHeader: a dump says when and from where it is, and an anonymized one does not say from where.
func TestHeader(t *testing.T) {
	t.Parallel()
	file := write(t, "customer.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-manifests", file}, `^# Written by clusterdns dump on \d{4}-\d\d-\d\dT[\d:]+Z from -manifests .*customer.yaml\.\n# It is not anonymized: .*\n# Pods are missing: .*\n---\n`},
		{[]string{"-manifests", file, "-anonymize"}, `^# Written by clusterdns dump on \d{4}-\d\d-\d\dT[\d:]+Z from a cluster\.\n# It is anonymized: .*\n# Pods are missing: .*\n---\n`},
	} {
		var out, errs bytes.Buffer
		if status := dump.Run(t.Context(), c.args, &out, &errs); status != 0 || !regexp.MustCompile(c.want).MatchString(out.String()) {
			t.Errorf("%q: %d %s\n%s", c.args, status, &errs, &out)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{
		"-h": 0, "-nosuch": 2, "x": 2, "-manifests a -conf b": 2, "-manifests /nowhere": 1, "-conf /nowhere": 1, "-kubeconfig /nowhere": 1,
	} {
		var stdout, stderr bytes.Buffer
		if exit := dump.Run(t.Context(), strings.Fields(args), &stdout, &stderr); exit != want || want > 0 && !strings.HasPrefix(stderr.String(), "clusterdns dump: ") {
			t.Errorf("dump %s: exit %d, %q", args, exit, stderr.String())
		}
	}
}

// serving serves, over HTTP, what servers of a Corefile have in memory, and gives the address.
func serving(t *testing.T, file string) string {
	t.Helper()
	src, err := config.ReadSource(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(src, config.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	o, err := config.NewOffline(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return listen(t, dump.Served(o.Listeners))
}

func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestMemoryRoundTrip: what a running server has in memory answers as that server does. What options hid from it cannot be read there, so they are left
// out where it is read back.
func TestMemoryRoundTrip(t *testing.T) {
	t.Parallel()
	cluster := conformance + "cluster.yaml"
	for name, c := range map[string]struct {
		path, options, back string
		questions           []question
	}{
		"demo":        {demo, "pods verified", "pods verified", everything(inventory(t, demo, ""))},
		"everything":  {cluster, "pods verified", "pods verified", everything(inventory(t, cluster, ""))},
		"kubeadm":     {cluster, "pods insecure", "pods insecure", recorded(t, "1-kubeadm")},
		"verified":    {cluster, "pods verified\nendpoint_pod_names\nignore empty_service", "pods verified\nendpoint_pod_names\nignore empty_service", recorded(t, "2-verified")},
		"noendpoints": {cluster, "noendpoints", "noendpoints", recorded(t, "4-noendpoints")},
		"zonal":       {cluster, "namespace_labels env=prod\nzonal\npods insecure", "zonal\npods insecure", recorded(t, "5-zonal")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(c.questions) < 100 {
				t.Fatalf("only %d questions", len(c.questions))
			}
			before := corefile(t, c.path, c.options)
			file, text := run(t, "-admin", serving(t, before))
			if !strings.Contains(text, " from the memory of a running server.\n# It is not anonymized") {
				t.Errorf("it does not say what it is:\n%.300s", text)
			}
			was, is := direct(t, before), direct(t, corefile(t, file, c.back))
			wrong, hidden := 0, 0
			for _, q := range c.questions {
				want, got := ask(t, was, q), ask(t, is, q)
				if name := hiddenName(want); got != want && name != "" && strings.HasPrefix(ask(t, was, question{name, "A"}), "NXDOMAIN") {
					hidden++
				} else if got != want && wrong < 10 {
					wrong++
					t.Errorf("%v:\n%s\nwant\n%s", q, got, want)
				}
			}
			if hides := strings.Contains(c.options, "namespace_labels"); hides != (hidden > 0) {
				t.Errorf("%d names of namespaces that are hidden", hidden)
			}
		})
	}
}

// hiddenName is the name that a reply's PTR record has. Servers answer addresses of namespaces that namespace_labels hides, though not their names.
func hiddenName(reply string) string {
	_, name, _ := strings.Cut(reply, "\tIN\tPTR\t")
	name, _, _ = strings.Cut(name, "\n")
	return name
}

// TestMemoryAnonymized: the server takes the names out, so that they never leave it.
func TestMemoryAnonymized(t *testing.T) {
	t.Parallel()
	addr := serving(t, corefile(t, demo, "pods verified\nendpoint_pod_names"))
	file, text := run(t, "-admin", addr, "-anonymize")
	_, body, _ := strings.Cut(text, "\n")
	if _, again := run(t, "-admin", addr, "-anonymize"); !strings.HasSuffix(again, "\n"+body) {
		t.Error("a second time gives something else")
	}
	before, after := inventory(t, demo, ""), inventory(t, file, "")
	if len(before.Services) != len(after.Services) || len(before.Slices) != len(after.Slices) || len(before.Pods) != len(after.Pods) {
		t.Errorf("%d Services, %d slices and %d Pods, want %d, %d and %d", len(after.Services), len(after.Slices), len(after.Pods), len(before.Services), len(before.Slices), len(before.Pods))
	}
	for _, word := range secrets(before) {
		if regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text) {
			t.Errorf("%q can be read", word)
		}
	}
	for _, s := range after.Services {
		if s.Selector && (s.Labelled != nil || s.Targets != nil) {
			t.Errorf("Service %s selects %v and has target ports %v, which no server knows", s.Name, s.Labelled, s.Targets)
		}
	}
}

// endless is a kubernetes directive whose cluster has no end.
type endless struct {
	server.Handler
	ended chan struct{}
	ready bool
}

func (endless) Zones() []wire.Zone { return nil }
func (endless) Stale() bool        { return false }
func (e endless) Ready() bool      { return e.ready }

func (e endless) Objects(yield func(kubernetes.Object) bool) {
	defer close(e.ended)
	yield(&kubernetes.Namespace{Name: "prod"})
	for i := 0; yield(&kubernetes.Service{Namespace: "prod", Name: fmt.Sprint("service-", i)}); i++ {
	}
}

func (e endless) listeners() []server.Listener {
	return []server.Listener{{Blocks: []*server.Block{{Chain: []server.Stage{{Handler: e}}}}}}
}

// TestStreams: objects go out while others have not been looked at yet, and whoever goes away ends it.
func TestStreams(t *testing.T) {
	t.Parallel()
	e := endless{ended: make(chan struct{}), ready: true}
	addr := listen(t, dump.Served(e.listeners))
	resp, err := http.Get("http://" + addr + "/dump") //nolint:noctx // the test's own server
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.CopyN(io.Discard, resp.Body, 4<<20)
	if err != nil || resp.Header.Get("Content-Type") != "application/yaml" {
		t.Fatalf("%d bytes, %v, %v", n, err, resp.Header)
	}
	resp.Body.Close()
	<-e.ended
}

// TestServed: what is refused, and what is not a dump.
func TestServed(t *testing.T) {
	t.Parallel()
	ask := func(h http.Handler, method, target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, nil))
		return w
	}
	none := dump.Served(func() []server.Listener { return nil })
	ready, reading := dump.Served(endless{ready: true}.listeners), dump.Served(endless{}.listeners)
	for _, c := range []struct {
		h              http.Handler
		method, target string
		want           int
	}{
		{ready, http.MethodHead, "/dump", 200},
		{ready, http.MethodPost, "/dump", 405},
		{ready, http.MethodGet, "/dump?anonymize=yes", 400},
		{ready, http.MethodGet, "/dump?anonymise=true", 400},
		{reading, http.MethodGet, "/dump", 503},
		{none, http.MethodGet, "/dump", 404},
	} {
		if w := ask(c.h, c.method, c.target); w.Code != c.want || c.want != 200 && w.Body.Len() == 0 {
			t.Errorf("%s %s: %d, want %d: %s", c.method, c.target, w.Code, c.want, w.Body)
		}
	}
}

// TestAdminFails: a dump that is not whole, or none, is a failure with a reason.
func TestAdminFails(t *testing.T) {
	t.Parallel()
	half := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = io.WriteString(w, "---\napiVersion: v1\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	elsewhere := listen(t, http.RedirectHandler("http://192.0.2.1/dump", http.StatusFound))
	page := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!doctype html>hello") }))
	other := listen(t, http.NotFoundHandler())
	busy := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "another dump \x1b[31m"+strings.Repeat("x", 5000), http.StatusTooManyRequests)
	}))
	for _, c := range []struct {
		args string
		exit int
		want string
	}{
		{"-admin " + half, 1, "the dump is not whole: unexpected EOF"},
		{"-admin " + elsewhere, 1, "302 Found: this is no console of clusterdns"},
		{"-admin " + page, 1, "200 OK: this is no console of clusterdns"},
		{"-admin " + other, 1, "404 Not Found: this is no console of clusterdns"},
		{"-admin " + busy, 1, "429 Too Many Requests: another dump  [31mxxx"},
		{"-admin http://127.0.0.1/", 2, `"http://127.0.0.1/" is not an address; write it like 127.0.0.1:8053`},
		{"-admin :8053", 2, "is not an address"},
		{"-admin a:b:c", 2, "is not an address"},
		{"-admin 127.0.0.1 -zone x", 2, "none of -manifests, -kubeconfig, -conf and -zone goes with it"},
		{"-admin 127.0.0.1 -conf x", 2, "none of -manifests"},
	} {
		var out, errs bytes.Buffer
		if exit := dump.Run(t.Context(), strings.Fields(c.args), &out, &errs); exit != c.exit || !strings.Contains(errs.String(), c.want) || errs.Len() > 700 || strings.Contains(errs.String(), "\x1b") {
			t.Errorf("dump %s: exit %d, %q, want %d and %q", c.args, exit, errs.String(), c.exit, c.want)
		}
	}
}
