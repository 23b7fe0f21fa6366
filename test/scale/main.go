// Command scale fills an API server with a large cluster, of Services and hand-made EndpointSlices, so that memory, start and relists can
// be measured against a real one. The API server should run without controllers, which would do work of their own.
//
//	scale -kubeconfig FILE                 fill it: 8,000 Services, 75,000 endpoints
//	scale -kubeconfig FILE -touch 1000     then change that many slices, as fast as it goes
//	scale -kubeconfig FILE -latency 500 -dns 127.0.0.1:1053
//	scale -kubeconfig FILE -pods 75000 -etcd http://127.0.0.1:2379
package main

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"
)

// namespaces is over how many namespaces the objects are spread.
const namespaces = 40

func main() {
	log.SetFlags(0)
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of one cluster and one user with a token")
	services := flag.Int("services", 8000, "Services")
	endpoints := flag.Int("endpoints", 75000, "endpoints of all of them")
	big := flag.Int("big", 400, "Services with 100 endpoints; the others share the rest")
	touch := flag.Int("touch", 0, "only change this many slices")
	pods := flag.Int("pods", 0, "only create this many Pods, in etcd")
	etcd := flag.String("etcd", "http://127.0.0.1:2379", "the API server's etcd, for -pods")
	changes := flag.Int("latency", 0, "only measure how long this many changes take to be answered")
	server := flag.String("dns", "127.0.0.1:1053", "DNS server that is asked for -latency")
	workers := flag.Int("workers", 16, "requests at one time")
	flag.Parse()
	a, err := newAPI(*kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	began := time.Now()
	switch {
	case *touch > 0:
		err = each(*workers, *touch, func(i int) error { return a.touch(i % *services) })
	case *changes > 0:
		err = a.latency(*changes, *server)
	case *pods > 0:
		err = podsInEtcd(*workers, *pods, *etcd)
	default:
		err = a.fill(*workers, *services, *endpoints, *big)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("done in %s\n", time.Since(began).Round(time.Millisecond))
}

// each calls do for 0 to n-1 on a number of goroutines and gives the first error.
func each(workers, n int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// api speaks to an API server.
type api struct {
	server, token string
	http          *http.Client
}

func newAPI(file string) (*api, error) {
	var k struct {
		Clusters []struct {
			Cluster struct{ Server string } `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct{ Token string } `json:"user"`
		} `json:"users"`
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 {
		return nil, fmt.Errorf("%s: want one cluster and one user", file)
	}
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	return &api{k.Clusters[0].Cluster.Server, k.Users[0].User.Token, &http.Client{Transport: t, Timeout: time.Minute}}, nil
}

type object map[string]any

func (a *api) call(method, path, kind string, in object) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, a.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	r.Header.Set("Content-Type", "application/"+kind)
	reply, err := a.http.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode < 300 || reply.StatusCode == http.StatusConflict {
		return err
	}
	return fmt.Errorf("%s %s: %s: %s", method, path, reply.Status, text)
}

func namespace(i int) string   { return fmt.Sprintf("team-%02d", i%namespaces) }
func serviceName(i int) string { return fmt.Sprintf("service-%05d", i) }
func sliceName(i int) string   { return serviceName(i) + "-x7k2p" }

func (a *api) fill(workers, services, endpoints, big int) error {
	err := each(workers, namespaces, func(i int) error {
		if err := a.call(http.MethodPost, "/api/v1/namespaces", "json", object{"metadata": object{"name": namespace(i)}}); err != nil {
			return err
		}
		return a.call(http.MethodPost, "/api/v1/namespaces/"+namespace(i)+"/serviceaccounts", "json", object{"metadata": object{"name": "default"}})
	})
	return cmp.Or(err, each(workers, services, func(i int) error {
		first, n := share(i, services, endpoints, big)
		return cmp.Or(a.service(i), a.slice(i, first, n))
	}))
}

// share is which of the endpoints are Service i's.
func share(i, services, endpoints, big int) (first, n int) {
	const full = 100 // what the control plane puts into one slice
	if i < big {
		return i * full, full
	}
	rest, of := endpoints-big*full, services-big
	from, to := rest*(i-big)/of, rest*(i-big+1)/of
	return big*full + from, to - from
}

// service creates Service i. Every tenth is headless.
func (a *api) service(i int) error {
	spec := object{
		"selector": object{"app": serviceName(i)},
		"ports":    []object{{"name": "http", "port": 80, "targetPort": 8080}, {"name": "metrics", "port": 9090, "targetPort": 9090}},
	}
	if i%10 == 9 {
		spec["clusterIP"] = "None"
	}
	return a.call(http.MethodPost, "/api/v1/namespaces/"+namespace(i)+"/services", "json",
		object{"metadata": object{"name": serviceName(i), "labels": labels(i)}, "spec": spec})
}

func labels(i int) object {
	return object{"app.kubernetes.io/name": serviceName(i), "app.kubernetes.io/managed-by": "Helm", "team": namespace(i)}
}

func address(i int) string { return fmt.Sprintf("10.%d.%d.%d", 128+i>>16, i>>8&255, i&255) }

func (a *api) slice(i, first, n int) error {
	l := labels(i)
	l["kubernetes.io/service-name"] = serviceName(i)
	eps := make([]object, n)
	for j := range eps {
		e := first + j
		eps[j] = object{
			"addresses":  []string{address(e)},
			"conditions": object{"ready": true, "serving": true, "terminating": false},
			"nodeName":   fmt.Sprintf("node-%04d.example.internal", e%1000),
			"zone":       fmt.Sprintf("eu-central-1%c", 'a'+e%3),
			"targetRef": object{"kind": "Pod", "namespace": namespace(i), "name": fmt.Sprintf("%s-6d4f7c9b8-%05d", serviceName(i), e),
				"uid": fmt.Sprintf("b2a1f7c4-9d1e-4b57-8a3b-%012d", e)},
		}
	}
	return a.call(http.MethodPost, "/apis/discovery.k8s.io/v1/namespaces/"+namespace(i)+"/endpointslices", "json", object{
		"metadata":    object{"name": sliceName(i), "labels": l},
		"addressType": "IPv4",
		"endpoints":   eps,
		"ports":       []object{{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "metrics", "port": 9090, "protocol": "TCP"}},
	})
}

// touch changes slice i: an endpoint comes or goes as a controller would have it, with the time at which that began.
func (a *api) touch(i int) error {
	return a.call(http.MethodPatch, "/apis/discovery.k8s.io/v1/namespaces/"+namespace(i)+"/endpointslices/"+sliceName(i), "merge-patch+json", object{
		"metadata":  object{"annotations": object{"endpoints.kubernetes.io/last-change-trigger-time": time.Now().UTC().Format(time.RFC3339Nano)}},
		"endpoints": []object{{"addresses": []string{address(int(time.Now().UnixNano()) & 0xffff)}, "conditions": object{"ready": true}}},
	})
}
