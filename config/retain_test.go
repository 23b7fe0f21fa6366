package config

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/clusterdns/clusterdns/plugin/prometheus"
)

// TestOldConfigurationsAreForgotten: a part that goes on for the life of the process does not keep the configuration that it began with, whose cache may be large.
func TestOldConfigurationsAreForgotten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := NewShared(io.Discard, prometheus.Build{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begin := func(ttl string, before *generation) *generation {
		c, err := Parse(Source{Name: "Corefile", Text: []byte(". {\n kubernetes cluster.local {\n manifests " + file + "\n }\n cache " + ttl + "\n forward . 127.0.0.1\n}\n")}, "0")
		if err != nil {
			t.Fatal(err)
		}
		g, err := build(shared, c, before)
		if err != nil {
			t.Fatal(err)
		}
		g.start(ctx)
		if err := g.await(ctx); err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := begin("30", nil)
	next := begin("20", first)
	for _, p := range first.end(next) {
		<-p.done
	}
	old := weak.Make(first) // the last use of first
	for late := time.Now().Add(20 * time.Second); old.Value() != nil; runtime.GC() {
		if time.Now().After(late) {
			t.Fatal("the first configuration is still in memory")
		}
	}
	for _, p := range next.end(nil) {
		<-p.done
	}
}
