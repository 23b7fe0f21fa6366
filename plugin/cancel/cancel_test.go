package cancel

import (
	"strings"
	"testing"
	"time"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"cancel": 5001 * time.Millisecond, "cancel 1s": time.Second} {
		o, err := Parse(plugintest.Input(t, text))
		if err != nil {
			t.Fatal(err)
		}
		var to server.Options
		if o.Apply(&to); to.Patience != want {
			t.Errorf("%s: %v, want %v", text, to.Patience, want)
		}
	}
	for text, want := range map[string]string{
		"cancel 0s":        "is not within",
		"cancel soon":      "is not a duration",
		"cancel 5":         "is not a duration",
		"cancel 1s 2s":     "takes one time",
		"cancel {\nx y\n}": "takes no options in braces",
	} {
		if _, err := Parse(plugintest.Input(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "cancel", "cancel", "TIMEOUT", "5001ms")
}
