package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// build renders an overlay like kubectl kustomize.
func build(t *testing.T, dir string) string {
	t.Helper()
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(repository, dir))
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// object finds an object by kind and name, and reads it strictly: a misspelt field is an error.
func object[T any](t *testing.T, all, kind, name string) *T {
	t.Helper()
	for doc := range strings.SplitSeq(all, "\n---\n") {
		var head struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatal(err)
		}
		if head.Kind != kind || head.Metadata.Name != name {
			continue
		}
		out := new(T)
		if err := yaml.UnmarshalStrict([]byte(doc), out); err != nil {
			t.Fatalf("%s %s: %v", kind, name, err)
		}
		return out
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

func overlays(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "deploy", "*", "kustomization.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("found %v: %v", files, err)
	}
	var out []string
	for _, f := range files {
		out = append(out, filepath.Base(filepath.Dir(f)))
	}
	return out
}

func TestKustomize(t *testing.T) {
	t.Parallel()
	for _, name := range overlays(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, build(t, "deploy/"+name))
		})
	}
}

// TestWorkload: the parts of the base fit together.
func TestWorkload(t *testing.T) {
	t.Parallel()
	all := build(t, "deploy/kubernetes")
	d := object[appsv1.Deployment](t, all, "Deployment", "clusterdns")
	labels := d.Spec.Template.Labels
	svc := object[corev1.Service](t, all, "Service", "kube-dns")
	pdb := object[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget", "clusterdns")
	for what, selector := range map[string]map[string]string{"Deployment": d.Spec.Selector.MatchLabels, "Service": svc.Spec.Selector, "PodDisruptionBudget": pdb.Spec.Selector.MatchLabels} {
		if !selects(selector, labels) {
			t.Errorf("%s selects %v, the pods have %v", what, selector, labels)
		}
	}
	if *d.Spec.Replicas < 2 {
		t.Error("one replica is none while it restarts")
	}
	if svc.Spec.ClusterIP != "10.96.0.10" || svc.Labels["k8s-app"] != "kube-dns" {
		t.Errorf("kubelets and dashboards look for kube-dns at 10.96.0.10, not for %s %v", svc.Spec.ClusterIP, svc.Labels)
	}
	c := d.Spec.Template.Spec.Containers[0]
	corefile := object[corev1.ConfigMap](t, all, "ConfigMap", "clusterdns").Data["Corefile"]
	for directive, port := range map[string]string{"prometheus": "metrics", "health": "health", "ready": "readiness"} {
		if !strings.Contains(corefile, directive) || !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port }) {
			t.Errorf("the Corefile's %s and the port %s belong together", directive, port)
		}
	}
	for _, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
		if !slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.Name == p.HTTPGet.Port.StrVal }) {
			t.Errorf("a probe asks port %s", p.HTTPGet.Port.StrVal)
		}
	}
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// TestConfined: the pods get nothing that they do not need.
func TestConfined(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"kubernetes", "kind"} {
		pod := object[appsv1.Deployment](t, build(t, "deploy/"+overlay), "Deployment", "clusterdns").Spec.Template.Spec
		if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: pod security context %+v", overlay, s)
		}
		for _, c := range pod.Containers {
			s := c.SecurityContext
			if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(s.Capabilities.Add, []corev1.Capability{"NET_BIND_SERVICE"}) {
				t.Errorf("%s: container security context %+v", overlay, s)
			}
			if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || !c.Resources.Limits.Cpu().IsZero() {
				t.Errorf("%s: resources %+v; a CPU limit would only add latency", overlay, c.Resources)
			}
		}
	}
}

// TestNodeLocal: the parts of deploy/nodelocal fit together, and a new pod can start beside the old one.
func TestNodeLocal(t *testing.T) {
	t.Parallel()
	all := build(t, "deploy/nodelocal")
	d := object[appsv1.DaemonSet](t, all, "DaemonSet", "clusterdns-nodelocal")
	pod := d.Spec.Template.Spec
	if !selects(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels) || d.Spec.Template.Labels["k8s-app"] == "kube-dns" {
		t.Errorf("the DaemonSet selects %v, the pods have %v; those of the Service kube-dns are others", d.Spec.Selector.MatchLabels, d.Spec.Template.Labels)
	}
	if u := d.Spec.UpdateStrategy.RollingUpdate; u.MaxSurge.IntVal != 1 || u.MaxUnavailable.IntVal != 0 {
		t.Errorf("update strategy %+v", u)
	}
	setup, c := pod.InitContainers[0], pod.Containers[0]
	if !pod.HostNetwork || len(setup.Ports)+len(c.Ports) > 0 || c.Args[0] != "-takeover" {
		t.Errorf("on the node's network %v, ports %v, arguments %v: a declared port keeps a second pod away", pod.HostNetwork, c.Ports, c.Args)
	}
	corefile := object[corev1.ConfigMap](t, all, "ConfigMap", "clusterdns-nodelocal").Data["Corefile"]
	address := setup.Args[len(setup.Args)-1]
	binds := regexp.MustCompile(`(?m)^ *bind (.*)$`).FindAllStringSubmatch(corefile, -1)
	for _, b := range binds {
		if b[1] != address {
			t.Errorf("the Corefile binds to %s, the node gets %s", b[1], address)
		}
	}
	live := c.LivenessProbe.HTTPGet
	if len(binds) != strings.Count(corefile, "{\n    bind") || live.Host != address || !strings.Contains(corefile, "health "+address+":"+live.Port.String()) {
		t.Errorf("%d blocks are bound; the probe asks %s:%s", len(binds), live.Host, live.Port.String())
	}
	if ask := c.StartupProbe.Exec.Command; !strings.Contains(corefile, "ready "+ask[len(ask)-1]) || !strings.HasPrefix(ask[len(ask)-1], "unix:"+c.VolumeMounts[1].MountPath+"/") {
		t.Errorf("the probe asks %v", ask)
	}
	if !strings.Contains(corefile, "prometheus :"+d.Spec.Template.Annotations["prometheus.io/port"]) || !*pod.EnableServiceLinks || !strings.Contains(corefile, "{$KUBE_DNS_SERVICE_HOST}") {
		t.Error("annotations, environment and Corefile do not fit")
	}
	if s := c.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || !slices.Equal(s.Capabilities.Add, []corev1.Capability{"NET_BIND_SERVICE"}) {
		t.Errorf("what serves has %+v", s)
	}
	for _, c := range []corev1.Container{setup, c} {
		s := c.SecurityContext
		if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: %+v, %+v", c.Name, s, c.Resources)
		}
	}
	if sa := object[corev1.ServiceAccount](t, all, "ServiceAccount", "clusterdns-nodelocal"); *sa.AutomountServiceAccountToken || strings.Contains(all, "kind: ClusterRole") {
		t.Error("it asks no API server and needs no token and no rights")
	}
}

// TestRights: list and watch of what names are made of.
func TestRights(t *testing.T) {
	t.Parallel()
	rights := func(all string) map[string][]string {
		out := map[string][]string{}
		for _, r := range object[rbacv1.ClusterRole](t, all, "ClusterRole", "system:clusterdns").Rules {
			for _, res := range r.Resources {
				out[strings.Join(r.APIGroups, ",")+"/"+res] = r.Verbs
			}
		}
		return out
	}
	lw := []string{"list", "watch"}
	want := map[string][]string{"/namespaces": lw, "/services": lw, "discovery.k8s.io/endpointslices": lw}
	if got := rights(build(t, "deploy/kubernetes")); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("base: %v", got)
	}
	want["/pods"] = lw
	if got := rights(build(t, "test/deploy/testdata/pods-verified")); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("with pods-verified: %v", got)
	}
}

// TestSnapshot: the folder that the component's text and the documentation name is there, can be written to, and has room for two files of the largest size.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	pod := object[appsv1.Deployment](t, build(t, "test/deploy/testdata/snapshot"), "Deployment", "clusterdns").Spec.Template.Spec
	mounts, volumes := pod.Containers[0].VolumeMounts, pod.Volumes
	m, v := mounts[len(mounts)-1], volumes[len(volumes)-1]
	if m.Name != v.Name || m.ReadOnly || v.EmptyDir == nil || v.EmptyDir.SizeLimit.Value() < 2*64<<20 || v.EmptyDir.Medium != corev1.StorageMediumDefault {
		t.Errorf("mount %+v, volume %+v", m, v)
	}
	if len(mounts) != 2 || len(volumes) != 2 {
		t.Errorf("%d mounts and %d volumes, want those of the base as well", len(mounts), len(volumes))
	}
	option := "snapshot " + m.MountPath + "/snapshot"
	for _, file := range []string{"deploy/kubernetes/snapshot/kustomization.yaml", "docs/kubernetes.md"} {
		text, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil || !strings.Contains(string(text), option) {
			t.Errorf("%s does not say %q: %v", file, option, err)
		}
	}
}

// TestKindKeepsCoreDNS: what the overlay applies and deletes is its own; the cluster's Service and ConfigMap are not in it.
func TestKindKeepsCoreDNS(t *testing.T) {
	t.Parallel()
	all := build(t, "deploy/kind")
	for _, kind := range []string{"Service", "ConfigMap"} {
		if strings.Contains(all, "\nkind: "+kind+"\n") {
			t.Errorf("deploy/kind has a %s", kind)
		}
	}
	d := object[appsv1.Deployment](t, all, "Deployment", "clusterdns")
	if v := d.Spec.Template.Spec.Volumes; len(v) != 1 || v[0].ConfigMap.Name != "coredns" {
		t.Errorf("volumes %+v", v)
	}
	if d.Spec.Template.Labels["k8s-app"] != "kube-dns" {
		t.Error("the cluster's Service kube-dns does not select the pods")
	}
}

// TestMetricNames: dashboard and alerts ask for metrics that the documentation lists, or that every program with client_golang has.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	documented, err := os.ReadFile(filepath.Join(repository, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	suffix := regexp.MustCompile(`_bucket$`)
	for _, file := range []string{"monitoring/prometheusrule.yaml", "monitoring/dashboard.json", "autoscale/hpa.yaml", "autoscale/adapter-rule.yaml"} {
		b, err := os.ReadFile(filepath.Join(repository, "deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(?:coredns|clusterdns)_[a-z_]+`).FindAllString(string(b), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, n := range names {
			n = suffix.ReplaceAllString(n, "")
			if !strings.Contains(string(documented), "`"+n+"`") && !strings.Contains(string(documented), "`"+n+"{") {
				t.Errorf("%s: docs/metrics.md has no %s", file, n)
			}
		}
	}
}
