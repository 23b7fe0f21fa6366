//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// knotConfig is for Knot DNS: an authoritative server, for which the cluster is a zone file.
const knotConfig = `server:
    listen: {addr}@{port}
    rundir: {dir}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    tcp-reuseport: off
database:
    storage: {dir}
template:
  - id: default
    storage: {dir}
    semantic-checks: off
    journal-content: none
    zonefile-sync: -1
zone:
  - domain: cluster.local
    file: cluster.zone
  - domain: 10.in-addr.arpa
    file: reverse.zone
`

// dnsmasqConfig is for dnsmasq: a forwarder with a cache, for which the cluster is a hosts file. It has no SRV records, because it
// looks for each one in a list of all.
const dnsmasqConfig = `port={port}
listen-address={addr}
bind-interfaces
no-resolv
no-hosts
addn-hosts={dir}/hosts
local=/cluster.local/
local=/10.in-addr.arpa/
server=127.0.0.1#{upstream-port}
cache-size=10000
dns-forward-max=2000
user={user}
pid-file=
`

// soa begins a zone file.
const soa = "$TTL 30\n@ SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 30\n@ NS ns.dns.cluster.local.\n"

// writeForeign writes the cluster for other servers, and their configurations, with placeholders filled in.
func writeForeign(dir string, services int, fill *strings.Replacer) error {
	var forward, reverse, hosts strings.Builder
	forward.WriteString("$ORIGIN cluster.local.\n" + soa)
	reverse.WriteString("$ORIGIN 10.in-addr.arpa.\n" + soa)
	for i := range services {
		name, ns := service(i)
		full, ip := name+"."+ns+"."+zone, clusterIP(i+256)
		p := strings.Split(ip, ".")
		fmt.Fprintf(&forward, "%s. A %s\n_http._tcp.%s. SRV 0 100 80 %s.\n", full, ip, full, full)
		fmt.Fprintf(&reverse, "%s.%s.%s PTR %s.\n", p[3], p[2], p[1], full)
		fmt.Fprintf(&hosts, "%s %s\n", ip, full)
	}
	for _, size := range []int{3, 100} {
		for i := range size {
			fmt.Fprintf(&forward, "headless-%d.ns-0.%s. A 10.244.%d.%d\n", size, zone, size, i+1)
			fmt.Fprintf(&hosts, "10.244.%d.%d headless-%d.ns-0.%s\n", size, i+1, size, zone)
		}
	}
	for name, text := range map[string]string{
		"cluster.zone": forward.String(), "reverse.zone": reverse.String(), "hosts": hosts.String(),
		"knot.conf": fill.Replace(knotConfig), "dnsmasq.conf": fill.Replace(dnsmasqConfig),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func writeLines(file string, lines []string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
	return w.Flush()
}
