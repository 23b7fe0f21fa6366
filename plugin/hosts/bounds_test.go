package hosts

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
)

// TestBlockList has a file such as people publish: all its names are at one address. It is read in time that grows with its length and no faster (a square of it
// would be minutes here), and the address is answered with as many names as a reply holds.
func TestBlockList(t *testing.T) {
	t.Parallel()
	const names = 300_000
	var b strings.Builder
	for i := range names {
		fmt.Fprintf(&b, "0.0.0.0 ads%d.example.org\n", i)
	}
	for i := range 20_000 {
		fmt.Fprintf(&b, "10.0.%d.%d many.example.org\n", i/256, i%256)
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h := New(parse(t, "hosts "+file), nil, nil)
	h.look()
	plugintest.Check(t, "the last name", plugintest.Ask(t, "", plugintest.Question("ads299999.example.org.", "A"), h),
		"NOERROR", "ads299999.example.org. 3600 IN A 0.0.0.0")
	for name, typ := range map[string]string{"0.0.0.0.in-addr.arpa.": "PTR", "many.example.org.": "A"} {
		r := plugintest.Ask(t, "", plugintest.Question(name, typ), h)
		if n := len(r.Answer); r.Rcode != dns.RcodeSuccess || n < 1000 || n > maxPerReply {
			t.Errorf("%s: %d records of rcode %d", name, n, r.Rcode)
		}
	}
}

// endless is a file without end.
type endless struct{ line string }

func (e endless) Read(b []byte) (int, error) {
	return copy(b, strings.Repeat(e.line, 1+len(b)/len(e.line))), nil
}

// TestEndlessFiles stops reading where no file of hosts ends.
func TestEndlessFiles(t *testing.T) {
	t.Parallel()
	o := parse(t, "hosts x")
	for what, from := range map[string]io.Reader{"lines": endless{"# nothing\n"}, "one line": endless{"0"}} {
		if err := newTable().read(from, &o); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
