// Package large makes the objects of a large cluster, with about as much in them as usual ones have: 8,000 Services and 75,000 endpoints are
// the size that memory is judged at.
package large

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Namespaces is over how many namespaces the objects are spread.
const Namespaces = 40

// full is how many endpoints the control plane puts into one slice.
const full = 100

// Namespace is the name of the one that Service or Pod i is in.
func Namespace(i int) string { return fmt.Sprintf("team-%02d", i%Namespaces) }

// ServiceName is the name of Service i.
func ServiceName(i int) string { return fmt.Sprintf("service-%05d", i) }

// SliceName is the name of the slice of Service i.
func SliceName(i int) string { return ServiceName(i) + "-x7k2p" }

// Address is that of endpoint or Pod i.
func Address(i int) string { return fmt.Sprintf("10.%d.%d.%d", 128+i>>16, i>>8&255, i&255) }

// Share is which of all endpoints are Service i's: the first big Services have a full slice each, the others share the rest.
func Share(i, services, endpoints, big int) (first, n int) {
	if i < big {
		return i * full, full
	}
	rest, of := endpoints-big*full, services-big
	from, to := rest*(i-big)/of, rest*(i-big+1)/of
	return big*full + from, to - from
}

// Service is Service i. Every tenth is headless; the others have the given address, or the API server's choice where that is "".
func Service(i int, clusterIP string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(i), Name: ServiceName(i), Labels: labels(i)},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": ServiceName(i)}, ClusterIP: clusterIP, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP},
			{Name: "metrics", Port: 9090, TargetPort: intstr.FromInt32(9090), Protocol: corev1.ProtocolTCP},
		}},
	}
	if i%10 == 9 {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	if s.Spec.ClusterIP != "" {
		s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	}
	return s
}

func labels(i int) map[string]string {
	return map[string]string{"app.kubernetes.io/name": ServiceName(i), "app.kubernetes.io/managed-by": "Helm", "team": Namespace(i)}
}

// Slice is the slice of Service i, with n endpoints from the given one on.
func Slice(i, first, n int) *discoveryv1.EndpointSlice {
	yes, no, tcp := true, false, corev1.ProtocolTCP
	port := func(name string, n int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: &n, Protocol: &tcp}
	}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: Namespace(i), Name: SliceName(i), Labels: labels(i)},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{port("http", 8080), port("metrics", 9090)},
	}
	s.Labels[discoveryv1.LabelServiceName] = ServiceName(i)
	for e := first; e < first+n; e++ {
		node, zone := fmt.Sprintf("node-%04d.example.internal", e%1000), fmt.Sprintf("eu-central-1%c", 'a'+e%3)
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{Address(e)}, Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no}, NodeName: &node, Zone: &zone,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: Namespace(i), Name: fmt.Sprintf("%s-6d4f7c9b8-%05d", ServiceName(i), e), UID: uid(e)},
		})
	}
	return s
}

func uid(i int) types.UID { return types.UID(fmt.Sprintf("b2a1f7c4-9d1e-4b57-8a3b-%012d", i)) }

// Pod is Pod i.
func Pod(i int) *corev1.Pod {
	service := ServiceName(i % 8000)
	l := labels(i % 8000)
	l["pod-template-hash"] = "6d4f7c9b8"
	env := make([]corev1.EnvVar, 20)
	for j := range env {
		env[j] = corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", j), Value: fmt.Sprintf("https://backend-%02d.%s.svc:8443/api", j, Namespace(i))}
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(i), Name: fmt.Sprintf("%s-6d4f7c9b8-%05d", service, i), Labels: l,
			UID: uid(i), CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%04d", i%1000), RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/team/" + service + ":1.2.3", Env: env,
				ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: Address(i), PodIPs: []corev1.PodIP{{IP: Address(i)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}
