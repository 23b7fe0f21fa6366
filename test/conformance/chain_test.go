package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/cache"
	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/forward"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func startServer(t *testing.T, variant, upstream string) string {
	text, err := os.ReadFile(filepath.Join("testdata", "variants", variant+".corefile"))
	if err != nil {
		t.Fatal(err)
	}
	src := strings.NewReplacer("UPSTREAM", upstream, "SOURCE", "manifests testdata/cluster.yaml", ":PORT", "").Replace(string(text))
	reg := prometheus.NewRegistry()
	fm, cm := forward.NewMetrics(reg), cache.NewMetrics(reg)
	var blocks []*server.Block
	var zones []string
	var chain []server.Stage
	var shuffle bool
	var cur *directive.Input
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	run := func(r server.Runner) {
		go func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
	}
	finish := func(in *directive.Input) {
		switch in.Name.Text {
		case "kubernetes":
			o, err := kubernetes.Parse(in)
			if err != nil {
				t.Fatal(err)
			}
			k := kubernetes.New(o, kubernetes.NewManifests(o, nil), kubernetes.Deps{})
			run(k)
			<-k.Synced()
			chain = append(chain, server.Stage{Name: "kubernetes", Handler: k})
		case "cache":
			o, err := cache.Parse(in)
			if err != nil {
				t.Fatal(err)
			}
			chain = append(chain, server.Stage{Name: "cache", Handler: cache.New(o, cm)})
		case "forward":
			o, err := forward.Parse(in)
			if err != nil {
				t.Fatal(err)
			}
			f := forward.New([]forward.Options{o}, fm, slog.New(slog.DiscardHandler))
			run(f)
			chain = append(chain, server.Stage{Name: "forward", Handler: f})
		case "loadbalance":
			shuffle = true
		}
	}
	depth := 0
	for n, l := range strings.Split(src, "\n") {
		w := strings.Fields(l)
		if len(w) == 0 {
			continue
		}
		open := w[len(w)-1] == "{"
		if open {
			w = w[:len(w)-1]
		}
		line := directive.Line{HasBlock: open}
		for i, x := range w {
			a := directive.Arg{Text: x, File: "f", Line: n}
			if i == 0 {
				line.Name = a
			} else {
				line.Args = append(line.Args, a)
			}
		}
		switch {
		case w[0] == "}" && depth == 2:
			finish(cur)
			depth = 1
		case w[0] == "}":
			for _, z := range zones {
				b := servertest.Block(z, chain...)
				b.Options.Shuffle = shuffle
				blocks = append(blocks, b)
			}
			depth, chain, zones, shuffle = 0, nil, nil, false
		case depth == 0:
			for _, z := range w {
				if !strings.HasSuffix(z, ".") {
					z += "."
				}
				zones = append(zones, z)
			}
			depth = 1
		case depth == 1:
			cur = &directive.Input{Line: line, Zones: zones, Warn: func(directive.Arg, string, ...any) {}}
			if open {
				depth = 2
			} else {
				finish(cur)
			}
		default:
			cur.Lines = append(cur.Lines, line)
		}
	}
	fmt.Println(variant, len(blocks))
	return servertest.Start(t, blocks...).Addr
}
