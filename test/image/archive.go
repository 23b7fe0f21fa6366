package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// capability is the extended attribute that setcap writes.
const capability = "security.capability"

// netBindService is that attribute's value for cap_net_bind_service=+ep: revision 2 with the effective bit, then
// permitted and inheritable capabilities by words of 32 (linux/capability.h, struct vfs_cap_data).
const netBindService = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// config is what an image says about how it is run.
type config struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
}

// entry is a file of an image, from a file here or as a link.
type entry struct {
	path, file, link string
	capability       string
}

// image is one layer of files and a configuration.
type image struct {
	config  config
	entries []entry
	cleanup func()
}

// extract writes the files below dir. Capabilities are left out: they need rights that a test may not have.
func (img *image) extract(dir string) error {
	for _, e := range img.entries {
		to := filepath.Join(dir, filepath.FromSlash(e.path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if e.link != "" {
			if err := os.Symlink(e.link, to); err != nil {
				return err
			}
			continue
		}
		b, err := os.ReadFile(e.file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, b, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// layer is the tar archive of the files. It holds no times and no owners, so equal files give an equal digest.
func (img *image) layer() ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	made := map[string]bool{}
	for _, e := range img.entries {
		name := strings.TrimPrefix(path.Clean(e.path), "/")
		for at, r := range name {
			if dir := name[:at]; r == '/' && !made[dir] {
				made[dir] = true
				if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
					return nil, err
				}
			}
		}
		if err := e.write(w, name); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

func (e *entry) write(w *tar.Writer, name string) error {
	if e.link != "" {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: e.link, Mode: 0o777})
	}
	b, err := os.ReadFile(e.file)
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(b))}
	if e.capability != "" {
		h.PAXRecords = map[string]string{"SCHILY.xattr." + capability: e.capability}
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// archive writes the image in the format of `docker save`, which every engine imports.
func (img *image) archive(out, name, arch string) error {
	layer, err := img.layer()
	if err != nil {
		return err
	}
	cfg, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "config": img.config,
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		"history": []any{map[string]string{}},
	})
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%x.json", sha256.Sum256(cfg))
	manifest, err := json.Marshal([]any{map[string]any{"Config": id, "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range []struct {
		name string
		data []byte
	}{{id, cfg}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.data))}); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(out, buf.Bytes(), 0o644)
}
