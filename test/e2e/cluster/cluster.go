package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Addresses of the one node. They exist in the sandbox's network only.
const (
	NodeIP     = "172.31.251.2"
	UpstreamIP = "172.31.251.1" // where tests put an upstream DNS server; the node's resolv.conf names it
	NodeName   = "node-0"
	PodCIDR    = "10.244.0.0/24"
	DNSIP      = "10.96.0.10"
	services   = "10.96.0.0/12,fd00:10:96::/112"
	etcdURL    = "http://127.0.0.1:2379"
)

// Cluster is a running cluster.
type Cluster struct {
	Folders
	Kubeconfig string
	run        string // its state, in memory, gone with the sandbox
	processes  map[string]*process
	servers    []string // the kubelet's clusterDNS
}

// Up starts a cluster inside the sandbox and returns when its node is ready and its images are there.
func Up(f Folders) (*Cluster, error) {
	c := &Cluster{Folders: f, run: "/run/cluster", processes: map[string]*process{}, servers: []string{DNSIP}}
	c.Kubeconfig = filepath.Join(c.run, "kubeconfig")
	for _, step := range []func() error{c.folders, c.network, c.etcd, c.credentials, c.APIServer, c.controllers, c.containerd, c.images, c.kubelet, c.proxy, c.settled} {
		if err := step(); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *Cluster) folders() error {
	old, err := filepath.Glob(filepath.Join(c.Logs, "*.log"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(c.run, "pki"), 0o755)
}

// network gives the sandbox one interface, with nothing behind it, on which node, API server and upstream server have their addresses.
func (c *Cluster) network() error {
	for _, args := range []string{
		"link set lo up", "link add node type veth peer name wire", "addr add " + NodeIP + "/24 dev node", "addr add " + UpstreamIP + "/24 dev node",
		"link set node up", "link set wire up", "route add default dev node",
	} {
		if err := run("", nil, "ip", strings.Fields(args)...); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) etcd() error {
	p, err := c.start("etcd", "--data-dir", filepath.Join(c.run, "etcd"), "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL, "--unsafe-no-fsync")
	if err != nil {
		return err
	}
	return p.until("healthy", func() error { return healthy(etcdURL + "/health") })
}

// SaveEtcd keeps a snapshot of what etcd holds. etcd stops for it, and the API server waits.
func (c *Cluster) SaveEtcd() error {
	if err := c.processes["etcd"].stop(syscall.SIGTERM); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(c.run, "snapshot"), os.DirFS(filepath.Join(c.run, "etcd"))); err != nil {
		return err
	}
	return c.etcd()
}

// RestoreEtcd stops API server and etcd, puts the snapshot in the place of what etcd held, and starts both.
func (c *Cluster) RestoreEtcd() error {
	if err := c.StopAPIServer(); err != nil {
		return err
	}
	if err := c.processes["etcd"].stop(syscall.SIGTERM); err != nil {
		return err
	}
	data := filepath.Join(c.run, "etcd")
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(c.run, "snapshot"), data); err != nil {
		return err
	}
	if err := c.etcd(); err != nil {
		return err
	}
	return c.APIServer()
}

// credentials are one key for service accounts, and one administrator with a token.
func (c *Cluster) credentials() error {
	key, pub := filepath.Join(c.run, "pki", "sa.key"), filepath.Join(c.run, "pki", "sa.pub")
	if err := run("", nil, "openssl", "genrsa", "-out", key, "2048"); err != nil {
		return err
	}
	if err := run("", nil, "openssl", "rsa", "-in", key, "-pubout", "-out", pub); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.run, "tokens.csv"), []byte("admin-token,admin,admin,\"system:masters\"\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(c.Kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://`+NodeIP+`:6443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: admin-token}}]
contexts: [{name: node, context: {cluster: node, user: admin}}]
current-context: node
`), 0o600)
}

// APIServer starts the API server; tests stop it with StopAPIServer and start it again.
func (c *Cluster) APIServer() error {
	if err := c.configure("audit.yaml", auditPolicy); err != nil {
		return err
	}
	p, err := c.start("kube-apiserver", "--etcd-servers", etcdURL, "--cert-dir", "pki", "--service-account-key-file", "pki/sa.pub",
		"--service-account-signing-key-file", "pki/sa.key", "--service-account-issuer", "https://kubernetes.default.svc", "--token-auth-file", "tokens.csv",
		"--authorization-mode", "RBAC", "--service-cluster-ip-range", services, "--bind-address", NodeIP, "--advertise-address", NodeIP,
		"--allow-privileged=true", "--kubelet-preferred-address-types", "InternalIP", "--secure-port", "6443",
		"--audit-policy-file", "audit.yaml", "--audit-log-path", c.auditLog())
	if err != nil {
		return err
	}
	return p.until("ready", func() error {
		_, err := c.Kubectl("", "get", "--raw", "/readyz")
		return err
	})
}

// auditPolicy has one line for each request of the DNS server, once it is answered or, for a watch, begun.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - {level: Metadata, users: ["system:serviceaccount:kube-system:clusterdns"]}
  - {level: None}
`

func (c *Cluster) auditLog() string { return filepath.Join(c.run, "audit.log") }

// Request is what the API server saw the DNS server ask for.
type Request struct {
	Verb, Resource string
	Allowed        bool
}

// Requests are the different ones so far.
func (c *Cluster) Requests() (map[Request]bool, error) {
	b, err := os.ReadFile(c.auditLog())
	if err != nil {
		return nil, err
	}
	out := map[Request]bool{}
	for line := range bytes.Lines(b) {
		var event struct {
			Verb        string
			ObjectRef   struct{ Resource string }
			Annotations map[string]string
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		if event.ObjectRef.Resource != "" {
			out[Request{event.Verb, event.ObjectRef.Resource, event.Annotations["authorization.k8s.io/decision"] == "allow"}] = true
		}
	}
	return out, nil
}

// StopAPIServer stops the API server as a crash would.
func (c *Cluster) StopAPIServer() error { return c.processes["kube-apiserver"].stop(syscall.SIGKILL) }

func (c *Cluster) controllers() error {
	// The controllers run on the node as well, and answer its probes alone.
	if _, err := c.start("kube-controller-manager", "--kubeconfig", c.Kubeconfig, "--root-ca-file", "pki/apiserver.crt", "--service-account-private-key-file", "pki/sa.key", "--leader-elect=false", "--bind-address", "127.0.0.1", "--cert-dir", "pki"); err != nil {
		return err
	}
	_, err := c.start("kube-scheduler", "--kubeconfig", c.Kubeconfig, "--leader-elect=false", "--bind-address", "127.0.0.1")
	return err
}

// settled waits for what the first pods need.
func (c *Cluster) settled() error {
	if err := retry(patience, func() error {
		_, err := c.Kubectl("", "-n", "default", "get", "serviceaccount", "default")
		return err
	}); err != nil {
		return err
	}
	return retry(patience, func() error {
		_, err := c.Kubectl("", "wait", "--for=condition=Ready", "node/"+NodeName, "--timeout=10s")
		return err
	})
}

// Kubectl runs kubectl with a standard input and gives its standard output.
func (c *Cluster) Kubectl(stdin string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(c.Bin, "kubectl"), append([]string{"--kubeconfig", c.Kubeconfig, "--cache-dir", filepath.Join(c.run, "kubectl")}, args...)...)
	cmd.Dir = c.Repository
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, tail(errs.String(), 5))
	}
	return out.String(), nil
}

// LogTail gives the last lines of what a process of the node said.
func (c *Cluster) LogTail(name string, lines int) string {
	b, err := os.ReadFile(filepath.Join(c.Logs, name+".log"))
	if err != nil {
		return err.Error()
	}
	return tail(string(b), lines)
}
