package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/clusterdns/clusterdns/test/internal/large"
)

// podsInEtcd writes Pods where the API server keeps them, which is some fifty times faster than to have it create them.
func podsInEtcd(workers, n int, etcd string) error {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	codec := protobuf.NewSerializer(scheme, scheme)
	return each(workers, n, func(i int) error {
		p := large.Pod(i)
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
