package ready

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/clusterdns/clusterdns/plugin/admin"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
)

// part is ready when a test says so, and counts how often it is asked.
type part struct {
	ready atomic.Bool
	asked atomic.Int32
}

func (p *part) Ready() bool {
	p.asked.Add(1)
	return p.ready.Load()
}

// uncomparable is a part of a type that == panics on.
type uncomparable []bool

func (u uncomparable) Ready() bool { return u[0] }

// fixture serves the state on a real socket and gives what a probe sees.
func fixture(t *testing.T, log *slog.Logger) (*State, func() string) {
	t.Helper()
	s := New(log)
	srv := admin.New(log)
	t.Cleanup(func() { srv.Shutdown(t.Context()) })
	o := Options{Address: "127.0.0.1:0"}
	if err := srv.Apply([]admin.Route{s.Route(o)}); err != nil {
		t.Fatal(err)
	}
	return s, func() string {
		t.Helper()
		resp, err := http.Get("http://" + srv.Addr(o.Address) + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(resp.StatusCode, " ", string(b))
	}
}

func expect(t *testing.T, probe func() string, when, want string) {
	t.Helper()
	if got := probe(); got != want {
		t.Errorf("%s: %s, want %s", when, got, want)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func TestLife(t *testing.T) {
	t.Parallel()
	s, probe := fixture(t, quiet)
	expect(t, probe, "before there is a configuration", "503 Starting")
	k, h := new(part), new(part)
	s.Apply([]Part{{Name: "kubernetes", Part: k}, {Name: "hosts", Part: h}, {Name: "kubernetes", Part: new(part)}})
	expect(t, probe, "nothing is ready", "503 hosts,kubernetes")
	s.Apply([]Part{{Name: "kubernetes", Part: k}, {Name: "hosts", Part: h}})
	h.ready.Store(true)
	expect(t, probe, "one is ready", "503 kubernetes")
	k.ready.Store(true)
	expect(t, probe, "all are ready", "200 OK")
	k.ready.Store(false)
	expect(t, probe, "one was ready once", "200 OK")
	s.Stop()
	expect(t, probe, "the process ends", "503 Shutting down")
	s.Apply(nil)
	expect(t, probe, "the process ends, whatever else happens", "503 Shutting down")
}

// TestUntilReadyAsksNoMore: a part that was ready is left alone, over reloads that keep it too; another of the same name is asked.
func TestUntilReadyAsksNoMore(t *testing.T) {
	t.Parallel()
	s, probe := fixture(t, quiet)
	k := new(part)
	k.ready.Store(true)
	s.Apply([]Part{{Name: "kubernetes", Part: k}})
	for range 3 {
		expect(t, probe, "ready", "200 OK")
		s.Apply([]Part{{Name: "kubernetes", Part: k}})
	}
	if n := k.asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	s.Apply([]Part{{Name: "kubernetes", Part: new(part)}})
	expect(t, probe, "another part took its place", "503 kubernetes")
}

func TestContinuouslyAsksEachTime(t *testing.T) {
	t.Parallel()
	s, probe := fixture(t, quiet)
	k := new(part)
	k.ready.Store(true)
	s.Apply([]Part{{Name: "file", Part: k, Monitor: Continuously}})
	expect(t, probe, "ready", "200 OK")
	k.ready.Store(false)
	expect(t, probe, "not any more", "503 file")
	k.ready.Store(true)
	expect(t, probe, "ready again", "200 OK")
}

func TestConfigurationsWithoutParts(t *testing.T) {
	t.Parallel()
	s, probe := fixture(t, quiet)
	s.Apply(nil)
	expect(t, probe, "nothing to wait for", "200 OK")
	for range 2 {
		s.Apply([]Part{{Name: "x", Part: uncomparable{true}}})
		expect(t, probe, "a part of a strange type", "200 OK")
	}
}

// TestLog: what is waited for is said when it changes, not with each probe.
func TestLog(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	s, probe := fixture(t, slog.New(slog.NewTextHandler(&said, nil)))
	k := new(part)
	s.Apply([]Part{{Name: "kubernetes", Part: k}})
	for range 3 {
		probe()
	}
	k.ready.Store(true)
	for range 3 {
		probe()
	}
	if n := strings.Count(said.String(), "plugin/ready: Still waiting on:"); n != 1 {
		t.Errorf("said %d times what it waits for:\n%s", n, &said)
	}
	if n := strings.Count(said.String(), "msg=\"plugin/ready: ready\""); n != 1 {
		t.Errorf("said %d times that it is ready:\n%s", n, &said)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Options{
		"ready":                                {":8181", UntilReady},
		"ready localhost:1234":                 {"localhost:1234", UntilReady},
		"ready unix:/run/ready":                {"unix:/run/ready", UntilReady},
		"ready {\n monitor until-ready\n}":     {":8181", UntilReady},
		"ready :1 {\n monitor continuously\n}": {":1", Continuously},
	} {
		if got, err := Parse(plugintest.Input(t, text, ".")); err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"ready bla":                               `Corefile:1: ready: "bla" is not an address`,
		"ready localhost:1234 b":                  `takes one address`,
		"ready unix:run/ready":                    `Corefile:1: ready: the path of a socket begins with /`,
		"ready {\n monitor 404\n}":                `Corefile:2: ready: monitor: "404" is neither until-ready nor continuously`,
		"ready {\n monitor\n}":                    `needs more arguments`,
		"ready {\n monitor continuously extra\n}": `takes no argument "extra"`,
		"ready {\n monitro continuously\n}":       `unknown option "monitro"; did you mean "monitor"?`,
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "ready", append(plugintest.Names(Rows()), "until-ready", "continuously", DefaultAddress, Path)...)
}
