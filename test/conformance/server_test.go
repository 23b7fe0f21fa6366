package conformance

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
)

// startServer serves a variant's Corefile on a free port and gives its address.
func startServer(t *testing.T, variant, upstream string) string {
	t.Helper()
	path := filepath.Join("testdata", "variants", variant+".corefile")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("PORT", "0", "UPSTREAM", upstream, "SOURCE", source(t))
	i := config.NewInstance(config.NewShared(io.Discard, prometheus.Build{}), config.DefaultPort)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := i.Start(ctx, config.Source{Name: path, Path: path, Text: []byte(fill.Replace(string(text)))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := i.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, a := range i.Addrs() {
		return "127.0.0.1:" + strings.TrimPrefix(a.String()[strings.LastIndexByte(a.String(), ':'):], ":")
	}
	t.Fatal("the server listens nowhere")
	return ""
}
