package dump

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// anonymizer replaces names and addresses, equal ones by equal ones. What every cluster has keeps its name, and so do numbers at
// the end of names: db-0 stays the first of its kind.
type anonymizer struct {
	zones []string // of the cluster, with a dot at the end
	names map[string]string
	ports map[string]string
	keys  map[string]string
	addrs map[netip.Addr]netip.Addr
	hosts map[string]string
	pools [4]uint32      // addresses given out of each pool
	given map[string]int // words given out of each kind
}

func newAnonymizer(zones []string) *anonymizer {
	return &anonymizer{
		zones: zones,
		names: known("default", "kube-system", "kube-public", "kube-node-lease", "kubernetes", "kube-dns", "true", "false", "svc", "pod",
			"endpointslice-controller", "k8s", "io"),
		ports: known("http", "https", "grpc", "dns", "dns-tcp", "metrics", "tcp", "udp"),
		keys:  known("app", "k8s-app", "component", "tier", "pod-template-hash", "controller-revision-hash", "name", "instance"),
		addrs: map[netip.Addr]netip.Addr{},
		hosts: map[string]string{},
		given: map[string]int{},
	}
}

// fresh is a word that has not been given out.
func (a *anonymizer) fresh(kind string) string {
	a.given[kind]++
	return fmt.Sprintf("%s-%d", kind, a.given[kind])
}

// known is a map with words that stay as they are.
func known(words ...string) map[string]string {
	m := map[string]string{}
	for _, w := range words {
		m[w] = w
	}
	return m
}

// name replaces each of the labels that dots divide.
func (a *anonymizer) name(s string) string {
	if s == "" {
		return ""
	}
	labels := strings.Split(s, ".")
	for i, l := range labels {
		labels[i] = a.label(l)
	}
	return strings.Join(labels, ".")
}

func (a *anonymizer) label(s string) string {
	if s == "" || a.names[s] != "" {
		return a.names[s]
	}
	for _, sep := range []string{".", ":"} { // the dashed address that endpoints and Pods are named by
		if addr, err := netip.ParseAddr(strings.ReplaceAll(s, "-", sep)); err == nil {
			return strings.NewReplacer(".", "-", ":", "-").Replace(a.addr(addr).String())
		}
	}
	base, number := s, ""
	if i := strings.LastIndexByte(s, '-'); i > 0 {
		if _, err := strconv.ParseUint(s[i+1:], 10, 16); err == nil {
			base, number = s[:i], s[i:]
		}
	}
	key := strings.ToLower(base)
	if a.names[key] == "" {
		a.names[key] = a.fresh("name")
	}
	return a.names[key] + number
}

func (a *anonymizer) port(s string) string {
	if s == "" || a.ports[strings.ToLower(s)] == s {
		return s
	}
	key := strings.ToLower(s)
	if a.ports[key] == "" {
		a.ports[key] = a.fresh("port")
	}
	return a.ports[key]
}

// key keeps the keys that Kubernetes gives a meaning.
func (a *anonymizer) key(s string) string {
	prefix, _, prefixed := strings.Cut(s, "/")
	if prefixed && (prefix == "kubernetes.io" || strings.HasSuffix(prefix, ".kubernetes.io") || strings.HasSuffix(prefix, ".k8s.io")) {
		return s
	}
	if a.keys[s] == "" {
		a.keys[s] = a.fresh("key")
	}
	return a.keys[s]
}

// domain replaces a name in the DNS. One of the cluster stays one of the same object; others become names below example.com.
func (a *anonymizer) domain(s string) string {
	if s == "" || s == "." {
		return s
	}
	key := strings.ToLower(strings.TrimSuffix(s, ".")) + "."
	end := s[len(strings.TrimSuffix(s, ".")):]
	for _, z := range a.zones {
		if rest, ok := strings.CutSuffix(key, "."+z); ok {
			return a.inZone(rest) + "." + strings.TrimSuffix(z, ".") + end
		}
		if key == z {
			return s
		}
	}
	if a.hosts[key] == "" {
		a.hosts[key] = a.fresh("host") + ".example.com"
	}
	return a.hosts[key] + end
}

// inZone replaces the labels before the cluster's zone; those with an underscore are of ports and protocols.
func (a *anonymizer) inZone(s string) string {
	labels := strings.Split(s, ".")
	for i, l := range labels {
		if p, ok := strings.CutPrefix(l, "_"); ok {
			labels[i] = "_" + a.port(p)
		} else {
			labels[i] = a.label(l)
		}
	}
	return strings.Join(labels, ".")
}

// The pools that addresses are replaced from: private IPv4 and IPv6, and those set aside for measurements and documentation
// (RFC 2544, RFC 3849) for public ones.
var pools = [4]netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("fd00::/64"), netip.MustParsePrefix("2001:db8::/64"),
}

// addr keeps addresses that mean the same everywhere, such as 127.0.0.1.
func (a *anonymizer) addr(was netip.Addr) netip.Addr {
	if !was.IsValid() || was.IsLoopback() || was.IsUnspecified() || was.IsMulticast() || was.IsLinkLocalUnicast() {
		return was
	}
	if now, ok := a.addrs[was]; ok {
		return now
	}
	pool := 0
	if was.Is6() {
		pool = 2
	}
	if !was.IsPrivate() {
		pool++
	}
	a.pools[pool]++
	now := pools[pool].Addr()
	if b := now.AsSlice(); len(b) > 0 {
		tail := b[len(b)-4:]
		binary.BigEndian.PutUint32(tail, binary.BigEndian.Uint32(tail)+a.pools[pool])
		now, _ = netip.AddrFromSlice(b)
	}
	a.addrs[was] = now
	return now
}

// sliceName is made of a number: the names of slices say what they are for, and nothing refers to them.
func (a *anonymizer) sliceName(n int, _ string) string { return fmt.Sprintf("slice-%d", n+1) }
