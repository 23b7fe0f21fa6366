package conformance

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// divergences are the places where an answer was recorded that this project gives otherwise on purpose. docs/divergences.md has the reasons, by
// number. What is right there is checked by tests of package kubernetes; here each is recognised as narrowly as can be, and counted.
type divergences struct {
	variant string
	later   []string // D10: dashed addresses of Pods that are not their first
	local   []string // addresses of this machine
	podIPs  atomic.Int64
	orphans atomic.Int64
}

// counts are how many answers fell under each.
type counts struct{ podIPs, orphans int64 }

func (d *divergences) counts() counts {
	return counts{d.podIPs.Load(), d.orphans.Load()}
}

func newDivergences(t *testing.T, variant string) *divergences {
	t.Helper()
	d := &divergences{variant: variant}
	text, err := os.ReadFile(filepath.Join("testdata", "cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var p corev1.Pod
		if err := yaml.Unmarshal(doc, &p); err != nil || p.Kind != "Pod" || p.DeletionTimestamp != nil {
			continue
		}
		for i, ip := range p.Status.PodIPs {
			if i > 0 {
				d.later = append(d.later, strings.ReplaceAll(ip.IP, ":", "-")+"."+p.Namespace+".pod.cluster.local.")
			}
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() {
			d.local = append(d.local, p.Addr().String())
		}
	}
	return d
}

// apply makes of want what is right.
func (d *divergences) apply(want, got *record) {
	switch {
	case d.variant == "2-verified" && want.RCode == "NXDOMAIN" && slices.Contains(d.later, want.Name):
		// D10: the name exists.
		want.RCode = "NOERROR"
		if want.Type == "SRV" {
			want.Answer, want.Authority, want.Additional = got.Answer, nil, got.Additional
		}
		d.podIPs.Add(1)
	case want.Type == "PTR" && slices.ContainsFunc(want.Answer, func(l string) bool { return strings.Contains(l, "no-such-service") }):
		// D12: it is not an address of the cluster; who answers then depends on the variant.
		*want = record{want.Name, want.Type, want.EDNS, want.Proto, "NXDOMAIN", got.AA, false, got.RA, nil, got.Authority, nil}
		d.orphans.Add(1)
	case want.Type == "NS" && len(want.Answer) > 0 && strings.Contains(want.Answer[0], " NS ns.dns."):
		d.nameserver(want)
	}
	if d.variant == "5-zonal" {
		d.uncached(want, got)
	}
}

// nameserver replaces the addresses of the machine that the answers were recorded on by those of this one.
func (d *divergences) nameserver(want *record) {
	f := strings.Fields(want.Answer[0])
	want.Additional = nil
	for _, a := range d.local {
		typ := "A"
		if strings.Contains(a, ":") {
			typ = "AAAA"
		}
		want.Additional = append(want.Additional, strings.Join([]string{f[4], f[1], "IN", typ, a}, " "))
	}
	slices.Sort(want.Additional)
}

// uncached is D14: the recorded answers came from a cache, which gives an answer the letters of whoever asked first, and AA from the second time
// on. Both depend on the order in which several clients asked, and are not compared.
func (d *divergences) uncached(want, got *record) {
	if want.RA {
		want.AA = got.AA
	}
	for _, lines := range [][]string{want.Answer, got.Answer, want.Authority, got.Authority, want.Additional, got.Additional} {
		for i := range lines {
			lines[i] = strings.ToLower(lines[i])
		}
		slices.Sort(lines)
	}
}
