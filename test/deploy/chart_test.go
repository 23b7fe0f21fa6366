package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// render is helm template NAME deploy/chart -n kube-system -f -, with the documents in the order of their files.
func render(t *testing.T, values string) (string, error) {
	t.Helper()
	c, err := loader.LoadDir(filepath.Join(repository, "deploy", "chart"))
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := yaml.Unmarshal([]byte(values), &v); err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "clusterdns", Namespace: "kube-system", IsInstall: true, Revision: 1}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := strings.TrimSpace(files[name]); text != "" && strings.HasSuffix(name, ".yaml") {
			out = append(out, strings.TrimPrefix(text, "---\n"))
		}
	}
	return strings.Join(out, "\n---\n") + "\n", nil
}

func TestChart(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out, err := render(t, string(b))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "chart-"+name, out)
			d := object[appsv1.Deployment](t, out, "Deployment", "clusterdns")
			for doc := range strings.SplitSeq(out, "\n---\n") {
				if !strings.Contains(doc, "\nkind: Service\n") {
					continue
				}
				svc := new(corev1.Service)
				if err := yaml.UnmarshalStrict([]byte(doc), svc); err != nil {
					t.Fatal(err)
				}
				if !selects(svc.Spec.Selector, d.Spec.Template.Labels) {
					t.Errorf("Service %s selects %v, the pods have %v", svc.Name, svc.Spec.Selector, d.Spec.Template.Labels)
				}
			}
		})
	}
}

// TestChartRights: Pods are read only where a directive needs them.
func TestChartRights(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]bool{"pods insecure": false, "pods verified": true, "ttl 5": false} {
		out, err := render(t, "servers: [{port: 53, plugins: [{name: kubernetes, parameters: cluster.local, configBlock: \""+config+"\"}]}]")
		if err != nil {
			t.Fatal(err)
		}
		role := object[rbacv1.ClusterRole](t, out, "ClusterRole", "system:clusterdns")
		if got := slices.Contains(role.Rules[0].Resources, "pods"); got != want {
			t.Errorf("%s: reads pods %v, want %v", config, got, want)
		}
	}
}

// TestChartRefuses: a value of the CoreDNS chart that this one does not follow is not passed over.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"autoscaler: {enabled: true}":   "use hpa",
		"rbac: {pspEnable: true}":       "PodSecurityPolicy",
		"autoscaling: {minReplicas: 1}": "write hpa",
		"rollingUpdate: {maxSurge: 0}":  "cannot both be 0",
		"fullnameOverride: dns":         "write deployment.name",
		"nameOverride: dns":             "write deployment.name",
		"replicas: 2":                   "replicas is not known; known are affinity",
		"servers: [{zones: [{zone: ., scheme: \"grpc://\"}], port: 53, plugins: []}]": "write dns://",
		"servers: [{ports: [53], plugins: []}]":                                       "ports is not known",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// TestChartFollows: what the CoreDNS chart makes of these values comes of them here too.
func TestChartFollows(t *testing.T) {
	t.Parallel()
	out, err := render(t, `
global: {region: here}
enabled: true
fullnameOverride: ""
servers:
  - zones: [{zone: example.com., use_tcp: true}]
    port: 5300
    servicePort: 53
    plugins: [{name: file, parameters: /etc/coredns/example.db example.com}]
zoneFiles: [{filename: example.db, domain: example.com, contents: ""}]
extraSecrets: [{name: tls, mountPath: /etc/tls}]
podSecurityContext: {}
podDisruptionBudget: {minAvailable: 1}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range object[corev1.Service](t, out, "Service", "clusterdns").Spec.Ports {
		if p.Port != 53 || p.TargetPort.IntVal != 5300 {
			t.Errorf("port %s: %d leads to %d, want 53 to 5300", p.Name, p.Port, p.TargetPort.IntVal)
		}
	}
	pod := object[appsv1.Deployment](t, out, "Deployment", "clusterdns").Spec.Template.Spec
	if p := pod.Containers[0].Ports[0]; p.ContainerPort != 5300 {
		t.Errorf("the container's port is %d", p.ContainerPort)
	}
	if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "config" && m.MountPath == "/etc/coredns" }) {
		t.Errorf("no zone files in /etc/coredns: %v", pod.Containers[0].VolumeMounts)
	}
	// The two exclude each other.
	if b := object[policyv1.PodDisruptionBudget](t, out, "PodDisruptionBudget", "clusterdns").Spec; b.MinAvailable == nil || b.MaxUnavailable != nil {
		t.Errorf("disruption budget %+v", b)
	}
	// Files of Secrets are root's. A Pod of another user reads them by its fsGroup, which the kubelet gives them to.
	if c := pod.SecurityContext; c.RunAsUser == nil || *c.RunAsUser == 0 || c.FSGroup == nil {
		t.Errorf("Secrets cannot be read: %+v", c)
	}
}
