package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/clusterdns/clusterdns/plugin/prometheus"
)

// version is the release that this is, set when it is built (-ldflags "-X main.version=1.2.3"); development builds have none.
var version string

// build says what runs: the release or "dev", and the revision of the source.
func build() prometheus.Build {
	b := prometheus.Build{Version: version, Revision: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 7 {
				b.Revision = s.Value[:7]
			}
		}
	}
	if b.Version == "" {
		b.Version = "dev"
	}
	return b
}

// versionText is what -version says, in CoreDNS's form: name and version, then platform, Go version, and revision.
func versionText() string {
	b := build()
	return fmt.Sprintf("clusterdns-%s\n%s/%s, %s, %s\n", b.Version, runtime.GOOS, runtime.GOARCH, runtime.Version(), b.Revision)
}
