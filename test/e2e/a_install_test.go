package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

// TestInstall: what is shipped is accepted and becomes ready as it is.
func TestInstall(t *testing.T) {
	install(t)
	ready := kubectl(t, "-n", "kube-system", "get", "deployment", "clusterdns", "-o", "jsonpath={.status.readyReplicas}")
	if ready != "2" {
		t.Errorf("%s replicas are ready", ready)
	}
	if restarts := kubectl(t, "-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-dns", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"); strings.Trim(restarts, "0 ") != "" {
		t.Errorf("restarts: %s", restarts)
	}
	if out := kubectl(t, "diff", "-k", "deploy/kubernetes"); out != "" {
		t.Errorf("the API server changed what was applied:\n%s", out)
	}
}

// TestRights: each right of the role is used, and nothing else is asked for. What the API server saw decides.
func TestRights(t *testing.T) {
	c := install(t)
	granted := map[cluster.Request]bool{}
	for _, resource := range []string{"namespaces", "services", "endpointslices"} {
		for _, verb := range []string{"list", "watch"} {
			granted[cluster.Request{Verb: verb, Resource: resource, Allowed: true}] = true
		}
	}
	role := kubectl(t, "get", "clusterrole", "system:clusterdns", "-o", "jsonpath={range .rules[*]}{.resources}{.verbs}{end}")
	if role != `["namespaces","services"]["list","watch"]["endpointslices"]["list","watch"]` {
		t.Errorf("the role grants %s", role)
	}
	took := wait(t, "every right is used", func() error {
		seen, err := c.Requests()
		if err != nil {
			return err
		}
		for r := range seen {
			// The first requests may come before the authorizer has heard of the role, and are denied.
			if !granted[cluster.Request{Verb: r.Verb, Resource: r.Resource, Allowed: true}] {
				t.Fatalf("the server asks to %s %s; allowed: %v", r.Verb, r.Resource, r.Allowed)
			}
		}
		for r := range granted {
			if !seen[r] {
				return fmt.Errorf("the server never asked to %s %s", r.Verb, r.Resource)
			}
		}
		return nil
	})
	t.Logf("after %s", took)
}

// TestDemo: the demo's cluster is one that an API server holds.
func TestDemo(t *testing.T) {
	install(t)
	// kube-dns and default/kubernetes are there already; the namespace of the lab has Services of the same names.
	for _, name := range []string{"web", "mysql", "peers", "external", "legacy", "dual-stack"} {
		b, err := os.ReadFile("../../deploy/demo/cluster/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		manifest := strings.ReplaceAll(string(b), "namespace: service-lab", "namespace: default")
		if _, err := node.Kubectl(manifest, "apply", "--dry-run=server", "-f", "-"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
