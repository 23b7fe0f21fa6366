package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

// TestTakeover: a cluster whose DNS is CoreDNS is switched to ours and back by the commands of docs/kind.md, under load, and nobody
// notices.
func TestTakeover(t *testing.T) {
	c := install(t)
	takeOver(t, c, c.Repository, "coredns", commands(t, "Over"), commands(t, "Back"))
}

// TestTakeoverFromKubeDNS: the same for a cluster whose DNS is kube-dns, by the steps of docs/operations.md. What answers there is CoreDNS under the
// names of kube-dns, and has its ConfigMap.
func TestTakeoverFromKubeDNS(t *testing.T) {
	c := install(t)
	dir, section := filepath.Join(t.TempDir(), "mine"), sectionOf(t, "../../docs/operations.md", "Replacing kube-dns")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(c.Repository, filepath.Join(dir, "..", "clusterdns")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomizationOf(t, section)), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "clusterdns"), "./cmd/clusterdns")
	build.Dir = c.Repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	apply(t, kubeDNSConfig)
	for _, command := range blockOf(t, section) {
		shell(t, c, dir, "PATH=.:$PATH; "+command)
	}
	corefile, err := os.ReadFile(filepath.Join(dir, "Corefile"))
	if err != nil || !strings.Contains(string(corefile), "example.com:53 {") {
		t.Fatalf("%v\n%s", err, corefile)
	}
	steps := regexp.MustCompile("`(kubectl [^`]*)`").FindAllStringSubmatch(section, -1)
	over := make([]string, 0, len(steps))
	for _, s := range steps {
		over = append(over, s[1])
	}
	// The text names what it scales up and waits for in words.
	at := len(over) - 2
	back := append([]string{"kubectl -n kube-system scale deployment/kube-dns --replicas=2", "kubectl -n kube-system rollout status deployment/kube-dns"}, over[at:]...)
	takeOver(t, c, dir, "kube-dns", over[:at], back)
	kubectl(t, "-n", "kube-system", "delete", "configmap", "kube-dns")
}

// takeOver starts another server in the place of ours and runs the commands that put ours into its place, and those back, under load.
func takeOver(t *testing.T, c *cluster.Cluster, dir, other string, over, back []string) {
	t.Helper()
	manifest := strings.ReplaceAll(coreDNSManifest, "OTHER", other)
	apply(t, manifest)
	rolledOut(t, "kube-system", "deployment/"+other)
	kubectl(t, "-n", "kube-system", "delete", "deployment", "clusterdns", "--timeout="+patience.String())
	wait(t, other+" alone is behind kube-dns", func() error { return serversAre(c, other) })
	// When servers leave the Service, the node forgets the connections to them, and the replies that are on their way at that moment are
	// dropped by the kernel. The queries of a load come in bursts, so it is up to one for each of its sockets. Resolvers ask again.
	l := startLoad(t, 2, clusterQuestions()...)
	for _, part := range []struct {
		server   string
		commands []string
	}{{"clusterdns", over}, {other, back}} {
		for _, command := range part.commands {
			t.Logf("after %s: %s", l.tenth(time.Now()), command)
			shell(t, c, dir, command)
		}
		took := wait(t, part.server+" alone is behind kube-dns", func() error { return serversAre(c, part.server) })
		t.Logf("to %s: %s after the last command", part.server, took)
	}
	l.finish(t, "over and back")
	kubectl(t, "apply", "-k", "deploy/kubernetes")
	rolledOut(t, "kube-system", "deployment/clusterdns")
	if _, err := c.Kubectl(manifest, "delete", "-f", "-", "--timeout="+patience.String()); err != nil {
		t.Fatal(err)
	}
	wait(t, other+" is gone", func() error { return serversAre(c, "clusterdns") })
}

// commands are those of the code block under a heading of docs/kind.md.
func commands(t *testing.T, heading string) []string {
	t.Helper()
	return blockOf(t, sectionOf(t, "../../docs/kind.md", heading))
}

// sectionOf is what stands under a heading of a page, up to the next one of its level.
func sectionOf(t *testing.T, path, heading string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(b), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has nothing under %s", path, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// blockOf are the lines of the first block of commands.
func blockOf(t *testing.T, section string) []string {
	t.Helper()
	_, text, open := strings.Cut(section, "\n```\n")
	block, _, closed := strings.Cut(text, "\n```\n")
	if !open || !closed {
		t.Fatalf("there are no commands in %q", section)
	}
	return strings.Split(block, "\n")
}

// kustomizationOf is the YAML of a section, which is indented there as a part of a list.
func kustomizationOf(t *testing.T, section string) string {
	t.Helper()
	_, text, open := strings.Cut(section, "```yaml\n")
	text, _, closed := strings.Cut(text, "```")
	if !open || !closed {
		t.Fatalf("there is no YAML in %q", section)
	}
	return strings.ReplaceAll(strings.TrimPrefix(text, "   "), "\n   ", "\n")
}

// shell runs a command of the documentation, with kubectl as a user has it.
func shell(t *testing.T, c *cluster.Cluster, dir, command string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
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

// kubeDNSConfig is what kube-dns is told by its users.
const kubeDNSConfig = `
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-dns, namespace: kube-system}
data:
  stubDomains: '{"example.com": ["` + cluster.UpstreamIP + `"]}'
  upstreamNameservers: '["` + cluster.UpstreamIP + `"]'
`

// coreDNSManifest is CoreDNS as kubeadm and kind install it: its labels, its Corefile, its resources, and its names where OTHER is coredns.
const coreDNSManifest = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: OTHER, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:OTHER"}
rules:
  - {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:OTHER"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:OTHER"}
subjects: [{kind: ServiceAccount, name: OTHER, namespace: kube-system}]
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
metadata: {name: OTHER, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: OTHER
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
