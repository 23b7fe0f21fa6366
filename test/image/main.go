// Command image makes container images without a container engine: from this repository's Dockerfile by running its own steps, or from
// a list of files. It writes what `docker save` would, or the root directory alone. Tests of the image and the end-to-end tests use it.
//
//	go run ./test/image -dockerfile Dockerfile -arg VERSION=1.0.0 -name clusterdns/clusterdns:v1.0.0 -o image.tar
//	go run ./test/image -name docker.io/library/tools:local -entrypoint '["/bin/sh"]' -o image.tar FILE=/bin/sh @/bin/sh=/bin/ls
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// pairs collects NAME=VALUE flags.
type pairs map[string]string

func (p pairs) String() string { return fmt.Sprint(map[string]string(p)) }

func (p pairs) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("want NAME=VALUE")
	}
	p[name] = value
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	dockerfile := flags.String("dockerfile", "", "the Dockerfile to build")
	name := flags.String("name", "", "name and tag of the image")
	entrypoint := flags.String("entrypoint", "[]", "entry point of an image of files, as JSON")
	user := flags.String("user", "", "user of an image of files")
	rootfs := flags.String("rootfs", "", "write the files here instead of an archive")
	config := flags.String("config", "", "write the image's configuration here, as JSON")
	out := flags.String("o", "", "the archive to write")
	given := pairs{"TARGETOS": "linux", "TARGETARCH": runtime.GOARCH}
	flags.Var(given, "arg", "build argument NAME=VALUE; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	img, err := assemble(*dockerfile, *entrypoint, *user, given, flags.Args())
	if err != nil {
		return err
	}
	defer img.cleanup()
	if *config != "" {
		b, err := json.MarshalIndent(img.config, "", "  ")
		if err == nil {
			err = os.WriteFile(*config, b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case *rootfs != "":
		return img.extract(*rootfs)
	case *out == "" || *name == "":
		return errors.New("an archive needs -o and -name")
	}
	return img.archive(*out, *name, given["TARGETARCH"])
}

// assemble makes the image that the flags describe.
func assemble(dockerfile, entrypoint, user string, given pairs, files []string) (*image, error) {
	if dockerfile != "" {
		return build(dockerfile, given)
	}
	img := &image{config: config{User: user}, cleanup: func() {}}
	if err := json.Unmarshal([]byte(entrypoint), &img.config.Entrypoint); err != nil {
		return nil, fmt.Errorf("-entrypoint: %w", err)
	}
	for _, f := range files {
		from, to, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want FILE=PATH, or @TARGET=PATH for a link", f)
		}
		e := entry{path: to, file: from}
		if target, link := strings.CutPrefix(from, "@"); link {
			e = entry{path: to, link: target}
		}
		img.entries = append(img.entries, e)
	}
	return img, nil
}
