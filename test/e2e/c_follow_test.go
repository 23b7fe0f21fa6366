package e2e_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

// TestFollow: DNS follows what happens in the cluster; each line of the log says how long after kubectl had returned.
func TestFollow(t *testing.T) {
	install(t)
	t.Run("deployment", func(t *testing.T) {
		answers(t, "both pods", "web-headless"+lab, dns.TypeA, podIPs(t, "app=web")...)
		kubectl(t, "-n", "service-lab", "scale", "deployment/web", "--replicas=4")
		rolledOut(t, "service-lab", "deployment/web")
		answers(t, "scaled up", "web-headless"+lab, dns.TypeA, podIPs(t, "app=web")...)
		kubectl(t, "-n", "service-lab", "rollout", "restart", "deployment/web")
		rolledOut(t, "service-lab", "deployment/web")
		answers(t, "rolled", "web-headless"+lab, dns.TypeA, podIPs(t, "app=web")...)
		kubectl(t, "-n", "service-lab", "scale", "deployment/web", "--replicas=2")
		wait(t, "two pods are left", func() error {
			if len(podIPs(t, "app=web")) != 2 {
				return errors.New("more")
			}
			return nil
		})
		answers(t, "scaled down", "web-headless"+lab, dns.TypeA, podIPs(t, "app=web")...)
	})
	t.Run("statefulset", func(t *testing.T) {
		apply(t, statefulSet("mysql", ""))
		rolledOut(t, "service-lab", "statefulset/mysql")
		answers(t, "mysql-1", "mysql-1.mysql"+lab, dns.TypeA, podIP(t, "mysql-1"))
		kubectl(t, "-n", "service-lab", "delete", "pod", "mysql-1")
		wait(t, "mysql-1 is back", func() error {
			_, err := node.Kubectl("", "-n", "service-lab", "wait", "--for=condition=Ready", "pod/mysql-1", "--timeout=5s")
			return err
		})
		answers(t, "mysql-1 with its new address", "mysql-1.mysql"+lab, dns.TypeA, podIP(t, "mysql-1"))
		kubectl(t, "-n", "service-lab", "scale", "statefulset/mysql", "--replicas=1")
		status(t, "mysql-1 is gone", "mysql-1.mysql"+lab, dns.TypeA, dns.RcodeNameError)
	})
	t.Run("publishNotReadyAddresses", func(t *testing.T) {
		apply(t, statefulSet("peer", "publishNotReadyAddresses: true, "))
		rolledOut(t, "service-lab", "statefulset/peer")
		kubectl(t, "-n", "service-lab", "exec", "peer-1", "--", "/lab", "ready", "off")
		kubectl(t, "-n", "service-lab", "wait", "--for=condition=Ready=false", "pod/peer-1", "--timeout=60s")
		answers(t, "a pod that is not ready stays", "peer"+lab, dns.TypeA, podIPs(t, "app=peer")...)
	})
	t.Run("services", func(t *testing.T) {
		apply(t, servicesManifest)
		v4, v6, _ := strings.Cut(kubectl(t, "-n", "service-lab", "get", "service", "dual-stack", "-o", "jsonpath={.spec.clusterIPs[0]} {.spec.clusterIPs[1]}"), " ")
		answers(t, "dual stack, A", "dual-stack"+lab, dns.TypeA, v4)
		answers(t, "dual stack, AAAA", "dual-stack"+lab, dns.TypeAAAA, v6)
		answers(t, "ExternalName", "outside"+lab, dns.TypeA, "172.31.251.1", external)
		answers(t, "selectorless", "rack-1.legacy-api"+lab, dns.TypeA, "192.0.2.51")
		answers(t, "mirrored Endpoints", "legacy-queue"+lab, dns.TypeA, "192.0.2.61")
		kubectl(t, "-n", "service-lab", "delete", "service", "dual-stack")
		status(t, "a deleted Service", "dual-stack"+lab, dns.TypeA, dns.RcodeNameError)
	})
	t.Run("namespace", func(t *testing.T) {
		kubectl(t, "create", "namespace", "passing")
		status(t, "a new namespace", "passing.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess)
		kubectl(t, "delete", "namespace", "passing")
		status(t, "a deleted namespace", "passing.svc.cluster.local.", dns.TypeA, dns.RcodeNameError)
	})
}

func podIP(t *testing.T, name string) string {
	t.Helper()
	return kubectl(t, "-n", "service-lab", "get", "pod", name, "-o", "jsonpath={.status.podIP}")
}

// statefulSet is one of two pods behind a headless Service of the same name.
func statefulSet(name, service string) string {
	return strings.NewReplacer("NAME", name, "SERVICE", service, "IMAGE", cluster.ImageLab).Replace(`
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: service-lab}
spec: {clusterIP: None, SERVICEselector: {app: NAME}, ports: [{name: http, port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: NAME, namespace: service-lab}
spec:
  serviceName: NAME
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: NAME
          image: IMAGE
          imagePullPolicy: Never
          args: [serve, ":8080"]
          readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, failureThreshold: 1}
`)
}

const servicesManifest = `
apiVersion: v1
kind: Service
metadata: {name: dual-stack, namespace: service-lab}
spec: {ipFamilyPolicy: RequireDualStack, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: service-lab}
spec: {type: ExternalName, externalName: www.example.com}
---
apiVersion: v1
kind: Service
metadata: {name: legacy-api, namespace: service-lab}
spec: {ports: [{name: http, port: 80, targetPort: 8000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: legacy-api-by-hand, namespace: service-lab, labels: {kubernetes.io/service-name: legacy-api}}
addressType: IPv4
ports: [{name: http, port: 8000, protocol: TCP}]
endpoints: [{addresses: [192.0.2.51], hostname: rack-1, conditions: {ready: true}}]
---
apiVersion: v1
kind: Service
metadata: {name: legacy-queue, namespace: service-lab}
spec: {clusterIP: None, ports: [{name: amqp, port: 5672}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: legacy-queue, namespace: service-lab}
subsets: [{addresses: [{ip: 192.0.2.61}], ports: [{name: amqp, port: 5672, protocol: TCP}]}]
`
