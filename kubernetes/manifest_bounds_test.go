package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestManifestBombs has files that are small and would be large, or take long, once read. Each is an error that says what is wrong.
func TestManifestBombs(t *testing.T) {
	t.Parallel()
	aliases, merges := "a: &a [x, x, x, x, x, x, x, x, x]\n", "m0: &m0 {x: 1}\n"
	for c := 'b'; c <= 'i'; c++ {
		aliases += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	for i := 1; i < 40; i++ {
		merges += fmt.Sprintf("m%d: &m%d {<<: [*m%d, *m%d], k%d: [*m%d, *m%d]}\n", i, i, i-1, i-1, i, i-1, i-1)
	}
	const list = `{"kind":"List","apiVersion":"v1","items":[`
	d, err := newDecoder(&Options{}, func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ text, want string }{
		"aliases of aliases": {aliases, "excessive aliasing"},
		"merges of merges":   {merges, "excessive aliasing"},
		"an alias of itself": {"a: &a [*a]\n", "contains itself"},
		"brackets":           {"a: " + strings.Repeat("[", 200_000), "max depth"},
		"braces":             {`{"a":` + strings.Repeat(`{"a":`, 200_000), "max depth"},
		"lists":              {strings.Repeat(list, 5000) + strings.Repeat("]}", 5000), "lists stand in lists more than 4 deep"},
		"a number":           {"kind: Service\napiVersion: v1\nmetadata: {name: a}\nspec: {ports: [{port: 1e999999999}]}\n", "a whole number is expected"},
	} {
		if _, err := d.decode("file", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v, want %q", what, err, c.want)
		}
	}
}

// TestManifestFiles: what is no file, or larger than one may be, is not read.
func TestManifestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxManifest+1); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{large: "larger than 256 MiB"}
	if _, err := os.Stat("/dev/zero"); err == nil {
		want["/dev/zero"] = "no regular file"
	}
	d, err := newDecoder(&Options{}, func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range want {
		if _, err := new(manifestFile).read(path, d, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
