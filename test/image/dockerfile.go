package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// instruction is one instruction of a Dockerfile with its continuation lines joined.
type instruction struct{ word, args string }

// stage is what follows one FROM.
type stage []instruction

// read splits a Dockerfile into its stages. What stands before the first FROM is a stage without one.
func read(text string) []stage {
	out := []stage{nil}
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, args, _ := strings.Cut(line, " ")
		if word == "FROM" {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], instruction{word, strings.TrimSpace(args)})
	}
	return out
}

// all gives the arguments of every instruction of a word.
func (s stage) all(word string) []string {
	var out []string
	for _, i := range s {
		if i.word == word {
			out = append(out, i.args)
		}
	}
	return out
}

// expand replaces ${NAME} by the build arguments that the stage declares.
func (s stage) expand(text string, given pairs) string {
	values := map[string]string{}
	for _, a := range s.all("ARG") {
		name, value, _ := strings.Cut(a, "=")
		values[name] = value
		if v, ok := given[name]; ok {
			values[name] = v
		}
	}
	return os.Expand(text, func(name string) string { return values[name] })
}

// build runs the steps of a Dockerfile whose first stage compiles and whose last one copies from it. Steps that prepare the builder
// (packages, modules) are left to this machine, which has Go; capabilities become an attribute of the layer.
func build(file string, given pairs) (*image, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	stages := read(string(text))
	if len(stages) < 3 {
		return nil, fmt.Errorf("%s: want a stage that builds and one that is the image", file)
	}
	builder, last := stages[1], stages[len(stages)-1]
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return nil, err
	}
	img := &image{cleanup: func() { os.RemoveAll(dir) }}
	if err := compile(builder, filepath.Dir(file), dir, given); err != nil {
		img.cleanup()
		return nil, err
	}
	if err := img.describe(last, builder, dir, given); err != nil {
		img.cleanup()
		return nil, err
	}
	return img, nil
}

// compile runs the RUN steps that are go build, with the builder's folder /out in dir.
func compile(s stage, src, dir string, given pairs) error {
	for _, run := range s.all("RUN") {
		if !strings.Contains(run, "go build") {
			continue
		}
		command := strings.ReplaceAll(s.expand(run, given), "/out/", dir+"/out/")
		c := exec.Command("sh", "-c", command)
		c.Dir, c.Stderr = src, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}

// describe reads the last stage: what it copies, and how it is run.
func (img *image) describe(s, builder stage, dir string, given pairs) error {
	img.config = config{ExposedPorts: map[string]struct{}{}, Labels: map[string]string{}}
	for _, step := range s {
		args := s.expand(step.args, given)
		switch step.word {
		case "USER":
			img.config.User = args
		case "WORKDIR":
			img.config.WorkingDir = args
		case "EXPOSE":
			for _, p := range strings.Fields(args) {
				img.config.ExposedPorts[p] = struct{}{}
			}
		case "LABEL":
			labels(args, img.config.Labels)
		case "COPY":
			if e, ok := copied(args, builder, dir); ok {
				img.entries = append(img.entries, e)
			}
		case "FROM", "ARG":
		default:
			if err := img.entrypoint(step.word, args); err != nil {
				return err
			}
		}
	}
	return nil
}

// entrypoint reads the one instruction that is JSON.
func (img *image) entrypoint(word, args string) error {
	if word != "ENTRYPOINT" {
		return fmt.Errorf("%s %s: not known here", word, args)
	}
	if err := json.Unmarshal([]byte(args), &img.config.Entrypoint); err != nil {
		return fmt.Errorf("ENTRYPOINT %s: %w", args, err)
	}
	return nil
}

// copied is the file that COPY --from=build takes; one that only the builder's base image has may be missing here.
func copied(args string, builder stage, dir string) (entry, bool) {
	words := strings.Fields(args)
	from, to := words[len(words)-2], words[len(words)-1]
	e := entry{path: to, file: from}
	if strings.HasPrefix(from, "/out/") {
		e.file = dir + from
		for _, run := range builder.all("RUN") {
			if run == "setcap cap_net_bind_service=+ep "+from {
				e.capability = netBindService
			}
		}
	}
	_, err := os.Stat(e.file)
	return e, err == nil || strings.HasPrefix(from, "/out/")
}

// labels reads NAME="VALUE" pairs.
func labels(text string, into map[string]string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		name, rest, ok := strings.Cut(text, `="`)
		value, after, closed := strings.Cut(rest, `"`)
		if !ok || !closed {
			return
		}
		into[name], text = value, after
	}
}
