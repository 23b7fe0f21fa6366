package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/explain"
	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

const demo = "../../../deploy/demo/cluster"

// upstream answers www.example.com and nothing else; names with "fail" in them fail, and mail.example.com has no address.
func upstream(t *testing.T) string {
	return servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.RecursionAvailable = true
		switch name := q.Question[0].Name; {
		case strings.Contains(name, "fail"):
			m.Rcode = dns.RcodeServerFailure
		case name == "mail.example.com.":
		case name != "www.example.com.":
			m.Rcode = dns.RcodeNameError
		case q.Question[0].Qtype == dns.TypeA:
			rr, _ := dns.NewRR("www.example.com. 300 IN A 192.0.2.80")
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})
}

// corefile writes a Corefile with the demo's cluster and ours, whose other names go to an upstream.
func corefile(t *testing.T, upstream string) string {
	t.Helper()
	abs := func(p string) string {
		a, err := filepath.Abs(p)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	file := filepath.Join(t.TempDir(), "Corefile")
	text := fmt.Sprintf(".:1053 {\n kubernetes cluster.local in-addr.arpa {\n  manifests %q %q\n  pods verified\n }\n forward . %s\n loadbalance\n cache\n}\n", abs(demo), abs("testdata/cluster"), upstream)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// layered writes a Corefile in which other directives than kubernetes and forward answer, too. Pods of 10.244.6.0/24 may not ask for addresses in
// secret.example.com, and nobody listens where dead.example.com is asked for.
func layered(t *testing.T, upstream string) string {
	t.Helper()
	plain, err := os.ReadFile(corefile(t, upstream))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "Corefile")
	text := "secret.example.com:1053 {\n acl {\n  block type A net 10.244.6.0/24\n }\n forward . " + upstream + "\n}\n" +
		"dead.example.com:1053 {\n forward . 127.0.0.1:1\n}\ntls.example.com:1053 {\n forward . tls://127.0.0.1\n}\n" +
		strings.Replace(string(plain), ".:1053 {\n", `.:1053 {
 rewrite name exact old-db.example.com mysql.service-lab.svc.cluster.local
 template IN A made.example.com {
  answer "{{ .Name }} 60 IN A 192.0.2.9"
 }
 template IN ANY never.example.com {
  rcode NXDOMAIN
 }
 hosts {
  192.0.2.7 pinned.example.com
  10.96.100.20 vip.example.com
  10.9.9.9 web-svc.service-lab.svc.cluster.local
  fallthrough
 }
 file `+filepath.Join(filepath.Dir(file), "zone.example.db")+` zone.example.org
`, 1)
	zone := "$ORIGIN zone.example.org.\n@ 60 IN SOA ns hostmaster 1 60 60 60 60\n@ 60 IN NS ns\nns 60 IN A 192.0.2.8\nwww 60 IN A 192.0.2.10\n"
	for name, text := range map[string]string{file: text, filepath.Join(filepath.Dir(file), "zone.example.db"): zone} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func run(t *testing.T, args ...string) (out, errs string, exit int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	exit = explain.Run(t.Context(), args, &stdout, &stderr)
	return stdout.String(), stderr.String(), exit
}

// TestGolden runs each file of testdata: the arguments on the first line, then what is printed and the exit status. CONF is a
// Corefile with an upstream server, LAYERS one with more directives, DEMO and OURS are folders of manifests; UPSTREAM is that server, and SERVER one that
// serves CONF. With UPDATE_GOLDEN=1 in the environment what is printed is written there.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files:", err)
	}
	up := upstream(t)
	conf, layers, served := corefile(t, up), layered(t, up), serve(t, corefile(t, up))
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			command, want, _ := strings.Cut(string(b), "\n")
			args := strings.Fields(command)
			for i := range args {
				switch args[i] {
				case "CONF":
					args[i] = conf
				case "LAYERS":
					args[i] = layers
				case "SERVER":
					args[i] = served
				case "DEMO":
					args[i] = demo
				case "OURS":
					args[i] = "testdata/cluster"
				}
			}
			out, errs, exit := run(t, args...)
			got := strings.NewReplacer(conf, "CONF", layers, "LAYERS", up, "UPSTREAM", served, "SERVER", demo, "DEMO", "testdata/cluster", "OURS").Replace(fmt.Sprintf("%s%sexit %d\n", out, errs, exit))
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, []byte(command+"\n"+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("clusterdns explain %s\n got:\n%s\nwant:\n%s", command, got, want)
			}
		})
	}
}

// TestSecondCluster: names of every cluster of a Corefile are explained, not only those of the first.
func TestSecondCluster(t *testing.T) {
	t.Parallel()
	file, dir := filepath.Join(t.TempDir(), "Corefile"), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(dir, "one.yaml"): "apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n",
		filepath.Join(dir, "two.yaml"): "apiVersion: v1\nkind: Namespace\nmetadata: {name: two}\n",
		file: fmt.Sprintf("one.local:1053 {\n kubernetes {\n  manifests %q\n }\n}\ntwo.local:1053 {\n kubernetes {\n  manifests %q\n }\n}\n",
			filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"web.one.svc.one.local": "there is no Service web in namespace one",
		"web.two.svc.two.local": "there is no Service web in namespace two",
		"web.one.svc.two.local": "there is no namespace one",
	} {
		if out, errs, _ := run(t, "-conf", file, name); !strings.Contains(out, "ABSENT: does not resolve: "+want) {
			t.Errorf("%s: want %s\n%s%s", name, want, out, errs)
		}
	}
}

// TestServer asks a server over the network, which knows reasons but no objects.
func TestServer(t *testing.T) {
	t.Parallel()
	addr := serve(t, corefile(t, upstream(t)))
	for name, want := range map[string]struct {
		exit int
		text []string
	}{
		"web-svc.service-lab":    {0, []string{"10.96.100.10", "WORKS: resolves; only DNS was asked"}},
		"mysql-9.mysql":          {3, []string{"ABSENT: does not exist", "no service mysql in default; perhaps"}},
		"mysql.default":          {3, []string{"no service mysql in default; there is one in service-lab"}},
		"www.example.com":        {0, []string{"search-path candidate of www.example.com", "192.0.2.80"}},
		"www.fail.example.com.":  {1, []string{"UNKNOWN: could not be looked up: SERVFAIL"}},
		"_grpc._tcp.web-svc.svc": {3, []string{"ABSENT"}},
	} {
		out, errs, exit := run(t, "-server", addr, name)
		for _, text := range want.text {
			if exit != want.exit || !strings.Contains(out, text) {
				t.Errorf("%s: exit %d, want %d and %q in\n%s%s", name, exit, want.exit, text, out, errs)
			}
		}
	}
}

// serve serves a Corefile over the network.
func serve(t *testing.T, file string) (addr string) {
	t.Helper()
	off, err := config.NewOffline(t.Context(), parse(t, file), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(off.Close)
	return servertest.Start(t, off.Listeners()[0].Blocks...).Addr
}

func parse(t *testing.T, file string) *config.Config {
	t.Helper()
	src, err := config.ReadSource(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(src, config.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestKubeconfig reads a cluster from its API server, with Pods and where listing them is not allowed.
func TestKubeconfig(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/cluster/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := kubetest.Start(t, objects(t, string(text))...)
	conf := s.Kubeconfig("", kubetest.Token)
	for name, want := range map[string]struct {
		exit int
		text string
	}{
		"renamed-port.shop": {4, "no container of its Pods has a port named grpc (they declare rpc 9000)"},
		"starting.shop":     {4, "0 of 2 endpoints are ready"},
		"renamed-prot.shop": {3, "there is a Service renamed-port"},
	} {
		out, errs, exit := run(t, "-kubeconfig", conf, name)
		if exit != want.exit || !strings.Contains(out, want.text) {
			t.Errorf("%s: exit %d, want %d and %q in\n%s%s", name, exit, want.exit, want.text, out, errs)
		}
	}
	if _, errs, exit := run(t, "-kubeconfig", conf, "-context", "nosuch", "x"); exit != 1 || !strings.Contains(errs, `no context "nosuch"`) {
		t.Errorf("exit %d, %s", exit, errs)
	}
	if _, errs, exit := run(t, "-kubeconfig", s.Kubeconfig("", "wrong"), "x"); exit != 1 || !strings.Contains(errs, s.Addr()) {
		t.Errorf("exit %d, %s", exit, errs)
	}
}

// TestHandlerReadsDetails: what a running server does not keep is read from its API server for the explanation, and is not known without it.
func TestHandlerReadsDetails(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/cluster/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := kubetest.Start(t, objects(t, string(text))...)
	c, err := config.Parse(config.Source{Name: "Corefile", Text: fmt.Appendf(nil, ".:53 {\n kubernetes cluster.local {\n  kubeconfig %q\n }\n}\n", s.Kubeconfig("", kubetest.Token))}, config.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	off, err := config.NewOffline(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(off.Close)
	h := explain.Served(off.Server(), off.Listeners)
	get := func() string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/explain?name=renamed-port.shop", nil))
		return w.Body.String()
	}
	body := get()
	for _, want := range []string{"selector app=api", "Pod api-0", "BROKEN: resolves, but port grpc (9000/TCP) will not work: no container of its Pods has a port named grpc (they declare rpc 9000)"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	s.Fail(http.StatusInternalServerError)
	if body := get(); !strings.Contains(body, "selector unknown") || !strings.Contains(body, "no EndpointSlice has a port of this name and protocol") {
		t.Errorf("without the API server:\n%s", body)
	}
}

// TestDocumentedJSON: docs/explain.md has a row for each field of the JSON.
func TestDocumentedJSON(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var look func(typ reflect.Type)
	look = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			if !strings.Contains(string(doc), "`"+name+"`") {
				t.Errorf("docs/explain.md does not say what `%s` of %s is", name, typ)
			}
			look(f.Type)
		}
	}
	look(reflect.TypeFor[explain.Explanation]())
	if len(seen) != 8 {
		t.Errorf("%d objects were looked at, want 8", len(seen))
	}
}

// objects are the documents of a text as objects of the API.
func objects(t *testing.T, text string) (out []kruntime.Object) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var o kruntime.Object = new(discoveryv1.EndpointSlice)
		switch {
		case strings.Contains(doc, "kind: Namespace\n"):
			o = new(corev1.Namespace)
		case strings.Contains(doc, "kind: Service\n"):
			o = new(corev1.Service)
		case strings.Contains(doc, "kind: Pod\n"):
			o = new(corev1.Pod)
		}
		if err := yaml.Unmarshal([]byte(doc), o); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// TestHandler explains over HTTP what the live index knows.
func TestHandler(t *testing.T) {
	t.Parallel()
	off, err := config.NewOffline(t.Context(), parse(t, corefile(t, upstream(t))), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(off.Close)
	h := explain.Served(off.Server(), off.Listeners)
	get := func(method, query string) (int, string, http.Header) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/explain?"+query, nil))
		body, _ := io.ReadAll(w.Body)
		return w.Code, string(body), w.Header()
	}
	code, body, header := get(http.MethodGet, "name=web-no-endpoints&from=service-lab&o=json")
	var x explain.Explanation
	if err := json.Unmarshal([]byte(body), &x); err != nil || code != http.StatusOK || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %v\n%s", code, header, err, body)
	}
	if x.Verdict.Kind != explain.Broken || x.Service == nil || x.Service.Selector != "app=wbe" || x.Service.Ports[0].Problem != "no endpoints" || len(x.Verdict.Notes) != 2 {
		t.Errorf("%+v", x)
	}
	code, body, header = get(http.MethodGet, "name=web-headless.service-lab&ndots=1")
	if code != http.StatusOK || !strings.Contains(body, "WORKS: resolves, and all 3 endpoints are ready") || strings.Contains(body, "\x1b") || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		t.Errorf("%d %v\n%s", code, header, body)
	}
	for query, want := range map[string]int{
		"": 400, "name=" + strings.Repeat("a", 5000): 414, "name=a..b": 400, "name=x&ndots=99": 400, "name=x&ndots=x": 400,
		"name=x&o=xml": 400, "name=x&pod=y": 400, "name=x&o=text": 200,
	} {
		if code, body, _ := get(http.MethodGet, query); code != want {
			t.Errorf("%.40s: %d %s, want %d", query, code, body, want)
		}
	}
	if code, _, _ := get(http.MethodPost, "name=x"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
	if code, _, _ := get(http.MethodHead, "name=web-svc.service-lab"); code != http.StatusOK {
		t.Errorf("HEAD: %d", code)
	}
}

// TestHostileNames: whatever is asked for, nothing panics, and no control character reaches the terminal.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := server.New(server.DefaultLimits(), server.Hooks{})
	off, err := config.NewOffline(t.Context(), parse(t, corefile(t, upstream(t))), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(off.Close)
	e, err := explain.New(s, off.Listeners(), netip.MustParseAddr("::1"), own)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		".", "_", "_._", "_.a.b", "a\\.b", "a\\..b", "svc", "x.svc", "pod", "a.pod", "a.b.pod", "x.y.z.pod", "svc.cluster.local.", "cluster.local", "cluster.local.",
		"_a._b", "_a._b.c", "_a._b.c.d", "_a.b.c.d", "\\000.service-lab", "a b.service-lab", "$(reboot).service-lab", "`x`", "';x;'.nosuch", strings.Repeat("a", 63) + ".service-lab",
		strings.Repeat("a.", 120), "\x1b[31m.service-lab", "é.service-lab", "10-0-0-1.nosuch.pod", "--.service-lab.pod", "1.0.96.10.in-addr.arpa.",
	} {
		x, err := e.Explain(t.Context(), explain.Request{Name: name, NDots: 5})
		if err != nil {
			continue
		}
		var b bytes.Buffer
		if err := x.Text(&b, false); err != nil || strings.ContainsAny(b.String(), "\x1b\x00") {
			t.Errorf("%q: %v\n%s", name, err, b.String())
		}
		for _, n := range x.Next {
			if strings.Contains(n, " $(") || strings.Contains(n, " `") || strings.Contains(n, " ';x;'") {
				t.Errorf("%q: a command that the shell takes apart: %s", name, n)
			}
		}
	}
}

// TestColour: text has colours only when it is asked for, and a file or pipe is no terminal.
func TestColour(t *testing.T) {
	t.Parallel()
	x := &explain.Explanation{Name: "x", Verdict: explain.Verdict{Kind: explain.Broken, Summary: "no"}}
	var with, without bytes.Buffer
	if err := x.Text(&with, true); err != nil || !strings.Contains(with.String(), "\x1b[1;31mBROKEN\x1b[0m") {
		t.Errorf("%q", with.String())
	}
	if err := x.Text(&without, false); err != nil || strings.Contains(without.String(), "\x1b") {
		t.Errorf("%q", without.String())
	}
}

// FuzzName: no name makes the explainer panic or write control characters, and what it explains has a verdict.
func FuzzName(f *testing.F) {
	for _, name := range []string{"web-svc.service-lab", "_http._tcp.web-svc.service-lab", "10-244-1-10.service-lab.pod", "a\\.b.svc", "..", "svc.cluster.local.", "10.96.100.20", "::1", "\x00", "_.pod"} {
		f.Add(name, "service-lab", 5)
	}
	abs, err := filepath.Abs(demo)
	if err != nil {
		f.Fatal(err)
	}
	text := fmt.Sprintf(".:53 {\n kubernetes cluster.local in-addr.arpa ip6.arpa {\n  manifests %q\n  pods verified\n }\n}\n", abs)
	c, err := config.Parse(config.Source{Name: "Corefile", Text: []byte(text)}, config.DefaultPort)
	if err != nil {
		f.Fatal(err)
	}
	off, err := config.NewOffline(f.Context(), c, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(off.Close)
	e, err := explain.New(off.Server(), off.Listeners(), netip.MustParseAddr("127.0.0.1"), own)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, from string, ndots int) {
		x, err := e.Explain(t.Context(), explain.Request{Name: name, From: from, NDots: min(max(ndots, 0), 15)})
		if err != nil {
			return
		}
		var b strings.Builder
		if err := x.Text(&b, false); err != nil || x.Verdict.Kind == "" || x.Verdict.Summary == "" {
			t.Fatalf("%q: %+v, %v", name, x.Verdict, err)
		}
		for _, r := range b.String() {
			if r != '\n' && unicode.IsControl(r) {
				t.Fatalf("%q: control character %q", name, r)
			}
		}
	})
}

// own looks into the live index alone.
func own(h explain.ClusterHandler) kubernetes.Inspector { return h }

// TestRemarks: an object of a kind that does not exist is spoken of, and not only what is missing by that.
func TestRemarks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "slip.yaml")
	text := "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Servce\nmetadata: {name: web, namespace: shop}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, exit := run(t, "-manifests", file, "web.shop")
	const want = "is Service of v1 meant?"
	if exit != 3 || !strings.HasPrefix(errs, "clusterdns explain: warning: ") || !strings.Contains(errs, want) || strings.Contains(out, want) {
		t.Errorf("exit %d\n%s\n%s\nwant a warning %q", exit, out, errs, want)
	}
}
