package main

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	const hash = "0123456789abcdef0123456789abcdef01234567"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: modified}}
	}
	for name, c := range map[string]struct {
		release, rev, module string
		settings             []debug.BuildSetting
		want, wantRev        string
	}{
		"nothing":       {want: "dev", wantRev: "unknown"},
		"working tree":  {module: "v0.0.0-20260101000000-0123456789ab", settings: vcs("false"), want: "dev", wantRev: "0123456"},
		"modified":      {module: "(devel)", settings: vcs("true"), want: "dev", wantRev: "0123456-dirty"},
		"release":       {release: "1.2.3", settings: vcs("false"), want: "1.2.3", wantRev: "0123456"},
		"image":         {release: "1.2.3", rev: hash, want: "1.2.3", wantRev: "0123456"},
		"image without": {release: "dev", rev: "unknown", module: "(devel)", want: "dev", wantRev: "unknown"},
		"downloaded":    {module: "v1.2.3", want: "v1.2.3", wantRev: "unknown"},
	} {
		b := buildOf(c.release, c.rev, &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings})
		if b.Version != c.want || b.Revision != c.wantRev {
			t.Errorf("%s: version %q, revision %q; want %q, %q", name, b.Version, b.Revision, c.want, c.wantRev)
		}
	}
}
