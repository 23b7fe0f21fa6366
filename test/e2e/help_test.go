package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

const (
	// patience bounds every wait; what takes how long is printed, not judged, since the machine may be busy.
	patience = 3 * time.Minute
	lab      = ".service-lab.svc.cluster.local."
)

// installed makes sure, once for all tests, that deploy/kubernetes is applied and ready.
var installed sync.Once

// install gives the cluster with our server as its DNS.
func install(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := get(t)
	installed.Do(func() {
		kubectl(t, "apply", "-k", "deploy/kubernetes")
		rolledOut(t, "kube-system", "deployment/clusterdns")
		kubectl(t, "create", "namespace", "service-lab")
		apply(t, labManifest)
		rolledOut(t, "service-lab", "deployment/web")
		kubectl(t, "-n", "service-lab", "wait", "--for=condition=Ready", "pod/client", "--timeout="+patience.String())
	})
	return c
}

// labManifest is the demo's story with real pods.
const labManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: service-lab}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: ` + cluster.ImageLab + `
          imagePullPolicy: Never
          args: [serve, ":8080"]
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 1, failureThreshold: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web-svc, namespace: service-lab}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: web-headless, namespace: service-lab}
spec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: web-no-endpoints, namespace: service-lab}
spec: {selector: {app: wbe}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: web-wrong-port, namespace: service-lab}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 9999}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: service-lab}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: client, image: ` + cluster.ImageLab + `, imagePullPolicy: Never, args: [pause]}]
`

// kubectl has to succeed; it gives what was printed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := node.Kubectl("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// rolledOut waits until all pods of a workload are new and ready; if they are not, the log says why.
func rolledOut(t *testing.T, namespace, workload string) {
	t.Helper()
	_, err := node.Kubectl("", "-n", namespace, "rollout", "status", workload, "--timeout="+patience.String())
	if err == nil {
		return
	}
	for _, args := range [][]string{{"get", "events", "--sort-by=.lastTimestamp"}, {"get", "pods", "-o", "wide"}, {"logs", "-l", "k8s-app in (kube-dns,clusterdns-nodelocal)", "--all-containers", "--prefix", "--tail=20"}} {
		out, _ := node.Kubectl("", append([]string{"-n", namespace}, args...)...) // whatever can be had
		t.Log(out)
	}
	t.Fatal(err)
}

func apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := node.Kubectl(manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// execute runs a command in the client pod.
func execute(args ...string) (string, error) { return executeIn("client", args...) }

// executeIn runs a command in a pod of the lab.
func executeIn(pod string, args ...string) (string, error) {
	return node.Kubectl("", append([]string{"-n", "service-lab", "exec", pod, "--"}, args...)...)
}

// sumOf adds up the samples of metrics whose lines begin so.
func sumOf(metrics io.Reader, begin string) (n int, err error) {
	for lines := bufio.NewScanner(metrics); lines.Scan(); {
		if value := lines.Text(); strings.HasPrefix(value, begin) {
			f, err := strconv.ParseFloat(value[strings.LastIndexByte(value, ' ')+1:], 64)
			if err != nil {
				return 0, err
			}
			n += int(f)
		}
	}
	return n, nil
}

// ask asks the cluster's DNS at its Service, through the node's rules.
func ask(proto, name string, typ uint16) (*dns.Msg, error) {
	m := new(dns.Msg)
	m.SetQuestion(name, typ)
	m.SetEdns0(1232, false)
	client := dns.Client{Net: proto, Timeout: 2 * time.Second}
	r, _, err := client.Exchange(m, cluster.DNSIP+":53")
	return r, err
}

// data gives the sorted data of a name's records of a type, without owner and TTL.
func data(name string, typ uint16) ([]string, error) {
	r, err := ask("udp", name, typ)
	if err != nil {
		return nil, err
	}
	if r.Rcode != dns.RcodeSuccess {
		return nil, fmt.Errorf("%s %s: %s", name, dns.TypeToString[typ], dns.RcodeToString[r.Rcode])
	}
	var out []string
	for _, rr := range r.Answer {
		out = append(out, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(out)
	return out, nil
}

// wait calls f until it gives no error.
func wait(t *testing.T, what string, f func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(patience)
	for {
		err := f()
		if err == nil {
			return time.Since(begin)
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("%s: not in %s: %v", what, patience, err)
		}
	}
}

// answers waits until a name has exactly the wanted data, and prints how long that took.
func answers(t *testing.T, what, name string, typ uint16, want ...string) {
	t.Helper()
	slices.Sort(want)
	took := wait(t, what, func() error {
		got, err := data(name, typ)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%s has %q, want %q", name, got, want)
		}
		return err
	})
	t.Logf("%s: %s", what, took.Round(time.Millisecond))
}

// status waits until a name has a response code.
func status(t *testing.T, what, name string, typ uint16, want int) {
	t.Helper()
	took := wait(t, what, func() error {
		r, err := ask("udp", name, typ)
		if err == nil && r.Rcode != want {
			err = fmt.Errorf("%s: %s", name, dns.RcodeToString[r.Rcode])
		}
		return err
	})
	t.Logf("%s: %s", what, took.Round(time.Millisecond))
}

// podIPs are the addresses of the pods with a label that are not going away.
func podIPs(t *testing.T, label string) []string {
	t.Helper()
	out := kubectl(t, "-n", "service-lab", "get", "pods", "-l", label, "-o", `jsonpath={range .items[?(@.status.podIP)]}{.metadata.deletionTimestamp}={.status.podIP} {end}`)
	var ips []string
	for f := range strings.FieldsSeq(out) {
		if ip, alive := strings.CutPrefix(f, "="); alive {
			ips = append(ips, ip)
		}
	}
	return ips
}
