package bufsize

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func TestLimit(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("big.example. 5 IN A 192.0.2.%d", i+1))
	}
	back := plugintest.NewAnswers(t, lines...)
	for text, want := range map[string]int{"bufsize": 1232, "bufsize 512": 512, "bufsize 4096": 4096} {
		o, err := Parse(plugintest.Input(t, text))
		if err != nil {
			t.Fatal(err)
		}
		b := servertest.Block(".", plugintest.Stage(back))
		o.Apply(&b.Options)
		s := servertest.Start(t, b)
		r := s.Exchange(t, "udp", servertest.Query("big.example.", dns.TypeA, 4096))
		if r.Compress = true; r.Len() > want || r.Truncated != (want < 1024) {
			t.Errorf("%s: %d bytes, TC %v", text, r.Len(), r.Truncated)
		}
		if r := s.Exchange(t, "tcp", servertest.Query("big.example.", dns.TypeA, 4096)); r.Truncated || len(r.Answer) != 60 {
			t.Errorf("%s over TCP: %d records, TC %v", text, len(r.Answer), r.Truncated)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"bufsize 511":          "511 is not within 512 and 4096",
		"bufsize 4097":         "is not within",
		"bufsize big":          "is not a whole number",
		"bufsize 512 1232":     "takes one size",
		"bufsize {\nsize 1\n}": "takes no options in braces",
	} {
		if _, err := Parse(plugintest.Input(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	var o server.Options
	if Options.Apply(Options{Size: 700}, &o); o.MaxUDP != 700 {
		t.Errorf("got %+v", o)
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "bufsize", "bufsize", "SIZE", "1232")
}
