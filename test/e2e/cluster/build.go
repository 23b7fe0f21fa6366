package cluster

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Folders says where things are kept. They are outside of the sandbox and stay for the next run.
type Folders struct {
	Repository string // root of this project
	Bin        string // compiled programs
	Images     string // image archives
	Logs       string // what the node's processes say, of the last run
}

// NewFolders finds the folders from the root of the project. CLUSTERDNS_E2E_CACHE moves what is compiled somewhere else.
func NewFolders(repository string) (Folders, error) {
	root, err := filepath.Abs(repository)
	if err != nil {
		return Folders{}, err
	}
	cache := os.Getenv("CLUSTERDNS_E2E_CACHE")
	if cache == "" {
		cache = filepath.Join(root, ".cache", "e2e")
	}
	f := Folders{Repository: root, Bin: filepath.Join(cache, "bin"), Images: filepath.Join(cache, "images"), Logs: filepath.Join(cache, "logs")}
	for _, d := range []string{f.Bin, f.Images, f.Logs} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return f, err
		}
	}
	return f, nil
}

// packages are Debian's, by a file that each of them brings.
var packages = []struct{ file, name string }{
	{"/usr/sbin/iptables", "iptables"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"/bin/busybox", "busybox-static"},
	{"/usr/bin/musl-gcc", "musl-tools"},
	{"/usr/bin/gcc", "gcc"},
	{"/usr/bin/pkg-config", "pkg-config"},
	{"/usr/bin/openssl", "openssl"},
}

// installPackages installs what is missing.
func installPackages(say io.Writer) error {
	var missing []string
	for _, p := range packages {
		if _, err := os.Stat(p.file); err != nil {
			missing = append(missing, p.name)
		}
	}
	if exec.Command("sh", "-c", "command -v ip").Run() != nil {
		missing = append(missing, "iproute2")
	}
	if exec.Command("pkg-config", "--exists", "libseccomp").Run() != nil {
		missing = append(missing, "libseccomp-dev")
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install what Debian calls %s", strings.Join(missing, ", "))
	}
	fmt.Fprintf(say, "installing %s\n", strings.Join(missing, " "))
	install := "apt-get install -y -q " + strings.Join(missing, " ")
	if out, err := exec.Command("sh", "-c", "DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND; "+install+" || { apt-get update -q && "+install+"; }").CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", install, err, tail(string(out), 10))
	}
	return nil
}

// program is a binary of the node, compiled from the module in node/.
type program struct {
	module, pkg, name string
	env, flags        []string
}

func programs() []program {
	const kubernetes = "k8s.io/kubernetes/cmd/"
	const containerd = "github.com/containerd/containerd/v2/cmd/"
	out := []program{
		{module: "etcd", pkg: "go.etcd.io/etcd/server/v3", name: "etcd"},
		{module: "runc", pkg: "github.com/opencontainers/runc", name: "runc", env: []string{"CGO_ENABLED=1"}, flags: []string{"-tags", "seccomp"}},
		{module: "coredns", pkg: ".", name: "coredns", env: []string{"CGO_ENABLED=0"}},
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"} {
		out = append(out, program{module: "kubernetes", pkg: kubernetes + name, name: name})
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		out = append(out, program{module: "containerd", pkg: containerd + name, name: name})
	}
	return out
}

// Build installs and compiles all that a cluster needs and is not there yet, and says on say what takes how long.
func Build(f Folders, say io.Writer) error {
	if err := installPackages(say); err != nil {
		return err
	}
	for _, p := range programs() {
		if err := p.build(f, say); err != nil {
			return err
		}
	}
	return nil
}

// build compiles a program unless it is there, of the same sources. The Go linker alone takes seconds for each, so its own
// judgement of what is up to date is too slow to ask.
func (p program) build(f Folders, say io.Writer) error {
	dir := filepath.Join(f.Repository, "test", "e2e", "node", p.module)
	stamp, out := filepath.Join(f.Bin, p.name+".stamp"), filepath.Join(f.Bin, p.name)
	want, err := stampOf(dir)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		if _, err := os.Stat(out); err == nil {
			return nil
		}
	}
	begin := time.Now()
	c := exec.Command("go", append(append([]string{"build", "-o", out}, p.flags...), p.pkg)...)
	c.Dir, c.Env = dir, append(os.Environ(), p.env...)
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", p.name, err, tail(string(text), 20))
	}
	fmt.Fprintf(say, "built %s in %s\n", p.name, time.Since(begin).Round(time.Second))
	return os.WriteFile(stamp, []byte(want), 0o644)
}

// stampOf names the sources of a program: its module's versions and the Go that compiles it.
func stampOf(dir string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version())
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		h.Write(b)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// tail gives the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
