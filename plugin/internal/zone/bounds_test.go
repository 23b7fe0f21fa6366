package zone_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/plugin/internal/zone"
	"github.com/clusterdns/clusterdns/server/wire"
)

const soa = "@ 300 IN SOA ns1 hostmaster 1 7200 3600 1209600 60\n"

// endless is a file without end.
type endless struct{ line string }

func (e endless) Read(b []byte) (int, error) {
	return copy(b, strings.Repeat(e.line, 1+len(b)/len(e.line))), nil
}

// TestBounds, with limits that are lower than those in use, has files that are short, or have no end, and would be more records than there is memory for.
func TestBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	itself, twice := filepath.Join(dir, "itself"), filepath.Join(dir, "twice")
	for file, text := range map[string]string{itself: soa + "$INCLUDE itself\n", twice: "$INCLUDE twice2\n" + strings.Repeat("$INCLUDE empty\n", 100), filepath.Join(dir, "twice2"): strings.Repeat("$INCLUDE empty\n", 100), filepath.Join(dir, "empty"): ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what string
		from io.Reader
		name string
		want string
	}{
		{"$GENERATE", strings.NewReader(soa + strings.Repeat("$GENERATE 0-65535 a$ 60 IN A 192.0.2.1\n", 1000)), "", "more than 100000 records"},
		{"$GENERATE of too many", strings.NewReader(soa + "$GENERATE 0-65536 a$ 60 IN A 192.0.2.1\n"), "", "bad range"},
		{"one set", strings.NewReader(soa + "$GENERATE 0-65535 a 60 IN TXT $\n"), "", "more than 5461 records, which no reply can hold"},
		{"comments", io.MultiReader(strings.NewReader(soa), endless{"; nothing\n"}), "", "the zone is larger than"},
		{"one word", io.MultiReader(strings.NewReader(soa), endless{"a"}), "", "the zone is larger than"},
		{"includes itself", strings.NewReader(soa + "$INCLUDE itself\n"), itself, "too deeply nested $INCLUDE"},
		{"includes that multiply", strings.NewReader(soa + "$INCLUDE twice\n"), twice, "too many files are included"},
		{"a folder", strings.NewReader("$INCLUDE " + dir + "\n"), itself, "no regular file"},
		{"not there", strings.NewReader("$INCLUDE nothing\n"), itself, "no such file"},
		{"in a string", strings.NewReader(soa + "$INCLUDE itself\n"), "", "not allowed"},
	} {
		_, err := zone.ParseWithin(100_000, 100, 8<<20, c.from, wire.NewZone(wire.MustCanonical(origin)), c.name)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v, want %q", c.what, err, c.want)
		}
	}
}

// TestIncludes reads files that include others, by paths of both kinds.
func TestIncludes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"sub/a": "$INCLUDE b\na 60 IN A 192.0.2.1\n",
		"sub/b": "$INCLUDE ../c\nb 60 IN A 192.0.2.2\n",
		"c":     "c 60 IN A 192.0.2.3\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"sub/a", filepath.Join(dir, "sub/a")} {
		z, err := zone.Parse(strings.NewReader(fmt.Sprintf("%s$INCLUDE %s\n", soa, path)), wire.NewZone(wire.MustCanonical(origin)), filepath.Join(dir, "db"))
		if err != nil || z.Len() != 4 {
			t.Errorf("%s: %v, %v", path, z, err)
		}
	}
}
