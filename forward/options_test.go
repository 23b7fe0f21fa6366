package forward

import (
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/server/wire"
)

func zone(s string) wire.Zone { return wire.NewZone(wire.MustCanonical(s)) }

// with are the defaults, changed.
func with(change func(*Options)) Options {
	o := Options{
		From:   []wire.Zone{zone(".")},
		To:     []To{{Text: "10.0.0.1", Addr: netip.MustParseAddrPort("10.0.0.1:53"), Port: 53}},
		Expire: 10 * time.Second, ReadTimeout: 2 * time.Second, MaxFails: 2, MaxConnectAttempts: DefaultAttempts,
		HealthCheck: HealthCheck{Interval: 500 * time.Millisecond, Domain: wire.Root},
	}
	change(&o)
	return o
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want Options
	}{
		{"forward . 10.0.0.1", with(func(*Options) {})},
		{"forward Example.ORG 10.0.0.1", with(func(o *Options) { o.From = []wire.Zone{zone("example.org.")} })},
		{"forward 10.8.0.0/15 10.0.0.1", with(func(o *Options) {
			o.From = []wire.Zone{zone("8.10.in-addr.arpa."), zone("9.10.in-addr.arpa.")}
		})},
		{"forward . 10.0.0.1 {\n except a.example b.example\n except c.example\n}", with(func(o *Options) {
			o.Except = []wire.Zone{zone("a.example."), zone("b.example."), zone("c.example.")}
		})},
		{"forward . 10.0.0.1 {\n force_tcp\n prefer_udp\n}", with(func(o *Options) { o.ForceTCP, o.PreferUDP = true, true })},
		{"forward . 10.0.0.1 {\n expire 48h\n max_age 168h\n}", with(func(o *Options) { o.Expire, o.MaxAge = 48*time.Hour, 168*time.Hour })},
		{"forward . 10.0.0.1 {\n expire 20s\n max_age 1m\n max_idle_conns 3\n}", with(func(o *Options) {
			o.Expire, o.MaxAge, o.MaxIdleConns = 20*time.Second, time.Minute, 3
		})},
		{"forward . 10.0.0.1 {\n read_timeout 5s\n max_fails 0\n max_connect_attempts 0\n max_concurrent 1000\n}", with(func(o *Options) {
			o.ReadTimeout, o.MaxFails, o.MaxConnectAttempts, o.MaxConcurrent = 5*time.Second, 0, 0, 1000
		})},
		{"forward . 10.0.0.1 {\n tls\n tls_servername dns.example\n}", with(func(o *Options) { o.TLSServerName = "dns.example" })},
		{"forward . 10.0.0.1 {\n tls ca.pem\n}", with(func(o *Options) { o.TLS = TLS{CA: "/etc/clusterdns/ca.pem"} })},
		{"forward . 10.0.0.1 {\n tls c.pem /k.pem\n}", with(func(o *Options) { o.TLS = TLS{Cert: "/etc/clusterdns/c.pem", Key: "/k.pem"} })},
		{"forward . 10.0.0.1 {\n tls c.pem k.pem ca.pem\n}", with(func(o *Options) {
			o.TLS = TLS{Cert: "/etc/clusterdns/c.pem", Key: "/etc/clusterdns/k.pem", CA: "/etc/clusterdns/ca.pem"}
		})},
		{"forward . 10.0.0.1 {\n policy round_robin\n}", with(func(o *Options) { o.Policy = RoundRobin })},
		{"forward . 10.0.0.1 {\n policy sequential\n}", with(func(o *Options) { o.Policy = Sequential })},
		{"forward . 10.0.0.1 {\n health_check 5s no_rec domain Example.org\n}", with(func(o *Options) {
			o.HealthCheck = HealthCheck{5 * time.Second, true, wire.MustCanonical("example.org.")}
		})},
		{"forward . 10.0.0.1 {\n health_check 0s\n}", with(func(*Options) {})},
		{"forward . 10.0.0.1 {\n next NXDOMAIN servfail\n next_on_nodata\n failover SERVFAIL REFUSED\n failfast_all_unhealthy_upstreams\n}", with(func(o *Options) {
			o.Next = []wire.RCode{wire.RCodeNXDomain, wire.RCodeServFail}
			o.Failover = []wire.RCode{wire.RCodeServFail, wire.RCodeRefused}
			o.NextOnNoData, o.FailFast = true, true
		})},
		{"forward . 10.0.0.1 {\n source_address 10.9.9.9\n resolver 10.0.0.2 10.0.0.3:5353 [fd00::1]:54\n random_case\n}", with(func(o *Options) {
			o.SourceAddress, o.RandomCase = netip.MustParseAddr("10.9.9.9"), true
			o.Resolver = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:53"), netip.MustParseAddrPort("10.0.0.3:5353"), netip.MustParseAddrPort("[fd00::1]:54")}
		})},
	} {
		got, err := Parse(input(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.text, got, c.want)
		}
	}
}

func TestParseTo(t *testing.T) {
	t.Parallel()
	ap := netip.MustParseAddrPort
	for text, want := range map[string]To{
		"10.0.0.1":                               {Addr: ap("10.0.0.1:53"), Port: 53},
		"10.0.0.1:5353":                          {Addr: ap("10.0.0.1:5353"), Port: 53},
		"dns://10.0.0.1":                         {Addr: ap("10.0.0.1:53"), Port: 53},
		"dns://10.0.0.1:54":                      {Addr: ap("10.0.0.1:54"), Port: 53},
		"fd00::1":                                {Addr: ap("[fd00::1]:53"), Port: 53},
		"[fd00::1]":                              {Addr: ap("[fd00::1]:53"), Port: 53},
		"[fd00::1]:5353":                         {Addr: ap("[fd00::1]:5353"), Port: 53},
		"fe80::1%eth0":                           {Addr: ap("[fe80::1%eth0]:53"), Port: 53},
		"::ffff:10.0.0.1":                        {Addr: ap("10.0.0.1:53"), Port: 53},
		"tls://9.9.9.9":                          {TLS: true, Addr: ap("9.9.9.9:853"), Port: 853},
		"tls://9.9.9.9:8853":                     {TLS: true, Addr: ap("9.9.9.9:8853"), Port: 853},
		"tls://9.9.9.9%dns.quad9.net":            {TLS: true, Addr: ap("9.9.9.9:853"), ServerName: "dns.quad9.net", Port: 853},
		"tls://9.9.9.9%dns.quad9.net:8853":       {TLS: true, Addr: ap("9.9.9.9:8853"), ServerName: "dns.quad9.net", Port: 853},
		"tls://2620:fe::fe%dns.quad9.net":        {TLS: true, Addr: ap("[2620:fe::fe]:853"), ServerName: "dns.quad9.net", Port: 853},
		"tls://[2620:fe::fe%dns.quad9.net]:8853": {TLS: true, Addr: ap("[2620:fe::fe]:8853"), ServerName: "dns.quad9.net", Port: 853},
		"tls://fe80::1%eth0%dns.example":         {TLS: true, Addr: ap("[fe80::1%eth0]:853"), ServerName: "dns.example", Port: 853},
		"tls://dns.example.local%a.example":      {TLS: true, Host: "dns.example.local.", ServerName: "a.example", Port: 853},
		"tls://dns.example.local%a.example:8853": {TLS: true, Host: "dns.example.local.", ServerName: "a.example", Port: 8853},
		"/etc/resolv.conf":                       {File: "/etc/resolv.conf", Port: 53},
		"./resolv.conf":                          {File: "/etc/clusterdns/resolv.conf", Port: 53},
		"tls:///etc/resolv.conf":                 {TLS: true, File: "/etc/resolv.conf", Port: 853},
		"resolv.conf":                            {File: "/etc/clusterdns/resolv.conf", Host: "resolv.conf.", Port: 53},
		"dns.example.local":                      {File: "/etc/clusterdns/dns.example.local", Host: "dns.example.local.", Port: 53},
		"dns.example.local:5353":                 {Host: "dns.example.local.", Port: 5353},
		"tls://dns.example.local:5353":           {TLS: true, Host: "dns.example.local.", Port: 5353},
	} {
		want.Text = text
		o, err := Parse(input("forward . " + text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if o.To[0] != want {
			t.Errorf("%s:\n got %+v\nwant %+v", text, o.To[0], want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"forward":                                                           `Corefile:1: forward: needs a zone and at least one upstream: forward FROM TO...`,
		"forward .":                                                         `Corefile:1: forward: needs a zone and at least one upstream: forward FROM TO...`,
		"forward a..b 10.0.0.1":                                             `Corefile:1: forward: "a..b" is not a zone: domain name "a..b" has an empty label`,
		"forward . https://9.9.9.9":                                         `Corefile:1: forward: upstream "https://9.9.9.9": https:// is not supported; use dns:// or tls://`,
		"forward . grpc://9.9.9.9":                                          `Corefile:1: forward: upstream "grpc://9.9.9.9": grpc:// is not supported; use dns:// or tls://`,
		"forward . gopher://9.9.9.9":                                        `Corefile:1: forward: upstream "gopher://9.9.9.9": unknown protocol "gopher"; known are dns and tls`,
		"forward . dns://":                                                  `Corefile:1: forward: upstream "dns://" has no address`,
		"forward . 10.0.0.1:0":                                              `Corefile:1: forward: upstream "10.0.0.1:0": port 0`,
		"forward . 224.0.0.1":                                               `Corefile:1: forward: upstream "224.0.0.1" is a multicast address`,
		"forward . tls://9.9.9.9%":                                          `Corefile:1: forward: upstream "tls://9.9.9.9%": a server name goes behind an IP address or a host name, like tls://9.9.9.9%dns.quad9.net`,
		"forward . tls:///etc/resolv.conf%dns.quad9.net":                    `Corefile:1: forward: upstream "tls:///etc/resolv.conf%dns.quad9.net": a server name goes behind an IP address or a host name, like tls://9.9.9.9%dns.quad9.net`,
		"forward . tls://9.9.9.300%dns.quad9.net":                           `Corefile:1: forward: upstream "tls://9.9.9.300%dns.quad9.net": a server name goes behind an IP address or a host name, like tls://9.9.9.9%dns.quad9.net`,
		"forward . 10.0.0.1:99999":                                          `Corefile:1: forward: upstream "10.0.0.1:99999": port 99999 is not within 1 and 65535`,
		"forward . dns.example:0":                                           `Corefile:1: forward: upstream "dns.example:0": port 0 is not within 1 and 65535`,
		"forward . 10.0.0.1:http":                                           `Corefile:1: forward: upstream "10.0.0.1:http" is neither an address, a file nor a host name with a port`,
		"forward . __PILLAR__UPSTREAM__SERVERS__":                           `Corefile:1: forward: upstream "__PILLAR__UPSTREAM__SERVERS__" is neither an address, a file nor a host name`,
		"forward . 10.0.0.1 {\n doh_method GET\n}":                          `Corefile:2: forward: doh_method: upstreams over HTTPS are not supported; use tls://`,
		"forward . 10.0.0.1 {\n policy best\n}":                             `Corefile:2: forward: policy: unknown policy "best"; known are random, round_robin, sequential`,
		"forward . 10.0.0.1 {\n read_timeout 0s\n}":                         `Corefile:2: forward: read_timeout: 0s is not within 1ms and 8760h0m0s`,
		"forward . 10.0.0.1 {\n expire -1s\n}":                              `Corefile:2: forward: expire: -1s is not within 0s and 8760h0m0s`,
		"forward . 10.0.0.1 {\n max_concurrent many\n}":                     `Corefile:2: forward: max_concurrent: "many" is not a whole number`,
		"forward . 10.0.0.1 {\n max_age 5s\n}":                              `Corefile:1: forward: max_age 5s is less than expire 10s`,
		"forward . 10.0.0.1 {\n failover NOERROR\n}":                        `Corefile:2: forward: failover: NOERROR cannot be used here`,
		"forward . 10.0.0.1 {\n next RCODE17\n}":                            `Corefile:2: forward: next: "RCODE17" is not a response code; write it like SERVFAIL`,
		"forward . 10.0.0.1 {\n source_address eth0\n}":                     `Corefile:2: forward: source_address: "eth0" is not an IP address`,
		"forward . 10.0.0.1 {\n resolver dns.example\n}":                    `Corefile:2: forward: resolver: "dns.example" is neither an IP address nor IP:PORT`,
		"forward . 10.0.0.1 {\n health_check 1s domain\n}":                  `Corefile:2: forward: health_check: domain needs a name`,
		"forward . 10.0.0.1 {\n health_check 1s often\n}":                   `Corefile:2: forward: health_check: unknown argument "often"; known are no_rec, domain NAME`,
		"forward . 10.0.0.1 {\n tls a b c d\n}":                             `Corefile:2: forward: option "tls" takes no argument "d": tls [CA | CERT KEY [CA]]`,
		"forward . tls://9.9.9.9%a.example {\n tls_servername b.example\n}": `Corefile:1: forward: tls://9.9.9.9%a.example has a server name of its own, so tls_servername b.example must not be given as well`,
		"forward . " + strings.Repeat("10.0.0.1 ", 16):                      `Corefile:1: forward: more than 15 upstreams`,
	} {
		if _, err := Parse(input(text)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	_, err := Parse(input("forward . 10.0.0.1 {\n spray\n}"))
	if err == nil || !strings.HasPrefix(err.Error(), `Corefile:2: forward: unknown option "spray"; known are except, force_tcp, `) {
		t.Errorf("unknown option: %v", err)
	}
}

func TestNameservers(t *testing.T) {
	t.Parallel()
	got := nameservers([]byte("# nameserver 10.0.0.9\nsearch a.example\n nameserver 10.0.0.1 # first\nnameserver\nnameserver dns.example\nnameserver fe80::1%eth0\nnameserver 10.0.0.1\noptions ndots:5\nnameserver 0:0::1"), 53)
	want := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:53"), netip.MustParseAddrPort("[fe80::1%eth0]:53"), netip.MustParseAddrPort("[::1]:53")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPage holds docs/forward.md to what the code knows: each option in syntax and table, each metric, each example.
func TestPage(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/forward.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, r := range rows(input("forward . 10.0.0.1")) {
		usage := strings.TrimSpace(r.Name + " " + r.Usage)
		if !strings.Contains(page, "\n| `"+strings.ReplaceAll(usage, "|", `\|`)+"` |") && r.Name != "doh_method" {
			t.Errorf("the table has no row for %q", usage)
		}
		if !strings.Contains(page, "\n    "+usage+"\n") && r.Name != "doh_method" {
			t.Errorf("the syntax has no line %q", usage)
		}
		if r.Help == "" {
			t.Errorf("option %s has no help", r.Name)
		}
	}
	for name := range metricNames(t) {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("the page does not tell of metric %s", name)
		}
	}
	examples := 0
	for part := range strings.SplitSeq(page, "```corefile\n") {
		text, _, ok := strings.Cut(part, "\n```")
		if !ok || !strings.HasPrefix(text, ". {\n") {
			continue
		}
		for l := range strings.SplitSeq(text, "\n    forward ") {
			if strings.HasPrefix(l, ". {") {
				continue
			}
			l, _, _ = strings.Cut(l, "\n    }")
			if _, err := Parse(input("forward " + l)); err != nil {
				t.Errorf("example forward %s: %v", l, err)
			}
			examples++
		}
	}
	if examples != 5 {
		t.Errorf("%d forward lines in the examples", examples)
	}
}

// metricNames are the metrics that are registered, with a series or without.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	NewMetrics(recorder(out))
	return out
}

// recorder notes the names of what is registered.
type recorder map[string]bool

func (r recorder) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		ch := make(chan *prometheus.Desc, 1)
		c.Describe(ch)
		name, _, _ := strings.Cut(strings.TrimPrefix((<-ch).String(), `Desc{fqName: "`), `"`)
		r[name] = true
	}
}
func (recorder) Register(prometheus.Collector) error  { return nil }
func (recorder) Unregister(prometheus.Collector) bool { return false }
