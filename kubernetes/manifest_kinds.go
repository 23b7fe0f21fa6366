package kubernetes

import (
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterdns/clusterdns/config/directive"
)

// ourKind is a kind of manifests that is read, with its group.
type ourKind struct{ group, version, kind string }

func (k ourKind) String() string {
	return k.kind + " of " + strings.TrimPrefix(k.group+"/"+k.version, "/")
}

func ourKinds() []ourKind {
	d := discoveryv1.SchemeGroupVersion
	return []ourKind{
		{"", "v1", "Namespace"}, {"", "v1", "Service"}, {"", "v1", "Pod"}, {"", "v1", "Endpoints"}, {d.Group, d.Version, "EndpointSlice"},
	}
}

// nearKind is the kind that is read and that another one may have been meant to be: the same in another version, or one with a slip of the
// pen in the same group. "" is none: most kinds make no records.
func nearKind(h head) string {
	group, _, ok := strings.Cut(h.APIVersion, "/")
	if !ok {
		group = ""
	}
	for _, k := range ourKinds() {
		slips := directive.Distance(h.Kind, k.kind)
		sameGroup := group == k.group || group == "core" && k.group == ""
		switch {
		case sameGroup && slips <= min(maxSlips, len(h.Kind)/3):
			return k.String()
		case slips == 0 && !ok && k.group != "": // apiVersion: v1 for a kind that has a group
			return k.String()
		}
	}
	return ""
}

// maxSlips is how many letters of a kind may be wrong. The kinds of Kubernetes differ by more from those that are read.
const maxSlips = 2
