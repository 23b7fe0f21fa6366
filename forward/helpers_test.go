package forward

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// input makes what the configuration's parser would of a forward line and the options below it.
func input(text string) *directive.Input {
	in := &directive.Input{Root: "/etc/clusterdns"}
	for i, l := range strings.Split(strings.TrimSpace(text), "\n") {
		var args []directive.Arg
		for _, f := range strings.Fields(l) {
			if f != "{" && f != "}" {
				args = append(args, directive.Arg{Text: f, File: "Corefile", Line: i + 1})
			}
		}
		if len(args) == 0 {
			continue
		}
		line := directive.Line{Name: args[0], Args: args[1:]}
		if i == 0 {
			in.Line = line
		} else {
			in.HasBlock = true
			in.Lines = append(in.Lines, line)
		}
	}
	return in
}

func parsed(t testing.TB, text string) Options {
	t.Helper()
	o, err := Parse(input(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// running makes a handler of forward lines and runs it until the test ends.
func running(t testing.TB, lines ...string) *Forward {
	t.Helper()
	var opts []Options
	for _, l := range lines {
		opts = append(opts, parsed(t, l))
	}
	f := New(opts, NewMetrics(nil), quiet())
	run(t, f)
	return f
}

func run(t testing.TB, f *Forward) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// registered makes a handler whose metrics can be gathered.
func registered(t testing.TB, line string) (*prometheus.Registry, *Forward) {
	t.Helper()
	reg := prometheus.NewRegistry()
	return reg, New([]Options{parsed(t, line)}, NewMetrics(reg), quiet())
}

// contextUntil ends when c is closed.
func contextUntil(c <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-c
		cancel()
	}()
	return ctx
}

func serving(t testing.TB, f *Forward) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Block(".", server.Stage{Name: "forward", Handler: f}))
}
