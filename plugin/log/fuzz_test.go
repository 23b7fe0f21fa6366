package log

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// FuzzLines sends whatever bytes as a query: each that has a question becomes exactly one line of printable text, and one object of JSON.
func FuzzLines(f *testing.F) {
	for _, name := range []string{".", "a.example.org.", "a\\010b\\\"c\\\\.org.", "\\255\\000.x.", "fail.org.", "drop.", "referral."} {
		m := question(name, dns.TypeA, 1)
		f.Add(servertest.Pack(f, m))
		f.Add(servertest.Pack(f, m.SetEdns0(1232, true)))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		var out bytes.Buffer
		w := NewWriter(&out)
		text := parse(t, "log {\n failures\n}")
		text.Classes = All
		b := block(w, text)
		b.Observers = append(b.Observers, New(w, parse(t, "log {\n json test/hostile\n}")))
		servertest.Direct(b).Answer(bytes.Clone(msg), netip.MustParseAddrPort(v6), server.UDP)
		w.Flush()
		if out.Len() == 0 {
			return
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines:\n%s", len(lines), &out)
		}
		for _, c := range lines[0] {
			if hidden(c) {
				t.Errorf("%q stands in %q", c, lines[0])
			}
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(lines[1]), &m); err != nil || !utf8.ValidString(lines[1]) {
			t.Errorf("%v: %s", err, lines[1])
		}
		q := new(dns.Msg)
		if q.Unpack(msg) == nil && len(q.Question) == 1 && m["name"] != strings.ToLower(q.Question[0].Name) {
			t.Errorf("name is %q, want %q", m["name"], q.Question[0].Name)
		}
	})
}

// FuzzFormats compiles whatever format: it never panics, and what has no braces stays as it is.
func FuzzFormats(f *testing.F) {
	for _, s := range []string{Common, Combined, "{", "}", "{{}}", "{/}", "{/a/b}", "{>id}{", "a{b}c"} {
		f.Add(s)
	}
	log := slog.New(NewHandler(io.Discard, slog.LevelInfo))
	f.Fuzz(func(t *testing.T, format string) {
		log.Info(format, format, format) // the process's own messages have to stand as much
		e := &entry{r: new(server.Reply), q: new(server.Query)}
		var b []byte
		for _, o := range compile(format) {
			if o.text == "" {
				return // a placeholder, whose value needs a query
			}
			b = o.add(b, e, o.text)
		}
		if !strings.ContainsAny(format, "{}") && string(b) != format {
			t.Errorf("%q became %q", format, b)
		}
		unknown(format)
	})
}
