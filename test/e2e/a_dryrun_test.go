package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestDryRun: the API server takes everything that is shipped, each on its own in a cluster that has none of it: every overlay and
// component, and every rendering of the chart that test/deploy compares. A field that the API does not know is an error, as kubectl has it
// by default.
func TestDryRun(t *testing.T) {
	get(t)
	apply(t, operatorKind("ServiceMonitor", serviceMonitorSpec)+operatorKind("PrometheusRule", prometheusRuleSpec))
	kubectl(t, "wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com", "crd/prometheusrules.monitoring.coreos.com", "--timeout="+patience.String())
	overlays, err := filepath.Glob("../../deploy/*/kustomization.yaml")
	if err != nil || len(overlays) < 5 {
		t.Fatalf("overlays %v: %v", overlays, err)
	}
	components, err := filepath.Glob("../deploy/testdata/*/kustomization.yaml")
	if err != nil || len(components) == 0 {
		t.Fatalf("overlays with components %v: %v", components, err)
	}
	for _, file := range append(overlays, components...) {
		takes(t, "-k", filepath.Dir(file))
	}
	charts, err := filepath.Glob("../deploy/testdata/golden/chart-*.yaml")
	if err != nil || len(charts) < 3 {
		t.Fatalf("charts %v: %v", charts, err)
	}
	for _, file := range charts {
		takes(t, "-f", file)
	}
}

// takes has the API server look at manifests, and counts what it takes.
func takes(t *testing.T, flag, path string) {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.Kubectl("", "apply", "--dry-run=server", flag, path)
	n := strings.Count(out, " (server dry run)\n")
	if err != nil || n == 0 {
		t.Errorf("%d objects taken: %v", n, err)
	}
	t.Logf("%s: %d objects", filepath.Base(path), n)
}

// operatorKind is a kind that the Prometheus operator defines, with the fields of its spec that are used here: any other is refused.
func operatorKind(kind, spec string) string {
	singular := strings.ToLower(kind)
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]ss.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]ss, singular: %[2]s}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
%[3]s
`, kind, singular, spec)
}

const (
	serviceMonitorSpec = `
              required: [endpoints, selector]
              properties:
                jobLabel: {type: string}
                endpoints:
                  type: array
                  items:
                    type: object
                    properties: {port: {type: string}, path: {type: string}, interval: {type: string, pattern: "^[0-9]+(ms|[smh])$"}}
                namespaceSelector: {type: object, properties: {any: {type: boolean}, matchNames: {type: array, items: {type: string}}}}
                selector: {type: object, properties: {matchLabels: {type: object, additionalProperties: {type: string}}}}`
	prometheusRuleSpec = `
              properties:
                groups:
                  type: array
                  items:
                    type: object
                    required: [name]
                    properties:
                      name: {type: string}
                      interval: {type: string}
                      rules:
                        type: array
                        items:
                          type: object
                          required: [expr]
                          properties:
                            alert: {type: string}
                            record: {type: string}
                            expr: {type: string}
                            for: {type: string}
                            labels: {type: object, additionalProperties: {type: string}}
                            annotations: {type: object, additionalProperties: {type: string}}`
)
