// Package e2e_test installs what deploy/ ships into a real cluster of one node and uses it as people do: see package cluster for how
// that cluster runs on this machine. The first run compiles Kubernetes, which takes some twenty minutes of CPU time; later ones begin in
// seconds. It needs Linux and root, and is skipped elsewhere.
package e2e_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

// world is the cluster of all tests, or the reason why there is none.
type world struct {
	*cluster.Cluster
	skip string
}

var node world

func TestMain(m *testing.M) {
	os.Exit(enter(m))
}

// enter is called three times: outside, to build and to make the sandbox; as its first process; and inside, where the tests run.
func enter(m *testing.M) int {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		node.skip = "a cluster needs Linux and root"
		return m.Run()
	}
	folders, err := cluster.NewFolders("../..")
	if err != nil {
		return fail(err)
	}
	if !cluster.Inside() {
		return outside(folders)
	}
	begin := time.Now()
	node.Cluster, err = cluster.Up(folders)
	if err != nil {
		return fail(err)
	}
	if err := upstream(); err != nil {
		return fail(err)
	}
	fmt.Printf("the cluster is up in %s\n", time.Since(begin).Round(100*time.Millisecond))
	return m.Run()
}

func outside(folders cluster.Folders) int {
	before := cluster.Traces()
	if os.Getenv("CLUSTERDNS_E2E_STAGE") == "" {
		if err := cluster.Build(folders, os.Stdout); err != nil {
			return fail(err)
		}
		if err := cluster.BuildImages(folders, os.Stdout); err != nil {
			return fail(err)
		}
	}
	code, err := cluster.Enter()
	if err != nil {
		return fail(err)
	}
	if left := cluster.NewTraces(before); len(left) > 0 {
		return fail(fmt.Errorf("this was left behind: %q", left))
	}
	fmt.Println("no process, namespace, mount, interface, rule or control group of the cluster is left")
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// get gives the cluster, or skips the test.
func get(t *testing.T) *cluster.Cluster {
	t.Helper()
	if node.skip != "" {
		t.Skip(node.skip)
	}
	return node.Cluster
}
