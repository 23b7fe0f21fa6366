package kubernetes

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// endpointsObject is a v1 Endpoints: deprecated in favour of slices, and so in k8s.io/api, but still written by hand.
type endpointsObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Subsets           []struct {
		Addresses         []corev1.EndpointAddress `json:"addresses,omitempty"`
		NotReadyAddresses []corev1.EndpointAddress `json:"notReadyAddresses,omitempty"`
		Ports             []corev1.EndpointPort    `json:"ports,omitempty"`
	} `json:"subsets,omitempty"`
}

// leaderAnnotation is what locks of leader election have.
const leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"

// maxMirrored is how many addresses of each subset the control plane mirrors.
const maxMirrored = 1000

// mirror makes the slices that the control plane makes of an Endpoints object for a Service without selector: one for each subset and
// address family. Objects that say not to be mirrored, or are a lock of leader election, give none.
func mirror(e *endpointsObject) []*EndpointSlice {
	if e.Labels[discoveryv1.LabelSkipMirror] == "true" {
		return nil
	}
	if _, lock := e.Annotations[leaderAnnotation]; lock {
		return nil
	}
	var out []*EndpointSlice
	for i := range e.Subsets {
		sub := &e.Subsets[i]
		for _, six := range []bool{false, true} {
			s := &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{
					Namespace:   e.Namespace,
					Name:        fmt.Sprintf("%s/mirror-%d-%t", e.Name, i, six), // no object can have this name
					Labels:      map[string]string{discoveryv1.LabelServiceName: e.Name},
					Annotations: e.Annotations,
				},
				Ports: mirrorPorts(sub.Ports),
			}
			s.Endpoints = mirrorAddresses(s.Endpoints, sub.Addresses, six, true)
			s.Endpoints = mirrorAddresses(s.Endpoints, sub.NotReadyAddresses, six, false)
			if len(s.Endpoints) > 0 {
				out = append(out, FromEndpointSlice(s))
			}
		}
	}
	return out
}

func mirrorPorts(in []corev1.EndpointPort) []discoveryv1.EndpointPort {
	out := make([]discoveryv1.EndpointPort, len(in))
	for i := range in {
		out[i] = discoveryv1.EndpointPort{Name: &in[i].Name, Port: &in[i].Port, Protocol: &in[i].Protocol}
	}
	return out
}

func mirrorAddresses(out []discoveryv1.Endpoint, in []corev1.EndpointAddress, six, ready bool) []discoveryv1.Endpoint {
	for i := range in {
		a, err := netip.ParseAddr(in[i].IP)
		if err != nil || a.Unmap().Is6() != six || len(out) == maxMirrored {
			continue
		}
		e := discoveryv1.Endpoint{
			Addresses:  []string{in[i].IP},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			NodeName:   in[i].NodeName,
			TargetRef:  in[i].TargetRef,
		}
		if in[i].Hostname != "" {
			e.Hostname = &in[i].Hostname
		}
		out = append(out, e)
	}
	return out
}
