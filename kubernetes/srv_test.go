package kubernetes_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// headless is a cluster of one headless Service, h in x, with these slices.
func headless(t testing.TB, slices ...*kubernetes.EndpointSlice) *server.Direct {
	t.Helper()
	k := kubernetes.New(options(t, "cluster.local"), nil, kubernetes.Deps{})
	sync(k, &kubernetes.Namespace{Name: "x"}, &kubernetes.Service{Namespace: "x", Name: "h", Headless: true})
	for i, s := range slices {
		s.Namespace, s.Name, s.Service = "x", fmt.Sprint(i), "h"
		k.Apply(s)
	}
	return servertest.Direct(block(k, nil))
}

// srv asks for SRV records over TCP.
func srv(t testing.TB, d *server.Direct, name string) *dns.Msg {
	t.Helper()
	b, ok := d.Answer(servertest.Pack(t, servertest.Query(name, dns.TypeSRV, 0)), servertest.Client, server.TCP)
	m := new(dns.Msg)
	if !ok || m.Unpack(b) != nil {
		t.Fatalf("%s: no reply", name)
	}
	return m
}

// TestSRVOfManyNames: whichever endpoints share names, addresses and ports, each name and port number is one record, each name and address one
// record of the additional section, and the weight is a share of what differs.
func TestSRVOfManyNames(t *testing.T) {
	t.Parallel()
	const base = "h.x.svc.cluster.local."
	ports := [][]kubernetes.Port{
		{{Name: "http", Number: 80}},
		{{Name: "http", Number: 8080}, {Name: "dns", Number: 53, Protocol: kubernetes.UDP}},
		{{Name: "dns", Number: 53, Protocol: kubernetes.UDP}, {Name: "dns-tcp", Number: 53}},
	}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var all [3]*kubernetes.EndpointSlice
		for i := range all {
			all[i] = &kubernetes.EndpointSlice{Ports: ports[rnd.IntN(len(ports))]}
			for range rnd.IntN(8) {
				all[i].Endpoints = append(all[i].Endpoints, kubernetes.Endpoint{
					Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(rnd.IntN(5))}), Hostname: []string{"", "a", "b", "bb"}[rnd.IntN(4)], Ready: true,
				})
			}
		}
		d := headless(t, all[:]...)
		for _, host := range []string{"", "a", "bb", "10-0-0-1"} {
			for _, port := range []string{"", "http", "dns"} {
				if host != "" && port != "" {
					continue
				}
				name := strings.TrimPrefix(host+"."+base, ".")
				if port != "" {
					name = "_" + port + "." + map[string]string{"http": "_tcp.", "dns": "_udp."}[port] + base
				}
				want, glue, weight := expected(all[:], host, port, base)
				m := srv(t, d, name)
				var got, extra []string
				for _, rr := range m.Answer {
					s := rr.(*dns.SRV)
					got = append(got, fmt.Sprint(s.Target, " ", s.Port))
					if s.Weight != weight {
						t.Errorf("seed %d: %s has weight %d, want %d", seed, name, s.Weight, weight)
					}
				}
				for _, rr := range m.Extra {
					if a, ok := rr.(*dns.A); ok {
						extra = append(extra, a.Hdr.Name+" "+a.A.String())
					}
				}
				slices.Sort(got)
				slices.Sort(extra)
				if !slices.Equal(got, want) || !slices.Equal(extra, glue) {
					t.Errorf("seed %d: %s:\n%q %q, want\n%q %q", seed, name, got, extra, want, glue)
				}
			}
		}
	}
}

// expected are the targets with ports, the targets with addresses, both sorted, and the weight, of the endpoints of a host ("" for all) with a port ("" for any).
func expected(all []*kubernetes.EndpointSlice, host, port, base string) (records, glue []string, weight uint16) {
	distinct := map[string]bool{}
	for _, s := range all {
		for _, e := range s.Endpoints {
			name := e.Hostname
			if name == "" {
				name = strings.ReplaceAll(e.Addr.String(), ".", "-")
			}
			if host != "" && name != host {
				continue
			}
			for _, p := range s.Ports {
				if port != "" && p.Name != port {
					continue
				}
				distinct[fmt.Sprint(name, e.Addr, p)] = true
				records = append(records, fmt.Sprint(name, ".", base, " ", p.Number))
				glue = append(glue, name+"."+base+" "+e.Addr.String())
			}
		}
	}
	slices.Sort(records)
	slices.Sort(glue)
	return slices.Compact(records), slices.Compact(glue), uint16(max(1, 100/max(1, len(distinct))))
}

// TestSRVOfOneName: thousands of endpoints that share one name, as the Pods of a Deployment that sets hostname and subdomain, are no more work than as many with names of
// their own. One of them for each other, 2,000 would be 100 times as much.
func TestSRVOfOneName(t *testing.T) {
	t.Parallel()
	const many, times = 2000, 30
	took := func(host string) time.Duration {
		s := &kubernetes.EndpointSlice{Ports: []kubernetes.Port{{Name: "http", Number: 80}}}
		for i := range many {
			s.Endpoints = append(s.Endpoints, kubernetes.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Hostname: host, Ready: true})
		}
		d, least := headless(t, s), time.Hour
		for range 5 {
			begun := time.Now()
			srv(t, d, "_http._tcp.h.x.svc.cluster.local.")
			least = min(least, time.Since(begun))
		}
		return least
	}
	if one, each := took("same"), took(""); one > times*each {
		t.Errorf("%s for endpoints of one name, %s for endpoints with a name each", one, each)
	}
}
