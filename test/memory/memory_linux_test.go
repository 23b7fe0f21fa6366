// Package memory measures what a large cluster takes: resident after the first lists, at their peak, and at the peak of a forced relist, with lists
// that are streamed (WatchList) and with lists in pages, and what Pods take besides. The server is a process of its own, the API server is this one.
//
//	go test -count=1 -v -timeout 30m ./test/memory -services 8000 -endpoints 75000 -pods 75000 -judge
//
// Without flags the cluster is small, which shows that it works and not more: memory is printed, and judged with -judge alone.
package memory_test

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/test/internal/large"
	"github.com/clusterdns/clusterdns/test/internal/process"
)

var (
	services  = flag.Int("services", 400, "Services, a twentieth of which have 100 endpoints")
	endpoints = flag.Int("endpoints", 3750, "endpoints of all of them")
	pods      = flag.Int("pods", 1000, "Pods, for pods verified")
	judged    = flag.Bool("judge", false, "fail over the limits for 8,000 Services and 75,000 endpoints: 48 MB after the lists, 72 MB ever; 24 MB for as many Pods")
)

const (
	// page is how many objects client-go asks for at once.
	page = 500
	// settled is how long memory is watched after the lists: what they leave behind is given back by then.
	settled = 3 * time.Second
	// patience is how long anything may take before the test fails.
	patience = 2 * time.Minute
)

const corefile = `.:%s {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        pods %s
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus 127.0.0.1:0
    pprof 127.0.0.1:%s
    forward . 192.0.2.1
    cache 30
    loadbalance
}
`

// variant is a way to read a cluster.
type variant struct {
	name    string
	streams bool
	pods    string
}

// figures are megabytes.
type figures struct {
	resident, start, relist float64
	live                    float64 // of the heap, garbage collected
}

func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	bin := process.Build(t, "-trimpath", "-ldflags", "-s -w")
	api := map[bool]*kubetest.Server{}
	for _, streams := range []bool{true, false} {
		api[streams] = kubetest.Start(t, cluster(*services, *endpoints, *pods)...)
		if !streams {
			api[streams].NoStreaming(page)
		}
	}
	got := map[variant]figures{}
	for _, v := range []variant{{"lists streamed", true, "insecure"}, {"lists in pages", false, "insecure"},
		{"lists streamed, pods verified", true, "verified"}, {"lists in pages, pods verified", false, "verified"}} {
		got[v] = measure(t, bin, api[v.streams], v)
	}
	if *endpoints >= 20_000 { // with fewer, what the process takes at any rate is more than they
		half := variant{"half of the endpoints", true, "insecure"}
		less := measure(t, bin, kubetest.Start(t, cluster(*services, *endpoints/2, 0)...), half)
		whole := got[variant{"lists streamed", true, "insecure"}]
		t.Logf("%.0f bytes an endpoint", (whole.live-less.live)*1e6/float64(*endpoints-*endpoints/2))
	}
	if *judged {
		for v, f := range got {
			judge(t, v, f, got[variant{strings.TrimSuffix(v.name, ", pods verified"), v.streams, "insecure"}])
		}
	}
}

func judge(t *testing.T, v variant, f, without figures) {
	t.Helper()
	const most, peak, forPods = 48, 72, 24
	switch {
	case v.pods == "verified" && f.resident > without.resident+forPods:
		t.Errorf("%s: %.1f MB, %.1f without", v.name, f.resident, without.resident)
	case v.pods != "verified" && (f.resident > most || max(f.start, f.relist) > peak):
		t.Errorf("%s: %+v MB", v.name, f)
	}
}

func cluster(services, endpoints, pods int) (out []runtime.Object) {
	for i := range large.Namespaces {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: large.Namespace(i)}})
	}
	for i := range services {
		first, n := large.Share(i, services, endpoints, services/20)
		out = append(out, large.Service(i, fmt.Sprintf("10.96.%d.%d", i>>8, i&255)), large.Slice(i, first, n))
	}
	for i := range pods {
		out = append(out, large.Pod(i))
	}
	return out
}

// measure runs the server until it has read everything, and once more after it was made to read it anew.
func measure(t *testing.T, bin string, api *kubetest.Server, v variant) (f figures) {
	t.Helper()
	port, profiles, p := process.FreePort(t), process.FreePort(t), kubetest.StartProxy(t, api.Addr())
	conf := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(conf, fmt.Appendf(nil, corefile, port, api.Kubeconfig(p.Addr(), kubetest.Token), v.pods, profiles), 0o600); err != nil {
		t.Fatal(err)
	}
	said := process.NewOutput()
	cmd := exec.Command(bin, "-quiet", "-conf", conf)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	addr := "127.0.0.1:" + port
	await(t, addr, large.ServiceName(0)+"."+large.Namespace(0)+".svc.cluster.local.", said)
	if v.pods == "verified" {
		await(t, addr, dashed(*pods-1)+"."+large.Namespace(*pods-1)+".pod.cluster.local.", said)
	}
	<-time.After(settled)
	f.resident, f.start = memory(t, cmd.Process.Pid)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", cmd.Process.Pid), []byte("5"), 0o600); err != nil { // the peak begins anew (proc(5))
		t.Logf("the peak of the relist includes that of the start: %v", err)
	}
	f.live = live(t, profiles)
	relist(t, api, p, addr, said)
	<-time.After(settled)
	after, peak := memory(t, cmd.Process.Pid)
	f.relist = peak
	t.Logf("%s: %.1f MB resident, %.1f at the most at the start, %.1f at the most in a relist, %.1f after it; %.1f MB of objects",
		v.name, f.resident, f.start, peak, after, f.live)
	return f
}

// live is what objects take once the garbage is collected, in MB.
func live(t *testing.T, port string) (mb float64) {
	t.Helper()
	res, err := http.Get("http://127.0.0.1:" + port + "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "# HeapAlloc = %f", &mb); err == nil {
			return mb / 1e6
		}
	}
	t.Fatal("the profile has no size of the heap")
	return 0
}

// relist makes the server read everything anew: it was cut off, and what happened meanwhile is forgotten.
func relist(t *testing.T, api *kubetest.Server, p *kubetest.Proxy, addr string, said *process.Output) {
	t.Helper()
	fresh := large.Service(*services+1, "10.97.0.1")
	p.Freeze()
	api.Put(fresh)
	for i := range *services { // every slice is another one
		first, n := large.Share(i, *services, *endpoints, *services/20)
		api.Put(large.Slice(i, first+1, n))
	}
	api.Compact()
	api.EndWatches()
	p.Cut()
	p.Thaw()
	await(t, addr, fresh.Name+"."+fresh.Namespace+".svc.cluster.local.", said)
	api.Delete(fresh)
}

func dashed(pod int) string { return strings.ReplaceAll(large.Address(pod), ".", "-") }

// await waits until a name has an address.
func await(t *testing.T, addr, name string, said *process.Output) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if r, err := dns.Exchange(servertest.Query(name, dns.TypeA, 0), addr); err == nil && len(r.Answer) > 0 {
			return
		}
	}
	text := said.String()
	t.Fatalf("%s is not answered:\n%s", name, text[max(0, len(text)-2000):])
}

// memory gives what is resident, and the most that was, in MB of a million bytes.
func memory(t *testing.T, pid int) (now, most float64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %f kB", &now)
		_, _ = fmt.Sscanf(line, "VmHWM: %f kB", &most)
	}
	return now * 1024 / 1e6, most * 1024 / 1e6
}
