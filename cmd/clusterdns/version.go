package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is the release that this is, set when it is built (-ldflags "-X main.version=1.2.3"); development builds have none.
var version string

// versionText is what -version says, in CoreDNS's form: name and version, then platform, Go version, and revision.
func versionText() string {
	v, revision := version, "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 7 {
				revision = s.Value[:7]
			}
		}
	}
	if v == "" {
		v = "dev"
	}
	return fmt.Sprintf("clusterdns-%s\n%s/%s, %s, %s\n", v, runtime.GOOS, runtime.GOARCH, runtime.Version(), revision)
}
