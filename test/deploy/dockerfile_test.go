package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// rootfs builds the image's root directory with the Dockerfile's own steps, in a copy of the sources, and gives the user that it names.
func rootfs(t *testing.T, sources, root string) (uid, gid string) {
	t.Helper()
	src, cfg := t.TempDir(), filepath.Join(t.TempDir(), "config.json")
	if err := os.CopyFS(src, os.DirFS(sources)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "run", "./test/image", "-dockerfile", filepath.Join(src, "Dockerfile"), "-arg", "VERSION=1.2.3", "-rootfs", root, "-config", cfg)
	c.Dir = repository
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, text)
	}
	var config struct{ User string }
	b, err := os.ReadFile(cfg)
	if err == nil {
		err = json.Unmarshal(b, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	uid, gid, _ = strings.Cut(config.User, ":")
	return uid, gid
}

// copySources copies what .dockerignore leaves, and the Dockerfile, to a new folder.
func copySources(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(repository, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	ignored := map[string]bool{}
	for line := range strings.SplitSeq(string(b), "\n") {
		ignored[line] = true
	}
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if (ignored[e.Name()] || filepath.Ext(e.Name()) == ".md") && e.Name() != "Dockerfile" {
			continue
		}
		from, to := filepath.Join(repository, e.Name()), filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = os.CopyFS(to, os.DirFS(from))
		} else {
			var data []byte
			if data, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, data, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestImageReproducible: two builds in two places are the same bytes.
func TestImageReproducible(t *testing.T) {
	t.Parallel()
	src := copySources(t)
	var built [2][]byte
	for i := range built {
		root := t.TempDir()
		rootfs(t, src, root)
		b, err := os.ReadFile(filepath.Join(root, "clusterdns"))
		if err != nil {
			t.Fatal(err)
		}
		built[i] = b
	}
	if !bytes.Equal(built[0], built[1]) {
		t.Error("two builds of the same sources differ")
	}
}

// TestImageRuns starts what the image holds, alone in a root directory of its own, as the image's user.
func TestImageRuns(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("changing the root directory needs Linux and root")
	}
	root := t.TempDir()
	for dir := root; dir != "/"; dir = filepath.Dir(dir) { // the user has to be able to get there
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o5 != 0o5 {
			if err := os.Chmod(dir, info.Mode().Perm()|0o5); err != nil {
				t.Fatal(err)
			}
		}
	}
	uid, gid := rootfs(t, copySources(t), root)
	port := freePort(t)
	corefile := ".:" + freePort(t) + " {\n    bind 127.0.0.1\n    health 127.0.0.1:" + port + "\n    whoami\n}\n"
	if err := os.WriteFile(filepath.Join(root, "Corefile"), []byte(corefile), 0o644); err != nil {
		t.Fatal(err)
	}
	version := confined(t, root, uid, gid, "-version")
	if text, err := version.CombinedOutput(); err != nil || !bytes.Contains(text, []byte("1.2.3")) {
		t.Errorf("-version: %v: %s", err, text)
	}
	c := confined(t, root, uid, gid, "-conf", "/Corefile")
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	err := healthy("http://127.0.0.1:" + port + "/health")
	if e := c.Process.Signal(os.Interrupt); e != nil {
		t.Errorf("it ended by itself: %v", e)
	}
	if e := c.Wait(); err != nil || e != nil {
		t.Errorf("health: %v, end: %v\n%s", err, e, log.String())
	}
}

// healthy waits until a URL answers 200, for as long as a busy machine may need to start a process.
func healthy(url string) error {
	deadline := time.After(30 * time.Second)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s", resp.Status)
		}
		select {
		case <-again.C:
		case <-deadline:
			return err
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}
