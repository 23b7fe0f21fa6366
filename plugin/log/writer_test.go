package log

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// output is what a test writes to: it may be read while it is written, and can be made to stall.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	gate  chan struct{} // nil, or what each write waits for
	sizes []int
}

func (o *output) Write(p []byte) (int, error) {
	if o.gate != nil {
		<-o.gate
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sizes = append(o.sizes, len(p))
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func write(t *testing.T, w *Writer, s string) {
	t.Helper()
	if _, err := w.Write([]byte(s)); err != nil {
		t.Error(err)
	}
}

// TestLinesAppearSoon: within 100 ms, together, and the rest when the writer ends.
func TestLinesAppearSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := new(output)
		w := NewWriter(out)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		for range 3 {
			write(t, w, "a\n")
			synctest.Wait()
		}
		if got := out.String(); got != "" {
			t.Errorf("written at once: %q", got)
		}
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		if got := out.String(); got != "a\na\na\n" || len(out.sizes) != 1 {
			t.Errorf("after 100 ms there is %q in %d writes, want three lines in one", got, len(out.sizes))
		}
		write(t, w, strings.Repeat("b", batch)+"\n")
		synctest.Wait()
		if got := out.String(); !strings.HasSuffix(got, "b\n") {
			t.Error("a full batch waits")
		}
		write(t, w, "last\n")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := out.String(); !strings.HasSuffix(got, "last\n") {
			t.Errorf("ended without the last line: %q", got[max(0, len(got)-20):])
		}
	})
}

// TestNothingIsLostWhileTheOutputMoves, from many workers at once.
func TestNothingIsLostWhileTheOutputMoves(t *testing.T) {
	t.Parallel()
	out := new(output)
	w := NewWriter(out)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	const workers, each = 4, 3000
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			d := servertest.Direct(block(w, parse(t, `log . "{name} {>id}"`)))
			for k := range each {
				d.Answer(servertest.Pack(t, question(string(rune('a'+i))+".org.", dns.TypeA, uint16(k))), servertest.Client, server.UDP)
			}
		})
	}
	wg.Wait()
	cancel()
	<-done
	if n := w.Lost(); n != 0 {
		t.Errorf("%d lines lost", n)
	}
	next := map[string]int{}
	total := 0
	for line := range strings.Lines(out.String()) {
		total++
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("a line is torn: %q", line)
		}
		next[f[1]]++
	}
	if total != workers*each || len(next) != workers {
		t.Errorf("%d lines of %d names, want %d of %d", total, len(next), workers*each, workers)
	}
}

// TestStalledOutput: queries are answered on, memory is bounded, and the loss is said and counted afterwards.
func TestStalledOutput(t *testing.T) {
	t.Parallel()
	out := &output{gate: make(chan struct{})}
	w := NewWriter(out)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	d := servertest.Direct(block(w, parse(t, "log")))
	msg := servertest.Pack(t, question(strings.Repeat(strings.Repeat("x", 60)+".", 4), dns.TypeA, 1))
	const asked = 20_000 // some 6 MB of lines
	for range asked {
		if _, ok := d.Answer(msg, servertest.Client, server.UDP); !ok {
			t.Fatal("no answer while the output stalls")
		}
	}
	lost := w.Lost()
	if lost == 0 || lost == asked {
		t.Errorf("%d of %d lines lost", lost, asked)
	}
	if n := len(w.shards[0].buf); n > bound+1000 {
		t.Errorf("%d bytes are kept, bound %d", n, bound)
	}
	close(out.gate)
	cancel()
	<-done
	got := out.String()
	if n := uint64(strings.Count(got, "NOERROR")); n+lost != asked {
		t.Errorf("%d lines written and %d lost of %d", n, lost, asked)
	}
	if !strings.Contains(got, "[WARNING] plugin/log: ") || !strings.Contains(got, "lines lost") {
		t.Error("the loss is not said")
	}
}

// broken is an output that fails.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestBrokenOutput(t *testing.T) {
	t.Parallel()
	w := NewWriter(broken{})
	for range 3 {
		write(t, w, "x\n")
		w.Flush()
	}
}

// TestHandler writes messages as CoreDNS does.
func TestHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out)
	level := new(slog.LevelVar)
	log := slog.New(NewHandler(w, level))
	log.Debug("unseen")
	log.Info("plugin/reload: done", "md5", "abc", "took", time.Second, "text", "a \"b\"\nc", "empty", "")
	log.Warn("line one\nline two\r\x1b[31m")
	log.With("zone", "org.").WithGroup("g").With("a", 1).Error("bad", "b", slog.GroupValue(slog.Int("c", 2), slog.Group("d", "e", "f")))
	level.Set(slog.LevelDebug)
	log.WithGroup("").Debug("seen", slog.Attr{})
	w.Flush()
	want := `[INFO] plugin/reload: done md5=abc took=1s text="a \"b\"\nc" empty=""
[WARNING] line one
line two\x0d\x1b[31m
[ERROR] bad zone=org. g.a=1 g.b.c=2 g.b.d.e=f
[DEBUG] seen
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
