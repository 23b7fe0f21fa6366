package erratic

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func handler(t *testing.T, text string) *Erratic {
	t.Helper()
	o, err := Parse(plugintest.Input(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return New(o)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	h := handler(t, "erratic {\ndrop 0\n}")
	soa := "a. 0 IN SOA a. a. 1 3600 3600 3600 3600"
	for typ, want := range map[string]string{
		"A":    "NOERROR\na. 0 IN A 192.0.2.53",
		"AAAA": "NOERROR\na. 0 IN AAAA 2001:db8::53",
		"TXT":  "SERVFAIL",
		"AXFR": "NOERROR\n" + soa + "\na. 0 IN A 192.0.2.53\na. 0 IN AAAA 2001:db8::53\n" + soa,
	} {
		plugintest.Check(t, typ, plugintest.Ask(t, "", plugintest.Question("a.", typ), h), want)
	}
	if !h.Ready() {
		t.Error("not ready")
	}
	h = handler(t, "erratic {\ntruncate 1\n}")
	plugintest.Check(t, "truncated AXFR", plugintest.Ask(t, "", plugintest.Question("a.", "AXFR"), h), "NOERROR\n"+soa+"\na. 0 IN A 192.0.2.53\na. 0 IN AAAA 2001:db8::53")
	if r := plugintest.Ask(t, "", plugintest.Question("a.", "A"), handler(t, "erratic {\nlarge\ndrop 0\n}")); len(r.Answer) != 29 {
		t.Errorf("large: %d records", len(r.Answer))
	}
}

func TestDropAndTruncate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"erratic":                          ".A.A.A",
		"erratic {\ndrop 3\n}":             ".AA.AA",
		"erratic {\ntruncate\n}":           "TATATA",
		"erratic {\ndrop 2\ntruncate 3\n}": ".A.T.A",
		"erratic {\nlarge\n}":              ".A.A.A",
	} {
		h := handler(t, text)
		got := ""
		for range 6 {
			switch r := plugintest.Ask(t, "", plugintest.Question("a.", "A"), h); {
			case r == nil:
				got += "."
			case r.Truncated:
				got += "T"
			default:
				got += "A"
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]time.Duration{
		"erratic {\ndelay\n}":        {100 * time.Millisecond, 0},
		"erratic {\ndelay 3 50ms\n}": {50 * time.Millisecond, 0, 0, 50 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := handler(t, text)
			for i, d := range want {
				start := time.Now()
				plugintest.Check(t, text, plugintest.Ask(t, "", plugintest.Question("a.", "A"), h), "NOERROR\na. 0 IN A 192.0.2.53")
				if got := time.Since(start); got != d {
					t.Errorf("%q, query %d: %v, want %v", text, i, got, d)
				}
			}
		})
	}
}

func TestNoAllocs(t *testing.T) {
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeA, 1232), servertest.Block(".", plugintest.Stage(handler(t, "erratic {\ndrop 0\n}"))))
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"erratic now":             "takes no argument",
		"erratic {\ndrop -1\n}":   "is not within",
		"erratic {\ndrop x\n}":    "is not a whole number",
		"erratic {\ndelay 2 x\n}": "is not a duration",
		"erratic {\nbreak\n}":     `unknown option "break"; known are drop, truncate, delay, large`,
	} {
		if _, err := Parse(plugintest.Input(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "erratic", plugintest.Names(Rows())...)
}
