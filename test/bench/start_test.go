//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/test/internal/process"
)

// objects are n Services with a slice of endpoints each, as the API server has them.
func objects(n int) []runtime.Object {
	var out []runtime.Object
	for i := range namespaces {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns-%d", i)}})
	}
	ready, port, proto, http := true, int32(80), corev1.ProtocolTCP, "http"
	for i := range n {
		name, ns := service(i)
		ip := clusterIP(i + 256)
		out = append(out, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
			Spec:       corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Name: http, Port: port, Protocol: proto}}},
		})
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name + "-x", Namespace: ns, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &http, Port: &port, Protocol: &proto}},
		}
		for k := range 9 {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 128+k, i/256, i%256)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			})
		}
		out = append(out, s)
	}
	return out
}

// BenchmarkStart is the time from reading the Corefile to the first answer, with 8,000 Services and 72,000 endpoints from an API server. That runs in
// the same process and on the same processors, so a real one makes less of it.
func BenchmarkStart(b *testing.B) {
	api := kubetest.Start(b, objects(8000)...)
	text := strings.NewReplacer("manifests {cluster}", "kubeconfig "+api.Kubeconfig("", kubetest.Token), "{port}", "0",
		"{log}", "", "{upstream}", "127.0.0.1:"+process.FreePort(b), "    bind 127.0.0.1\n", "").Replace(corefile)
	name, ns := service(0)
	q := pack(name+"."+ns+"."+zone, 1)
	var total time.Duration
	for b.Loop() {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		c, err := config.Parse(config.Source{Name: "Corefile", Text: []byte(text)}, "0")
		if err != nil {
			b.Fatal(err)
		}
		o, err := config.NewOffline(ctx, c, nil)
		if err != nil {
			b.Fatal(err)
		}
		reply, ok := o.Server().Direct(o.Listeners()[0].Blocks).Answer(q, netip.MustParseAddrPort("127.0.0.1:4000"), server.UDP)
		if !ok || reply[3]&0xF != 0 || reply[7] != 1 {
			b.Fatalf("the first answer is %x", reply)
		}
		total += time.Since(begin)
		o.Close()
		cancel()
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/start")
}

func TestReplaceMarked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.md")
	for _, c := range []struct{ before, after string }{
		{"", "new\n"},
		{"a\n" + beginMark + "\n\nold\n" + endMark + "\nb\n", "a\n" + beginMark + "\n\nnew\n" + endMark + "\nb\n"},
		{"no markers", ""},
	} {
		if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		err := replaceMarked(file, "new\n")
		got, _ := os.ReadFile(file)
		switch {
		case c.after == "" && (err == nil || string(got) != c.before):
			t.Errorf("%q became %q, %v; want an error and no change", c.before, got, err)
		case c.after != "" && (err != nil || string(got) != c.after):
			t.Errorf("%q became %q, %v", c.before, got, err)
		}
	}
}

// TestForeign: the cluster is in the files of other servers, and their configurations have no placeholders left.
func TestForeign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fill := strings.NewReplacer("{addr}", "127.0.0.1", "{port}", "5353", "{dir}", dir, "{upstream-port}", "5354", "{user}", "nobody")
	if err := writeForeign(dir, 2, fill); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"knot.conf": "listen: 127.0.0.1@5353", "dnsmasq.conf": "server=127.0.0.1#5354", "hosts": "10.96.1.1 svc-1.ns-1.svc.cluster.local",
		"cluster.zone": "_http._tcp.svc-0.ns-0.svc.cluster.local. SRV 0 100 80 svc-0.ns-0.svc.cluster.local.",
		"reverse.zone": "0.1.96 PTR svc-0.ns-0.svc.cluster.local.",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(text), want) || strings.ContainsAny(string(text), "{}") {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
}
