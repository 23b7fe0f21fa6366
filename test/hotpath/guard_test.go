package hotpath_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuard shows that compare.sh fires: on one allocation more, and on a run that takes over 25% longer, and on nothing less.
func TestGuard(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	line := func(ns float64, allocs int) string {
		return fmt.Sprintf("BenchmarkHotPath/cluster-A\t  100000\t  %.1f ns/op\t  %d B/op\t  %d allocs/op\n", ns, 16*allocs, allocs)
	}
	for name, c := range map[string]struct {
		before, after string
		says          string // "" for nothing
	}{
		"the same":                   {line(500, 0), line(500, 0), ""},
		"an allocation":              {line(500, 0), line(500, 1), "allocates 1 times a query, 0 before"},
		"slower":                     {line(500, 0), line(640, 0), "takes 640 ns, 500 before"},
		"slower within the limit":    {line(500, 0), line(620, 0), ""},
		"the fastest of many counts": {line(500, 0), line(900, 0) + line(510, 0), ""},
		"faster, and an allocation":  {line(500, 1), line(300, 2), "allocates 2 times a query, 1 before"},
		"an allocation less":         {line(500, 1), line(500, 0), ""},
		"a new benchmark":            {"", line(500, 3), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			before, after := filepath.Join(dir, "old.txt"), filepath.Join(dir, "new.txt")
			for file, text := range map[string]string{before: c.before, after: c.after} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command("bash", "compare.sh", "-judge", before, after).CombinedOutput()
			if (err != nil) != (c.says != "") || !strings.Contains(string(out), c.says) {
				t.Errorf("%v: %q, want %q", err, out, c.says)
			}
		})
	}
}
