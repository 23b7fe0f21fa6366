package kubernetes

import (
	"strings"

	"github.com/clusterdns/clusterdns/server"
)

// Metadata implements server.MetadataProvider with the labels that CoreDNS has. Those of the name are "" where the name has no such part,
// and unknown outside the zones; those of the client need pods verified, and are "" where more than one Pod has its address.
func (k *Kubernetes) Metadata(q *server.Query, label string) (value string, known bool) {
	label, ok := strings.CutPrefix(label, "kubernetes/")
	if !ok {
		return "", false
	}
	switch label {
	case "client-namespace", "client-pod-name":
		if k.opts.Pods != PodsVerified {
			return "", false
		}
		namespace, pod, _ := k.PodAt(q.Client.Addr().Unmap())
		if label == "client-namespace" {
			return namespace, true
		}
		return pod, true
	}
	_, n, in := k.zone(q)
	if !in || isArpa(&q.Name) {
		return "", false
	}
	return part(q, n, label)
}

// part is one part of a name of which n labels stand before the zone.
func part(q *server.Query, n int, label string) (value string, known bool) {
	at, known := place(n, label)
	if at < 0 || n > 5 {
		return "", known
	}
	if kind := string(q.Name.Label(n - 1)); kind != "svc" && kind != "pod" {
		return "", true
	}
	text := q.Name.Label(at)
	if n == 5 && at < 2 {
		text = strip(text)
	}
	return string(text), true
}

// place is which of n labels a part is, or -1 if it is none of them.
func place(n int, part string) (at int, known bool) {
	switch part {
	case "kind":
		return n - 1, true
	case "namespace":
		return n - 2, true
	case "service":
		return n - 3, true
	case "endpoint":
		if n == 4 {
			return 0, true
		}
	case "protocol":
		if n == 5 {
			return 1, true
		}
	case "port-name":
		if n == 5 {
			return 0, true
		}
	default:
		return -1, false
	}
	return -1, true
}
