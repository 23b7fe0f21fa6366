package cache_test

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/cache"
)

// TestDocs holds docs/cache.md against the options and metrics.
func TestDocs(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/cache.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, o := range cache.Table() {
		if !strings.Contains(page, "\n| `"+o.Name) {
			t.Errorf("the table of options has no row for %s", o.Name)
		}
		if !strings.Contains(page, "\n    "+o.Name) {
			t.Errorf("the syntax does not show %s", o.Name)
		}
	}
	m := cache.NewMetrics(nil)
	out := make(chan *prometheus.Desc, 100)
	m.Describe(out)
	close(out)
	for d := range out {
		_, name, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		if !strings.Contains(page, "\n| `"+name+"`") {
			t.Errorf("the table of metrics has no row for %s", name)
		}
	}
	_, example, _ := strings.Cut(page, "## Example")
	_, example, _ = strings.Cut(example, "    cache")
	example, _, _ = strings.Cut(example, "\n    }")
	if _, err := cache.Parse(input("cache" + example + "\n}")); err != nil {
		t.Errorf("the example: %v", err)
	}
}
