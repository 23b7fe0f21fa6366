package errors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// lines is a log that keeps "LEVEL message" lines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// take gives the lines since the last call, as "LEVEL message".
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.b.String()) {
		line = strings.TrimSuffix(strings.TrimPrefix(line, "level="), "\n")
		level, msg, _ := strings.Cut(line, " msg=")
		out = append(out, level+" "+strings.TrimSuffix(strings.TrimPrefix(msg, `"`), `"`))
	}
	l.b.Reset()
	return strings.Join(out, "\n")
}

// failing fails for the reasons it is given, in turn of the questions.
type failing struct{ reasons []string }

func (f *failing) Answer(r *server.Reply, q *server.Query) server.Verdict {
	n := int(q.ID)
	if n >= len(f.reasons) {
		return server.Done
	}
	if a, b, ok := strings.Cut(f.reasons[n], "&"); ok {
		r.Fault(errors.New(a))
		return r.Fail(errors.New(b))
	}
	return r.Fail(errors.New(f.reasons[n]))
}

// fixture is a block with the directive.
func fixture(t *testing.T, text string, reasons ...string) (ask func(n int), e *Errors, l *lines) {
	t.Helper()
	o, err := Parse(plugintest.Input(t, text, "."))
	if err != nil {
		t.Fatal(err)
	}
	l = new(lines)
	e = New(o, l.logger())
	b := servertest.Block(".", server.Stage{Name: "forward", Handler: &failing{reasons}})
	b.Observers = []server.Observer{e}
	d := servertest.Direct(b)
	return func(n int) {
		m := servertest.Query("Example.Org.", dns.TypeA, 0)
		m.Id = uint16(n)
		d.Answer(servertest.Pack(t, m), netip.MustParseAddrPort("192.0.2.1:5"), server.UDP)
	}, e, l
}

func TestLines(t *testing.T) {
	t.Parallel()
	ask, _, l := fixture(t, "errors", "read udp 10.0.0.1:53: i/o timeout", "one&two", "line\nbreak\r[INFO] forged")
	for n, want := range []string{
		"ERROR plugin/errors: 2 example.org. A: read udp 10.0.0.1:53: i/o timeout",
		"ERROR plugin/errors: 2 example.org. A: one\nERROR plugin/errors: 2 example.org. A: two",
		`ERROR plugin/errors: 2 example.org. A: line\\nbreak\\r[INFO] forged`,
		"",
	} {
		ask(n)
		if got := l.take(); got != want {
			t.Errorf("%d: got\n%s\nwant\n%s", n, got, want)
		}
	}
}

// TestConsolidate plays scenarios: at second S the query with reason N, and what is logged after each step.
func TestConsolidate(t *testing.T) {
	t.Parallel()
	const (
		timeout = "read udp 10.0.0.1:53: i/o timeout"
		refused = "connection refused"
	)
	type step struct {
		wait time.Duration
		ask  int // -1 for none
		want string
	}
	for _, tt := range []struct {
		name, text string
		steps      []step
	}{
		{"counted and said once", "errors {\n consolidate 30s \"i/o timeout$\" warning\n}", []step{
			{0, 0, ""}, {10 * time.Second, 0, ""}, {10 * time.Second, 1, "ERROR plugin/errors: 2 example.org. A: " + refused},
			{10*time.Second - 1, -1, ""}, {1, -1, "WARN plugin/errors: 2 errors like 'i/o timeout$' occurred in last 30s"},
			{time.Hour, -1, ""},
		}},
		{"a new period begins with the next error", "errors {\n consolidate 1m .*\n}", []step{
			{0, 0, ""}, {time.Minute, -1, "ERROR plugin/errors: 1 errors like '.*' occurred in last 1m0s"},
			{time.Minute, -1, ""}, {0, 1, ""}, {time.Minute, -1, "ERROR plugin/errors: 1 errors like '.*' occurred in last 1m0s"},
		}},
		{"the first expression takes it", "errors {\n consolidate 10s timeout info\n consolidate 20s .* debug\n}", []step{
			{0, 0, ""}, {0, 1, ""}, {0, 0, ""}, {10 * time.Second, -1, "INFO plugin/errors: 2 errors like 'timeout' occurred in last 10s"},
			{10 * time.Second, -1, "DEBUG plugin/errors: 1 errors like '.*' occurred in last 20s"},
		}},
		{"the first is shown", "errors {\n consolidate 10s .* warning show_first\n}", []step{
			{0, 0, "WARN plugin/errors: 2 example.org. A: " + timeout}, {1, 1, ""}, {1, 0, ""},
			{10 * time.Second, -1, "WARN plugin/errors: 3 errors like '.*' occurred in last 10s"},
			{0, 1, "WARN plugin/errors: 2 example.org. A: " + refused}, {time.Minute, -1, ""},
		}},
		{"errors of one query are told apart", "errors {\n consolidate 10s one\n}", []step{
			{0, 2, "ERROR plugin/errors: 2 example.org. A: two"},
			{10 * time.Second, -1, "ERROR plugin/errors: 1 errors like 'one' occurred in last 10s"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ask, _, l := fixture(t, tt.text, timeout, refused, "one&two")
				for i, s := range tt.steps {
					<-time.After(s.wait)
					synctest.Wait()
					if s.ask >= 0 {
						ask(s.ask)
					}
					if got := l.take(); got != s.want {
						t.Errorf("step %d: got\n%s\nwant\n%s", i, got, s.want)
					}
				}
			})
		})
	}
}

// TestEndSaysWhatWasCollected: a reload or the end of the process loses nothing, and no timer is left.
func TestEndSaysWhatWasCollected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ask, e, l := fixture(t, "errors {\n consolidate 1h .*\n}", "x")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		ask(0)
		ask(0)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got, want := l.take(), "ERROR plugin/errors: 2 errors like '.*' occurred in last 1h0m0s"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		<-time.After(2 * time.Hour)
		synctest.Wait()
		if got := l.take(); got != "" {
			t.Errorf("said again: %q", got)
		}
	})
}

func TestPanic(t *testing.T) {
	t.Parallel()
	l := new(lines)
	LogPanic(l.logger(), false, "boom\n", []byte("goroutine 1"))
	if got, want := l.take(), `ERROR plugin/errors: Recovered from panic: boom\\n`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	LogPanic(l.logger(), true, errors.New("boom"), []byte("goroutine 1"))
	if got, want := l.take(), `ERROR plugin/errors: Recovered from panic: boom\ngoroutine 1`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestQueriesWithoutFaultsCostNothing(t *testing.T) {
	o, err := Parse(plugintest.Input(t, "errors {\n consolidate 1m .*\n}", "."))
	if err != nil {
		t.Fatal(err)
	}
	b := servertest.Block(".", server.Stage{Name: "x", Handler: &failing{}})
	b.Observers = []server.Observer{New(o, new(lines).logger())}
	servertest.NoAllocs(t, servertest.Query("example.org.", dns.TypeA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"errors":        "{false []}",
		"errors stdout": "{false []}",
		"errors {\n stacktrace\n consolidate 1m ^exact$\n}":                                        "{true [{1m0s ^exact$ error false}]}",
		"errors {\n consolidate 1m \"format error\"\n consolidate 5s error2 warning show_first\n}": "{false [{1m0s format error error false} {5s error2 warning true}]}",
		"errors {\n consolidate 1m x show_first\n}":                                                "{false [{1m0s x error true}]}",
	} {
		o, err := Parse(plugintest.Input(t, text, "."))
		if got := fmt.Sprint(o); err != nil || got != want {
			t.Errorf("%q: %s %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"errors errors.txt":                                               `Corefile:1: errors: takes no argument, found "errors.txt"`,
		"errors stdout b":                                                 `takes no argument, found "b"`,
		"errors {\n log x\n}":                                             `Corefile:2: errors: unknown option "log"; known are stacktrace, consolidate`,
		"errors {\n consolidate\n}":                                       `needs more arguments: consolidate DURATION REGEXP [LEVEL] [show_first]`,
		"errors {\n consolidate 1m\n}":                                    `needs more arguments`,
		"errors {\n consolidate 1m .* extra\n}":                           `"extra" is neither show_first nor a level`,
		"errors {\n consolidate 1m .* show_first warning\n}":              `"warning" is neither show_first nor a level in its place`,
		"errors {\n consolidate 1m .* show_first show_first\n}":           `"show_first" is neither`,
		"errors {\n consolidate abc .*\n}":                                `"abc" is not a duration`,
		"errors {\n consolidate 1 .*\n}":                                  `"1" is not a duration`,
		"errors {\n consolidate 0s .*\n}":                                 `0s is not within`,
		"errors {\n consolidate 1m ())\n}":                                `Corefile:2: errors: consolidate: not a regular expression`,
		"errors {\n consolidate 1m " + strings.Repeat("x", 10001) + "\n}": "10001 characters long",
		"errors {\n stacktrace x\n}":                                      `takes no argument "x"`,
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "errors", append(plugintest.Names(Rows()), "show_first", "warning", "error", "info", "debug")...)
}
