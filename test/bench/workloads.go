//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// workload is a file of questions for dnsperf.
type workload struct {
	name string
	file string
	tcp  bool
	// pipelined keeps many queries in flight on each connection; without, one.
	pipelined bool
}

const namespaces = 40

func service(i int) (name, ns string) {
	return fmt.Sprintf("svc-%d", i), fmt.Sprintf("ns-%d", i%namespaces)
}

func clusterIP(i int) string { return fmt.Sprintf("10.%d.%d.%d", 96+i/65536, i/256%256, i%256) }

type object = map[string]any

// writeCluster writes manifests: n ClusterIP Services with a named port, two headless ones of 3 and of 100 endpoints, and their slices.
func writeCluster(dir string, n int) error {
	f, err := os.Create(filepath.Join(dir, "cluster.json"))
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprint(w, `{"apiVersion":"v1","kind":"List","items":[`)
	enc := json.NewEncoder(w)
	first := true
	add := func(o object) {
		if !first {
			fmt.Fprint(w, ",")
		}
		first = false
		_ = enc.Encode(o) // an error stays in w until Flush
	}
	for i := range namespaces {
		add(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": fmt.Sprintf("ns-%d", i)}})
	}
	for i := range n {
		name, ns := service(i)
		ip := clusterIP(i + 256)
		add(object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": name, "namespace": ns}, "spec": object{
			"type": "ClusterIP", "clusterIP": ip, "clusterIPs": []string{ip},
			"ports": []object{{"name": "http", "port": 80, "protocol": "TCP"}}}})
	}
	for _, size := range []int{3, 100} {
		addHeadless(add, size)
	}
	fmt.Fprint(w, "]}")
	return w.Flush()
}

func addHeadless(add func(object), size int) {
	name := fmt.Sprintf("headless-%d", size)
	add(object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": name, "namespace": "ns-0"}, "spec": object{
		"clusterIP": "None", "clusterIPs": []string{"None"}, "ports": []object{{"name": "http", "port": 80, "protocol": "TCP"}}}})
	endpoints := make([]object, size)
	for i := range endpoints {
		endpoints[i] = object{"addresses": []string{fmt.Sprintf("10.244.%d.%d", size, i+1)}, "conditions": object{"ready": true}}
	}
	add(object{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": object{"name": name + "-1", "namespace": "ns-0",
		"labels": object{"kubernetes.io/service-name": name}}, "addressType": "IPv4", "endpoints": endpoints,
		"ports": []object{{"name": "http", "port": 80, "protocol": "TCP"}}})
}

const zone = "svc.cluster.local"

// writeWorkloads writes the files of questions of the workloads whose names match only.
func writeWorkloads(dir string, services int, only *regexp.Regexp) ([]workload, error) {
	each := func(n int, line func(i int) string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = line(i)
		}
		return out
	}
	svc := func(i int) string {
		name, ns := service(i % services)
		return name + "." + ns + "." + zone
	}
	sets := []struct {
		name  string
		lines []string
	}{
		{"cluster-A", each(services, func(i int) string { return svc(i*7) + " A" })},
		{"cluster-AAAA-nodata", each(services, func(i int) string { return svc(i*7) + " AAAA" })},
		{"cluster-SRV", each(services, func(i int) string { return "_http._tcp." + svc(i*7) + " SRV" })},
		{"cluster-PTR", each(services, func(i int) string {
			k := i*7%services + 256
			return fmt.Sprintf("%d.%d.%d.10.in-addr.arpa PTR", k%256, k/256%256, 96+k/65536)
		})},
		{"headless-3", []string{"headless-3.ns-0." + zone + " A"}},
		{"headless-100", []string{"headless-100.ns-0." + zone + " A"}},
		{"search-nxdomain", each(4000, func(i int) string { return fmt.Sprintf("host%d.example.com.ns-%d.%s A", i, i%namespaces, zone) })},
		{"pod-name", each(4000, func(i int) string {
			return fmt.Sprintf("10-244-%d-%d.ns-%d.pod.cluster.local A", i/250, i%250+1, i%namespaces)
		})},
		{"forward-cached", each(1000, func(i int) string { return fmt.Sprintf("host%d.example.com A", i) })},
		{"forward-miss", each(500_000, func(i int) string { return fmt.Sprintf("miss%d.example.net A", i) })},
		{"ndots-mix", ndots(svc)},
	}
	var out []workload
	for _, s := range sets {
		file := filepath.Join(dir, s.name+".queries")
		used := false
		for _, w := range []workload{{name: s.name}, {name: s.name + "/tcp", tcp: true}, {name: s.name + "/tcp-pipelined", tcp: true, pipelined: true}} {
			if only.MatchString(w.name) {
				w.file, used = file, true
				out = append(out, w)
			}
		}
		if used {
			if err := writeLines(file, s.lines); err != nil {
				return nil, err
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no workload matches -run %s", only)
	}
	return out, nil
}

// ndots is what a resolver with three search domains and ndots:5 asks: of four look-ups three are for Services, by their short names, and one for an
// external name, which costs three NXDOMAINs first; each for A and AAAA.
func ndots(svc func(int) string) []string {
	var out []string
	pair := func(name string) { out = append(out, name+" A", name+" AAAA") }
	for i := range 500 {
		for k := range 3 {
			pair(svc(i*3 + k))
		}
		host := fmt.Sprintf("host%d.example.com", i)
		pair(fmt.Sprintf("%s.ns-%d.%s", host, i%namespaces, zone))
		pair(host + "." + zone)
		pair(host + ".cluster.local")
		pair(host)
	}
	return out
}
