package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
)

// podsInEtcd writes Pods where the API server keeps them, which is some fifty times faster than to have it create them.
func podsInEtcd(workers, n int, etcd string) error {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	codec := protobuf.NewSerializer(scheme, scheme)
	return each(workers, n, func(i int) error {
		p := fullPod(i)
		var b bytes.Buffer
		if err := codec.Encode(p, &b); err != nil {
			return err
		}
		return put(etcd, "/registry/pods/"+p.Namespace+"/"+p.Name, b.Bytes())
	})
}

func put(etcd, key string, value []byte) error {
	body, err := json.Marshal(map[string][]byte{"key": []byte(key), "value": value})
	if err != nil {
		return err
	}
	reply, err := http.Post(etcd+"/v3/kv/put", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd: %s: %s", reply.Status, text)
	}
	return err
}

// fullPod is Pod i with about as much in it as a usual one has.
func fullPod(i int) *corev1.Pod {
	service := serviceName(i % 8000)
	l := map[string]string{"pod-template-hash": "6d4f7c9b8"}
	for k, v := range labels(i % 8000) {
		l[k] = v.(string)
	}
	env := make([]corev1.EnvVar, 20)
	for j := range env {
		env[j] = corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", j), Value: fmt.Sprintf("https://backend-%02d.%s.svc:8443/api", j, namespace(i))}
	}
	ip := address(i)
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: fmt.Sprintf("%s-6d4f7c9b8-%05d", service, i), Labels: l,
			UID: types.UID(fmt.Sprintf("b2a1f7c4-9d1e-4b57-8a3b-%012d", i)), CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%04d", i%1000), RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/team/" + service + ":1.2.3", Env: env,
				ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}
