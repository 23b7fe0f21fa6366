package cluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Names of the images that are in every cluster.
const (
	ImageOurs    = "docker.io/clusterdns/clusterdns:v0.1.0" // what deploy/ names
	ImageLab     = "docker.io/library/lab:local"
	ImageCoreDNS = "docker.io/library/coredns:local"
	imagePause   = "docker.io/library/pause:local"
)

// BuildImages makes the images: ours from the Dockerfile's own steps, those of the tests from files.
func BuildImages(f Folders, say io.Writer) error {
	begin := time.Now()
	tool := filepath.Join(f.Bin, "image")
	if err := run(f.Repository, nil, "go", "build", "-o", tool, "./test/image"); err != nil {
		return err
	}
	if err := run(f.Repository, nil, tool, "-dockerfile", "Dockerfile", "-arg", "VERSION=0.1.0", "-name", ImageOurs, "-o", filepath.Join(f.Images, "ours.tar")); err != nil {
		return err
	}
	lab, err := buildLab(f)
	if err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"lab":     append([]string{"-name", ImageLab, "-entrypoint", `["/lab"]`}, lab...),
		"pause":   {"-name", imagePause, "-entrypoint", `["/lab","pause"]`, filepath.Join(f.Bin, "lab") + "=/lab"},
		"coredns": {"-name", ImageCoreDNS, "-entrypoint", `["/coredns"]`, filepath.Join(f.Bin, "coredns") + "=/coredns"},
	} {
		flags := append([]string{"-o", filepath.Join(f.Images, name+".tar")}, args...)
		if err := run(f.Repository, nil, tool, flags...); err != nil {
			return err
		}
	}
	fmt.Fprintf(say, "made images in %s\n", time.Since(begin).Round(time.Second))
	return nil
}

// buildLab compiles what runs in the tests' pods, and lists the files of its image: a web server and client with Go's resolver, the same
// look-up with those of musl and of glibc, and a shell.
func buildLab(f Folders) ([]string, error) {
	e2e := filepath.Join(f.Repository, "test", "e2e")
	lookup := filepath.Join(e2e, "lab", "resolver", "lookup.c")
	musl, glibc, nsswitch := filepath.Join(f.Bin, "lookup-musl"), filepath.Join(f.Bin, "lookup-glibc"), filepath.Join(f.Bin, "nsswitch.conf")
	if err := run(e2e, []string{"CGO_ENABLED=0"}, "go", "build", "-o", filepath.Join(f.Bin, "lab"), "./lab"); err != nil {
		return nil, err
	}
	if err := run(e2e, nil, "musl-gcc", "-static", "-O1", "-o", musl, lookup); err != nil {
		return nil, err
	}
	if err := run(e2e, nil, "gcc", "-O1", "-o", glibc, lookup); err != nil {
		return nil, err
	}
	if err := os.WriteFile(nsswitch, []byte("hosts: files dns\n"), 0o644); err != nil {
		return nil, err
	}
	files := []string{filepath.Join(f.Bin, "lab") + "=/lab", musl + "=/bin/lookup-musl", glibc + "=/bin/lookup-glibc", nsswitch + "=/etc/nsswitch.conf", "/bin/busybox=/bin/busybox"}
	for _, applet := range []string{"sh", "cat", "sleep", "nslookup", "wget"} {
		files = append(files, "@busybox=/bin/"+applet)
	}
	// glibc cannot resolve names from a static program: its libraries go along, at the places where the program looks for them.
	out, err := exec.Command("ldd", glibc).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd: %w", err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if filepath.IsAbs(word) {
			files = append(files, word+"="+word)
		}
	}
	return files, nil
}

// run is a command that has to succeed.
func run(dir string, env []string, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(string(out), 20))
	}
	return nil
}
