package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func project(t *testing.T) []stage {
	t.Helper()
	b, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	return read(string(b))
}

// TestDockerfile holds what is agreed on about the image.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	all := project(t)
	for _, fault := range lint(all) {
		t.Error(fault)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if v := strings.TrimPrefix(all[0].all("ARG")[0], "GO_VERSION="); !strings.Contains(string(mod), "\ngo "+v) {
		t.Errorf("GO_VERSION %s is not that of go.mod", v)
	}
}

// lint says what is wrong with a Dockerfile.
func lint(all []stage) []string {
	var out []string
	last := all[len(all)-1]
	if from := last.all("FROM"); len(from) != 1 || from[0] != "scratch" {
		out = append(out, "the image does not stand on scratch, which has no shell and nothing to patch")
	}
	if user := last.all("USER"); len(user) != 1 || !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user[0]) {
		out = append(out, "USER: runAsNonRoot needs a number other than 0")
	}
	if e := last.all("ENTRYPOINT"); len(e) != 1 || !strings.HasPrefix(e[0], "[") {
		out = append(out, "ENTRYPOINT: the shell form needs a shell")
	}
	text := strings.Join(last.all("LABEL"), " ")
	for _, l := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if !strings.Contains(text, "org.opencontainers.image."+l+"=") {
			out = append(out, "LABEL: no "+l)
		}
	}
	for _, s := range all {
		for _, i := range s {
			if fault := lintInstruction(i); fault != "" {
				out = append(out, fault)
			}
		}
	}
	return out
}

func lintInstruction(i instruction) string {
	switch {
	case i.word == "HEALTHCHECK":
		return "HEALTHCHECK: the kubelet probes, and engines that honour it would need a client in the image"
	case i.word == "ADD":
		return "ADD: it unpacks and fetches; COPY does what it says"
	case i.word == "FROM" && strings.Contains(i.args, ":latest"):
		return "FROM " + i.args + ": it changes by itself"
	case i.word == "RUN" && strings.Contains(i.args, "apt-get install") && !strings.Contains(i.args, "rm -rf /var/lib/apt/lists"):
		return "RUN " + i.args + ": it leaves the lists"
	}
	return ""
}

func TestLintFires(t *testing.T) {
	t.Parallel()
	bad := read("FROM golang:latest\nRUN apt-get update && apt-get install -y curl\nADD http://example.org/x /\nUSER root\nENTRYPOINT run\nHEALTHCHECK NONE\n")
	if got := lint(bad); len(got) != 13 {
		t.Errorf("%d faults: %q", len(got), got)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	all, dir := project(t), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "out", "clusterdns"), []byte("binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	img := new(image)
	if err := img.describe(all[2], all[1], dir, pairs{"VERSION": "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	if c := img.config; c.User != "65532:65532" || !reflect.DeepEqual(c.Entrypoint, []string{"/clusterdns"}) || c.Labels["org.opencontainers.image.version"] != "1.2.3" || len(c.ExposedPorts) != 3 {
		t.Errorf("config %+v", c)
	}
	layer, err := img.layer()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		if h.Name == "clusterdns" {
			found = h.Mode == 0o755 && h.PAXRecords["SCHILY.xattr."+capability] == netBindService
		}
	}
	if !found {
		t.Error("the layer has no clusterdns that may bind port 53")
	}
	if again, err := img.layer(); err != nil || !bytes.Equal(layer, again) {
		t.Errorf("two layers of the same files differ (%v)", err)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, root := filepath.Join(dir, "tool"), filepath.Join(dir, "root")
	if err := os.WriteFile(file, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-rootfs", root, file + "=/bin/tool", "@tool=/bin/link"}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "bin", "link")); err != nil || string(b) != "x" {
		t.Errorf("%s, %v", b, err)
	}
	if err := run([]string{"-o", filepath.Join(dir, "x.tar"), "-name", "x:local", file + "=/bin/tool"}); err != nil {
		t.Error(err)
	}
	if err := run([]string{"nonsense"}); err == nil {
		t.Error("nonsense is taken")
	}
}
