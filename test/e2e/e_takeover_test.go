package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

// TestTakeover: a cluster whose DNS is CoreDNS is switched to ours and back by the commands of docs/kind.md, under load, and nobody
// notices.
func TestTakeover(t *testing.T) {
	c := install(t)
	apply(t, coreDNSManifest)
	rolledOut(t, "kube-system", "deployment/coredns")
	kubectl(t, "-n", "kube-system", "delete", "deployment", "clusterdns", "--timeout="+patience.String())
	wait(t, "CoreDNS alone is behind kube-dns", func() error { return serversAre(c, "coredns") })
	// When servers leave the Service, the node forgets the connections to them, and the replies that are on their way at that moment are
	// dropped by the kernel. The queries of a load come in bursts, so it is up to one for each of its sockets. Resolvers ask again.
	l := startLoad(t, 2, clusterQuestions()...)
	for _, part := range []struct{ heading, server string }{{"Over", "clusterdns"}, {"Back", "coredns"}} {
		for _, command := range commands(t, part.heading) {
			t.Logf("after %s: %s", l.tenth(time.Now()), command)
			shell(t, c, command)
		}
		took := wait(t, part.server+" alone is behind kube-dns", func() error { return serversAre(c, part.server) })
		t.Logf("%s: %s", part.heading, took)
	}
	l.finish(t, "over and back")
	kubectl(t, "apply", "-k", "deploy/kubernetes")
	rolledOut(t, "kube-system", "deployment/clusterdns")
	if _, err := c.Kubectl(coreDNSManifest, "delete", "-f", "-", "--timeout="+patience.String()); err != nil {
		t.Fatal(err)
	}
	wait(t, "CoreDNS is gone", func() error { return serversAre(c, "clusterdns") })
}

// commands are those of the code block under a heading of docs/kind.md.
func commands(t *testing.T, heading string) []string {
	t.Helper()
	b, err := os.ReadFile("../../docs/kind.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(b), "\n## "+heading+"\n")
	_, text, open := strings.Cut(text, "\n```\n")
	block, _, closed := strings.Cut(text, "\n```\n")
	if !found || !open || !closed {
		t.Fatalf("docs/kind.md has no commands under %s", heading)
	}
	return strings.Split(block, "\n")
}

// shell runs a command of the documentation, with kubectl as a user has it.
func shell(t *testing.T, c *cluster.Cluster, command string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = c.Repository
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "PATH="+c.Bin+":"+os.Getenv("PATH"), "HOME="+filepath.Dir(c.Kubeconfig))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// serversAre reports an error unless the pods behind kube-dns are those of one Deployment and two are ready.
func serversAre(c *cluster.Cluster, deployment string) error {
	out, err := c.Kubectl("", "-n", "kube-system", "get", "endpointslices", "-l", "kubernetes.io/service-name=kube-dns", "-o", "jsonpath={range .items[*].endpoints[*]}{.targetRef.name}={.conditions.ready} {end}")
	if err != nil {
		return err
	}
	pods := strings.Fields(out)
	for _, p := range pods {
		if !strings.HasPrefix(p, deployment+"-") || !strings.HasSuffix(p, "=true") {
			return &otherServers{out}
		}
	}
	if len(pods) != 2 {
		return &otherServers{out}
	}
	return nil
}

// otherServers says who is behind kube-dns instead.
type otherServers struct{ pods string }

func (o *otherServers) Error() string { return "behind kube-dns: " + o.pods }

// coreDNSManifest is CoreDNS as kubeadm and kind install it: its names, its labels, its Corefile, its resources.
const coreDNSManifest = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
  - {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        health {
           lameduck 5s
        }
        ready
        kubernetes cluster.local in-addr.arpa ip6.arpa {
           pods insecure
           fallthrough in-addr.arpa ip6.arpa
           ttl 30
        }
        prometheus :9153
        forward . /etc/resolv.conf {
           max_concurrent 1000
        }
        cache 30 {
           disable success cluster.local
           disable denial cluster.local
        }
        loop
        reload
        loadbalance
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      priorityClassName: system-cluster-critical
      dnsPolicy: Default
      containers:
        - name: coredns
          image: ` + cluster.ImageCoreDNS + `
          imagePullPolicy: Never
          args: [-conf, /etc/coredns/Corefile]
          volumeMounts: [{name: config, mountPath: /etc/coredns, readOnly: true}]
          ports: [{name: dns, containerPort: 53, protocol: UDP}, {name: dns-tcp, containerPort: 53, protocol: TCP}, {name: metrics, containerPort: 9153, protocol: TCP}]
          resources: {requests: {cpu: 100m, memory: 70Mi}, limits: {memory: 170Mi}}
          readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 2}
          livenessProbe: {httpGet: {path: /health, port: 8080}, initialDelaySeconds: 60}
      volumes: [{name: config, configMap: {name: coredns}}]
`
