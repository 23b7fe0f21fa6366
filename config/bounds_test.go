package config_test

import (
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
		{"zones", strings.Repeat("example.org ", 50_000) + "{\n nothing\n}\n", `unknown directive "nothing"`},
	} {
		_, err := config.Parse(config.Source{Name: "Corefile", Text: []byte(c.text)}, "53")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v, want %q", c.name, err, c.want)
		}
	}
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
