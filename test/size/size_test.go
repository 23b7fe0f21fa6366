// Package size_test keeps the binary from growing unseen: how many bytes it has as it is released, and how many modules are in it. Each module is code
// that somebody else can change; each megabyte is pulled by every node and mapped by every replica.
package size_test

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

const (
	// maxBytes is a little over the 26.6 MB that it has: client-go and the API types are most of it. Of what could be left out, nothing is
	// linked: no cloud provider's login, no gRPC, no etcd client, no QUIC.
	maxBytes = 28_500_000
	// maxModules is what there is, and three.
	maxModules = 44
)

// unwanted are modules that came with a dependency's default build once, or would be easy to pull in, each with what to do instead.
var unwanted = map[string]string{
	"google.golang.org/grpc":           "nothing here speaks gRPC; the types of Kubernetes do without",
	"github.com/quic-go/quic-go":       "there is no DNS over QUIC or HTTP/3",
	"go.etcd.io/etcd/client/v3":        "state is in the Kubernetes API",
	"github.com/coredns/coredns":       "its facts are carried over, its code is not",
	"github.com/google/gnostic-models": "the discovery client of client-go; reflectors need none",
	"k8s.io/apiextensions-apiserver":   "custom resources are read without their definitions",
}

func TestBinary(t *testing.T) {
	if testing.Short() {
		t.Skip("it is built anew")
	}
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "clusterdns")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "github.com/clusterdns/clusterdns/cmd/clusterdns")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	st, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d modules", st.Size(), len(info.Deps))
	for _, why := range judge(st.Size(), info) {
		t.Error(why)
	}
}

// judge says what is wrong with a binary of a size and its modules.
func judge(size int64, info *buildinfo.BuildInfo) (out []string) {
	if size > maxBytes {
		out = append(out, "the binary has grown over its limit: see what is linked anew (go list -deps ./cmd/clusterdns), or move the limit with a reason")
	}
	if len(info.Deps) > maxModules {
		out = append(out, "there are more modules than the limit: see go version -m, or move the limit with a reason")
	}
	for _, d := range info.Deps {
		if why, ok := unwanted[d.Path]; ok {
			out = append(out, d.Path+" is linked: "+why)
		}
	}
	return out
}

// TestJudge shows that the guard fires.
func TestJudge(t *testing.T) {
	t.Parallel()
	if out := judge(maxBytes, &buildinfo.BuildInfo{}); len(out) > 0 {
		t.Error(out)
	}
	many := &buildinfo.BuildInfo{}
	for range maxModules + 1 {
		many.Deps = append(many.Deps, &debug.Module{Path: "google.golang.org/grpc"})
	}
	out := strings.Join(judge(maxBytes+1, many), "\n")
	for _, want := range []string{"grown", "more modules", "grpc"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q says nothing of %s", out, want)
		}
	}
}
