// Command scale fills an API server with a large cluster, of Services and hand-made EndpointSlices, so that memory, start and relists can
// be measured against a real one. The API server should run without controllers, which would do work of their own.
//
//	scale -kubeconfig FILE                 fill it: 8,000 Services, 75,000 endpoints
//	scale -kubeconfig FILE -touch 1000     then change that many slices, as fast as it goes
//	scale -kubeconfig FILE -latency 500 -dns 127.0.0.1:1053
//	scale -kubeconfig FILE -pods 75000 -etcd http://127.0.0.1:2379
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/test/internal/kubeapi"
	"github.com/clusterdns/clusterdns/test/internal/large"
)

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
	client, err := kubeapi.New(*kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	a := api{client}
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

// api is the API server that is filled.
type api struct{ *kubeapi.Client }

type object map[string]any

// call makes a request; that the object is there already is no error.
func (a api) call(method, path, kind string, in any) error {
	_, err := a.Call(method, path, kind, in, nil, http.StatusConflict)
	return err
}

func (a api) fill(workers, services, endpoints, big int) error {
	err := each(workers, large.Namespaces, func(i int) error {
		if err := a.call(http.MethodPost, "/api/v1/namespaces", "json", object{"metadata": object{"name": large.Namespace(i)}}); err != nil {
			return err
		}
		return a.call(http.MethodPost, "/api/v1/namespaces/"+large.Namespace(i)+"/serviceaccounts", "json", object{"metadata": object{"name": "default"}})
	})
	return cmp.Or(err, each(workers, services, func(i int) error {
		first, n := large.Share(i, services, endpoints, big)
		ns := large.Namespace(i)
		return cmp.Or(a.call(http.MethodPost, "/api/v1/namespaces/"+ns+"/services", "json", large.Service(i, "")),
			a.call(http.MethodPost, "/apis/discovery.k8s.io/v1/namespaces/"+ns+"/endpointslices", "json", large.Slice(i, first, n)))
	}))
}

// touch changes slice i: an endpoint comes or goes as a controller would have it, with the time at which that began.
func (a api) touch(i int) error {
	return a.call(http.MethodPatch, "/apis/discovery.k8s.io/v1/namespaces/"+large.Namespace(i)+"/endpointslices/"+large.SliceName(i), "merge-patch+json", object{
		"metadata":  object{"annotations": object{"endpoints.kubernetes.io/last-change-trigger-time": time.Now().UTC().Format(time.RFC3339Nano)}},
		"endpoints": []object{{"addresses": []string{large.Address(int(time.Now().UnixNano()) & 0xffff)}, "conditions": object{"ready": true}}},
	})
}
