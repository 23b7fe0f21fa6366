package directive_test

import (
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config/directive"
)

// TestNearest: a slip of the pen is understood, and another word is not taken for one.
func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"cache", "errors", "forward", "health", "hosts", "kubernetes", "log", "loop", "ready", "root", "tls"}
	for word, want := range map[string]string{
		"cahce": "cache", "Cache": "cache", "cach": "cache", "forwrad": "forward", "kubernets": "kubernetes", "kuberentse": "kubernetes",
		"lgo": "log", "logs": "log", "ttls": "tls", "readyy": "ready",
		"foo": "", "bar": "", "x": "", "": "", "proxy": "", "shed": "", strings.Repeat("x", 1000): "",
	} {
		if got := directive.Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
