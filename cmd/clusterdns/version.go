package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/clusterdns/clusterdns/plugin/prometheus"
)

// version is the release that this is, set when it is built (-ldflags "-X main.version=1.2.3"); development builds have none.
var version string

// revision is the revision of the source, set like version where the go command cannot know it: in an image, which is built without the history.
var revision string

// build says what runs: the release or "dev", and the revision of the source.
func build() prometheus.Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(version, revision, info)
}

// buildOf takes from what the go command noted in the binary what the release does not say.
func buildOf(release, rev string, info *debug.BuildInfo) prometheus.Build {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	b := prometheus.Build{Version: release, Revision: unknown}
	if settings["vcs.revision"] != "" {
		rev = settings["vcs.revision"]
	}
	if rev != "" && rev != unknown {
		b.Revision = rev[:min(len(rev), shortRevision)]
		if settings["vcs.modified"] == "true" {
			b.Revision += "-dirty"
		}
	} else if v := info.Main.Version; b.Version == "" && strings.HasPrefix(v, "v") {
		b.Version = v // of a module that was downloaded
	}
	if b.Version == "" {
		b.Version = "dev" // what the go command makes up in a working tree is the revision once more
	}
	return b
}

// unknown is the revision of what was built without one.
const unknown = "unknown"

// shortRevision is how much of a revision is shown.
const shortRevision = 7

// versionText is what -version says, in CoreDNS's form: name and version, then platform, Go version, and revision.
func versionText() string {
	b := build()
	if b.Revision == unknown {
		b.Revision = "no VCS revision"
	}
	return fmt.Sprintf("clusterdns-%s\n%s/%s, %s, %s\n", b.Version, runtime.GOOS, runtime.GOARCH, runtime.Version(), b.Revision)
}
