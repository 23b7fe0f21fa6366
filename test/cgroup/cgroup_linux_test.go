// Package cgroup_test starts the program in control groups of its own, as a container runtime does, and looks at what it makes of their limits.
package cgroup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/test/internal/process"
)

const corefile = `.:%s {
    bind 127.0.0.1
    debug
    whoami
}
`

// TestLimits: nine tenths of the group's memory are Go's, and as many threads run Go as the group's CPU quota allows, though not fewer than two,
// which is the runtime's own rule.
func TestLimits(t *testing.T) {
	t.Parallel()
	const memory, cpus = 200 << 20, 2
	join := group(t, memory, cpus)
	bin, conf := process.Build(t), filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(conf, fmt.Appendf(nil, corefile, process.FreePort(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	said := process.NewOutput()
	cmd := exec.Command("sh", "-c", join+`exec "$0" "$@"`, bin, "-conf", conf)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GOMEMLIMIT=") && !strings.HasPrefix(v, "GOMAXPROCS=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	got := said.Await(t, `memory limit of Go: (\d+) MiB.*threads that run Go: (\d+)`, 1)
	if want := strconv.Itoa(memory * 9 / 10 >> 20); got[1] != want {
		t.Errorf("memory limit %s MiB, want %s", got[1], want)
	}
	if want := strconv.Itoa(min(cpus, runtime.NumCPU())); got[2] != want {
		t.Errorf("%s threads, want %s", got[2], want)
	}
	if runtime.NumCPU() <= cpus {
		t.Logf("with %d CPUs, the quota of %d makes no difference", runtime.NumCPU(), cpus)
	}
}

// group makes control groups with limits, of version 2 or 1, and gives the commands by which a shell joins them.
func group(t *testing.T, memory, cpus int) (join string) {
	t.Helper()
	own := map[string]string{} // by controller; "" is version 2
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for c := range strings.SplitSeq(f[1], ",") {
				own[c] = f[2]
			}
		}
	}
	const period = 100_000 // microseconds: what both versions have if nobody says otherwise
	name := fmt.Sprintf("clusterdns-test-%d", os.Getpid())
	if _, old := own["memory"]; !old {
		dir := filepath.Join("/sys/fs/cgroup", own[""], name)
		return makeGroup(t, dir, map[string]string{"memory.max": strconv.Itoa(memory), "cpu.max": fmt.Sprintf("%d %d", cpus*period, period)})
	}
	return makeGroup(t, filepath.Join("/sys/fs/cgroup/memory", own["memory"], name), map[string]string{"memory.limit_in_bytes": strconv.Itoa(memory)}) +
		makeGroup(t, filepath.Join("/sys/fs/cgroup/cpu", own["cpu"], name), map[string]string{"cpu.cfs_quota_us": strconv.Itoa(cpus * period)})
}

// makeGroup makes one group with limits, until the test ends. Where that is not allowed the test is skipped.
func makeGroup(t *testing.T, dir string, limits map[string]string) (join string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Skip("no control group can be made here: ", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	for file, limit := range limits {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(limit), 0o600); err != nil {
			t.Skip("no limit can be set here: ", err)
		}
	}
	return fmt.Sprintf("echo $$ >%s/cgroup.procs && ", dir)
}
