package template

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
)

// answering makes a handler with one template.
func answering(t *testing.T, m *Metrics, text string) *Template {
	t.Helper()
	o, err := Parse(plugintest.Input(t, "template IN ANY example {\n match ^n(?P<n>[0-9]+)[.]\n}", "."))
	if err != nil {
		t.Fatal(err)
	}
	o.Answer = []string{text}
	h, err := New(o, m)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestBombs has templates that a query makes endless: it is SERVFAIL after a moment, with the reason, and counted.
func TestBombs(t *testing.T) {
	t.Parallel()
	const loops, large = "gone through more than 10000 times", "a text of more than 256 KiB"
	for text, want := range map[string]string{
		`{{range parseInt .Group.n 10 64}}{{end}}x 60 IN A 1.1.1.1`:                                                       loops,
		`{{range parseInt .Group.n 10 64}}{{else}}{{end}}x 60 IN A 1.1.1.1`:                                               loops,
		`{{if .Name}}{{range 1000}}{{with .}}{{range 1000}}{{end}}{{end}}{{end}}{{end}}`:                                  loops,
		`{{if not .Name}}{{else}}{{range 99999}}{{continue}}{{end}}{{end}}`:                                               loops,
		`{{define "a"}}{{template "b"}}{{template "b"}}{{end}}{{define "b"}}{{range 6000}}{{end}}{{end}}{{template "a"}}`: loops,
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`:                                                           loops,
		`{{range 9999}}{{$.Name}}{{$.Name}}{{$.Name}}{{end}}`:                                                             large,
		`{{$x := "12345678"}}{{range 64}}{{$x = print $x $x}}{{end}}`:                                                     large,
		`{{$x := "<"}}{{range 64}}{{$x = html $x $x}}{{end}}`:                                                             large,
		`{{$x := "<"}}{{range 64}}{{$x = js $x $x}}{{end}}`:                                                               large,
		`{{$x := "<"}}{{range 64}}{{$x = urlquery $x $x}}{{end}}`:                                                         large,
		`{{$x := "<"}}{{range 64}}{{$x = println $x $x}}{{end}}`:                                                          large,
		`{{printf "%999999d" 1}}`:   large,
		`{{printf "%*d" 999999 1}}`: large,
	} {
		reg := prometheus.NewRegistry()
		h := answering(t, NewMetrics(reg), text)
		r := plugintest.Ask(t, "", plugintest.Question("n999999999999.example.", "A"), h)
		if r.Rcode != dns.RcodeServerFailure || len(r.Answer) > 0 {
			t.Errorf("%s: %v", text, r)
		}
		p, err := compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.run(&data{Name: "n1.example.", Group: map[string]string{"n": "999999999999"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if n, err := testutil.GatherAndCount(reg, "coredns_template_template_failures_total"); n != 1 || err != nil {
			t.Errorf("%s: counted %d times, %v", text, n, err)
		}
	}
}

// TestLoopsThatEnd are none of that, however often they are asked.
func TestLoopsThatEnd(t *testing.T) {
	t.Parallel()
	h := answering(t, nil, `{{.Name}} 60 IN TXT "{{range $i, $x := .Match}}{{$i}}{{range 99}}.{{end}}{{end}}"`)
	for range 300 {
		r := plugintest.Ask(t, "", plugintest.Question("n1.example.", "TXT"), h)
		if len(r.Answer) != 1 || !strings.Contains(r.Answer[0].String(), "0"+strings.Repeat(".", 99)) {
			t.Fatal(r)
		}
	}
}
