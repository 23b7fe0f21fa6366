// Package process builds the program and follows what it says, for tests that run it.
package process

import (
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait for something to be said, on a loaded machine and under the race detector.
const patience = 30 * time.Second

// Build compiles the program into a folder of the test, with options of go build, and gives its path.
func Build(tb testing.TB, options ...string) string {
	tb.Helper()
	bin := filepath.Join(tb.TempDir(), "clusterdns")
	if out, err := exec.Command("go", append(append([]string{"build", "-o", bin}, options...), "github.com/clusterdns/clusterdns/cmd/clusterdns")...).CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// FreePort is Port for tests.
func FreePort(tb testing.TB) string {
	tb.Helper()
	port, err := Port()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// Port is a port of loopback that is free now, for TCP and UDP.
func Port() (string, error) {
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		defer ln.Close() // held until a port is found, so that the next one is another
		pc, err := net.ListenPacket("udp", ln.Addr().String())
		if err != nil {
			continue
		}
		pc.Close()
		_, port, err := net.SplitHostPort(ln.Addr().String())
		return port, err
	}
	return "", errors.New("no port is free")
}

// Output is what a process says: its standard output and error.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
	grew chan struct{}
}

// NewOutput makes an empty one.
func NewOutput() *Output { return &Output{grew: make(chan struct{})} }

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	close(o.grew)
	o.grew = make(chan struct{})
	return len(b), nil
}

// String is all that was said so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Await waits until an expression has matched n times, and gives the groups of the last match.
func (o *Output) Await(tb testing.TB, expr string, n int) []string {
	tb.Helper()
	re, end := regexp.MustCompile(expr), time.After(patience)
	for {
		o.mu.Lock()
		text, grew := o.text.String(), o.grew
		o.mu.Unlock()
		if found := re.FindAllStringSubmatch(text, -1); len(found) >= n {
			return found[n-1]
		}
		select {
		case <-grew:
		case <-end:
			tb.Fatalf("the server has not said %q %d times:\n%s", expr, n, text)
		}
	}
}
