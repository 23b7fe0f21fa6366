package config

import (
	"errors"
	"testing"

	"github.com/clusterdns/clusterdns/config/directive"
)

// TestKeepLeavesWhatHasFailed: a part goes on in the next configuration, but not one whose Run has failed after the start had waited long enough for it: it would
// be dead until its options change, whatever heals meanwhile.
func TestKeepLeavesWhatHasFailed(t *testing.T) {
	t.Parallel()
	ended, runs := make(chan struct{}), make(chan struct{})
	close(ended)
	for name, tt := range map[string]struct {
		part part
		want string
	}{
		"not a Runner":      {part{options: "a"}, "old"},
		"runs":              {part{options: "a", done: runs}, "old"},
		"had nothing to do": {part{options: "a", done: ended}, "old"},
		"has failed":        {part{options: "a", done: ended, err: errors.New("no such file")}, "new"},
		"of other options":  {part{options: "b", done: runs}, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.part.value = "old"
			s := &site{use: &Use{Directive: &Directive{Name: "whoami"}, Input: new(directive.Input)}, generation: &generation{
				kept: map[partKey]*part{}, prev: &generation{kept: map[partKey]*part{{name: "whoami"}: &tt.part}},
			}}
			got, err := keep(s, any("a"), func() (string, error) { return "new", nil })
			if err != nil || got != tt.want {
				t.Errorf("%q (%v), want %q", got, err, tt.want)
			}
		})
	}
}
