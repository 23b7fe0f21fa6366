package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config"
)

// TestLargeCorefiles has Corefiles that are larger than any in use. Each is an error that says where and why, or is read in time that grows with
// its size and no faster: a square of it would be minutes here.
func TestLargeCorefiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"lines", ".:0 {\n" + strings.Repeat("whoami\n", 1_000_001) + "}\n", "1000000: more than 1000000 words"},
		{"a long line", ".:0 {\n nothing " + strings.Repeat("1.1.1.1 ", 100_000) + "\n}\n", `2: unknown directive "nothing"`},
		{"a long line of quotes", ".:0 {\n nothing " + strings.Repeat(`"\"" `, 100_000) + "\n}\n", `2: unknown directive "nothing"`},
		{"one word", ".:0 {\n nothing " + strings.Repeat("x", 4<<20) + "\n}\n", `2: unknown directive "nothing"`},
		{"an open quote", ".:0 {\n nothing \"" + strings.Repeat("x\n", 1<<20), ""},
		{"zones", strings.Repeat("example.org ", 50_000) + "{\n nothing\n}\n", "1: a server block of more than 10000 zones"},
		{"zones of their own", numbered("z%d.example ", 9_999) + "{\n nothing\n}\n", `unknown directive "nothing"`},
		{"directives", ". {\n" + strings.Repeat("whoami\n", 10_001) + "}\n", "10002: more than 10000 directives in a server block"},
		{"upstreams", ". {\n" + numbered("forward z%d.example 192.0.2.1\n", 9_000) + "nothing\n}\n", `9002: unknown directive "nothing"`},
		{"errors", ". {\n" + strings.Repeat("nothing\n", 9_000) + "}\n", "and 8900 errors more"},
		{"warnings", ". {\n" + strings.Repeat("forward . 192.0.2.1\n", 9_000) + "nothing\n}\n", `9002: unknown directive "nothing"`},
		{"imports", "(s) {\n import t\n}\n(t) {\n import s\n}\n. {\n import s\n}\n", "nested more than 64 deep; does it import itself?"},
		{"snippets that double", doubling(40), "import: more than 10000 imports"},
		{"a program", ". {\n template IN A {\n match " + strings.Repeat(".{0,1000}", 300) + "\n }\n}\n", "a program of more than 20000 steps"},
		{"a program of rewrite", ". {\n rewrite name regex " + strings.Repeat("(.?){1000}", 300) + " x\n}\n", "a program of more than 20000 steps"},
		{"a program of errors", ". {\n errors {\n consolidate 1m " + strings.Repeat("(.?){1000}", 9) + "\n }\n}\n", "steps"},
		{"a program of auto", ". {\n auto {\n directory d " + strings.Repeat("(.?){1000}", 300) + " x\n }\n}\n", "a program of more than 20000 steps"},
		{"braces", ". {\n log " + strings.Repeat("{\n a ", 1000) + strings.Repeat("}\n", 1001), "braces are nested more than 32 deep"},
	} {
		_, err := config.Parse(config.Source{Name: "Corefile", Text: []byte(c.text)}, "53")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v, want %q", c.name, err, c.want)
		}
	}
}

// numbered is a text with the numbers up to n in it.
func numbered(text string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, text, i)
	}
	return b.String()
}

// doubling has snippets each of which imports the one before twice.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString("(s0) {\n whoami\n}\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "(s%d) {\n import s%d\n import s%d\n}\n", i, i-1, i-1)
	}
	fmt.Fprintf(&b, ". {\n import s%d\n}\n", n)
	return b.String()
}

// TestEndlessCorefile stops reading at a size that no Corefile has.
func TestEndlessCorefile(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 16<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	paths := []string{large}
	if _, err := os.Stat("/dev/zero"); err == nil {
		paths = append(paths, "/dev/zero")
	}
	for _, p := range paths {
		if _, err := config.ReadSource(p); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
			t.Errorf("%s: %v", p, err)
		}
	}
}
