package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

// local is the address of deploy/nodelocal.
const local = "169.254.20.10"

// TestNodeLocal installs the cache on the node, as docs/nodelocal.md says, and replaces it under load: not a datagram is lost, and no
// connection refused. Pods use it by their kubelet's resolv.conf, and the cluster's DNS when it is gone.
func TestNodeLocal(t *testing.T) {
	c := install(t)
	kubectl(t, "apply", "-k", "deploy/nodelocal")
	rolledOut(t, "kube-system", "daemonset/clusterdns-nodelocal")
	if out := kubectl(t, "diff", "-k", "deploy/nodelocal"); out != "" {
		t.Errorf("the API server changed what was applied:\n%s", out)
	}
	if err := c.SetClusterDNS(local, cluster.DNSIP); err != nil {
		t.Fatal(err)
	}
	apply(t, localClientManifest)
	kubectl(t, "-n", "service-lab", "wait", "--for=condition=Ready", "pod/client-local", "--timeout="+patience.String())
	t.Run("clients", localClients)
	t.Run("upgrade", func(t *testing.T) {
		replaceLocal(t, func() {
			kubectl(t, "-n", "kube-system", "rollout", "restart", "daemonset/clusterdns-nodelocal")
			rolledOut(t, "kube-system", "daemonset/clusterdns-nodelocal")
		})
	})
	// The controller does the same to a pod that is not ready, as for a moment after a restart of the kubelet.
	t.Run("told to end before there is another", func(t *testing.T) {
		replaceLocal(t, func() {
			kubectl(t, "-n", "kube-system", "delete", "pod", "-l", "k8s-app=clusterdns-nodelocal", "--wait=false")
		})
	})
	t.Run("gone", func(t *testing.T) {
		kubectl(t, "delete", "-k", "deploy/nodelocal", "--timeout="+patience.String())
		wait(t, "nobody listens", func() error {
			if now := localPods(t); len(now) > 0 {
				return fmt.Errorf("pods: %v", now)
			}
			return nil
		})
		for _, command := range [][]string{{"lookup-glibc"}, {"lookup-musl"}, {"/lab", "lookup"}} {
			begin := time.Now()
			if out, err := executeIn("client-local", append(command, "web-svc")...); err != nil || strings.TrimSpace(out) == "" {
				t.Errorf("%v without the cache: %q, %v", command, out, err)
			}
			t.Logf("%v without the cache: %s, kubectl included", command, time.Since(begin).Round(time.Millisecond))
		}
	})
	kubectl(t, "-n", "service-lab", "delete", "pod", "client-local", "--timeout="+patience.String())
	if err := c.SetClusterDNS(cluster.DNSIP); err != nil {
		t.Fatal(err)
	}
}

// localClients: names resolve for each resolver, and the cache was asked for them.
func localClients(t *testing.T) {
	conf, err := executeIn("client-local", "cat", "/etc/resolv.conf")
	if err != nil || !strings.Contains(conf, "nameserver "+local+"\nnameserver "+cluster.DNSIP) {
		t.Errorf("resolv.conf: %v\n%s", err, conf)
	}
	before := localQueries(t)
	web := kubectl(t, "-n", "service-lab", "get", "service", "web-svc", "-o", "jsonpath={.spec.clusterIP}")
	for name, want := range map[string]string{"web-svc": web, "kubernetes.default": "10.96.0.1", "www.example.com": cluster.UpstreamIP} {
		for _, command := range [][]string{{"lookup-glibc"}, {"lookup-musl"}, {"/lab", "lookup"}, {"/lab", "lookup", "-tcp"}} {
			if out, err := executeIn("client-local", append(command, name)...); err != nil || strings.TrimSpace(out) != want {
				t.Errorf("%v %s: %q, want %s (%v)", command, name, out, want, err)
			}
		}
	}
	if after := localQueries(t); after < before+12 {
		t.Errorf("the cache counted %d queries before and %d after twelve look-ups", before, after)
	}
}

// replaceLocal has the pod replaced while UDP sockets that stay and TCP connections that come and go ask it.
func replaceLocal(t *testing.T, replace func()) {
	t.Helper()
	old := localPods(t)
	// One query in thirteen waits for an upstream, whenever the old one is told to end.
	questions := append(slices.Repeat(clusterQuestions(), 3), question{anyLabel + slow, dns.RcodeSuccess, 1})
	l := startLoadOn(t, local, localSockets, 1, questions...)
	tcp := startTCPLoad(local)
	replace()
	took := wait(t, "the old pod is gone", func() error {
		if now := localPods(t); len(now) != 1 || now[0] == old[0] {
			return fmt.Errorf("pods: %v", now)
		}
		return nil
	})
	t.Logf("%s replaced; the old pod was gone %s after that", old[0], took.Round(time.Millisecond))
	l.finish(t, "over UDP, one attempt each")
	tcp.finish(t)
}

func localPods(t *testing.T) []string {
	t.Helper()
	return strings.Fields(kubectl(t, "-n", "kube-system", "get", "pods", "-l", "k8s-app=clusterdns-nodelocal", "-o", "jsonpath={.items[*].metadata.name}"))
}

// localQueries is how many queries the cache has counted.
func localQueries(t *testing.T) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cluster.NodeIP+":9253/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err = sumOf(resp.Body, "coredns_dns_requests_total{")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// tcpLoad asks over connections of their own, one after the other.
type tcpLoad struct {
	begun       time.Time
	stop, ended chan struct{}
	sent        int
	faults      []string
}

// startTCPLoad asks until finish.
func startTCPLoad(ip string) *tcpLoad {
	l := &tcpLoad{begun: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		client := dns.Client{Net: "tcp", Timeout: loadPatience}
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for questions := clusterQuestions(); ; l.sent++ {
			select {
			case <-l.stop:
				return
			case <-again.C:
			}
			q := questions[l.sent%len(questions)]
			m := new(dns.Msg)
			m.SetQuestion(q.name, dns.TypeA)
			r, _, err := client.Exchange(m, ip+":53")
			if err == nil && (r.Rcode != q.rcode || len(r.Answer) != q.answers) {
				err = errors.New(dns.RcodeToString[r.Rcode])
			}
			if err != nil {
				l.faults = append(l.faults, fmt.Sprintf("%s after %s: %v", q.name, time.Since(l.begun).Round(time.Millisecond), err))
			}
		}
	}()
	return l
}

func (l *tcpLoad) finish(t *testing.T) {
	t.Helper()
	close(l.stop)
	<-l.ended
	t.Logf("over TCP: %d queries, each with a connection of its own, %d failed", l.sent, len(l.faults))
	if len(l.faults) > 0 || l.sent == 0 {
		t.Errorf("over TCP: %q", l.faults)
	}
}

const localClientManifest = `
apiVersion: v1
kind: Pod
metadata: {name: client-local, namespace: service-lab}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: client, image: ` + cluster.ImageLab + `, imagePullPolicy: Never, args: [pause]}]
`
