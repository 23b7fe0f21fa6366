package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// configurations of the node's processes; ${run} and the like are replaced by what they are here.
const (
	containerdConfig = `version = 3
root = "${run}/containerd/root"
state = "${run}/containerd/state"
[grpc]
  address = "${run}/containerd.sock"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "${pause}"
[plugins.'io.containerd.cri.v1.runtime']
  # Not every machine lets a process become harder to kill for want of memory.
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "${run}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    BinaryName = "${bin}/runc"
    SystemdCgroup = false
`
	cniConfig = `{"cniVersion": "1.0.0", "name": "node", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "${run}/ipam", "ranges": [[{"subnet": "${pods}"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`
	kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# The first version of control groups is refused by default, and some machines have no other.
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /${group}
containerRuntimeEndpoint: unix://${run}/containerd.sock
clusterDNS: [${servers}]
clusterDomain: cluster.local
resolvConf: ${run}/resolv.conf
podLogsDir: ${run}/podlogs
failSwapOn: false
enforceNodeAllocatable: []
# A full disk of the machine is not this cluster's affair.
evictionHard: {memory.available: "1Mi", nodefs.available: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
localStorageCapacityIsolation: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
`
)

// configure writes a configuration.
func (c *Cluster) configure(name, text string) error {
	values := map[string]string{"run": c.run, "bin": c.Bin, "pause": imagePause, "pods": PodCIDR, "group": controlGroup, "servers": strings.Join(c.servers, ", ")}
	text = os.Expand(text, func(name string) string { return values[name] })
	file := filepath.Join(c.run, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func (c *Cluster) containerd() error {
	if err := c.configure("containerd.toml", containerdConfig); err != nil {
		return err
	}
	if err := c.configure("cni/10-bridge.conflist", cniConfig); err != nil {
		return err
	}
	p, err := c.start("containerd", "-c", "containerd.toml")
	if err != nil {
		return err
	}
	return p.until("answers", func() error { return c.ctr("version") })
}

func (c *Cluster) ctr(args ...string) error {
	return run(c.run, nil, filepath.Join(c.Bin, "ctr"), append([]string{"-a", filepath.Join(c.run, "containerd.sock"), "-n", "k8s.io"}, args...)...)
}

// images brings the images into the node.
func (c *Cluster) images() error {
	for _, name := range []string{"pause", "lab", "ours", "coredns"} {
		if err := c.ctr("images", "import", filepath.Join(c.Images, name+".tar")); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	return nil
}

func (c *Cluster) kubelet() error {
	// What pods with dnsPolicy Default, and so the DNS server, have as upstream.
	if err := c.configure("resolv.conf", "nameserver "+UpstreamIP+"\n"); err != nil {
		return err
	}
	if err := c.configure("kubelet.yaml", kubeletConfig); err != nil {
		return err
	}
	_, err := c.start("kubelet", "--kubeconfig", c.Kubeconfig, "--config", "kubelet.yaml", "--root-dir", filepath.Join(c.run, "kubelet"), "--cert-dir", "pki", "--hostname-override", NodeName, "--node-ip", NodeIP)
	return err
}

// SetClusterDNS starts the kubelet anew with these addresses as clusterDNS: new pods have them in their resolv.conf.
func (c *Cluster) SetClusterDNS(servers ...string) error {
	if err := c.processes["kubelet"].stop(syscall.SIGTERM); err != nil {
		return err
	}
	c.servers = servers
	return c.kubelet()
}

// proxy starts kube-proxy. It must not touch the machine's own settings of connection tracking.
func (c *Cluster) proxy() error {
	_, err := c.start("kube-proxy", "--kubeconfig", c.Kubeconfig, "--proxy-mode", "iptables", "--hostname-override", NodeName, "--cluster-cidr", "10.244.0.0/16", "--conntrack-max-per-core", "0")
	return err
}
