package match

import (
	"regexp"
	"testing"
)

func TestRequired(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`(.*)\.a\.example`:                 ".a.example",
		`^ip-([0-9]+)[.]lab[.]example[.]$`: ".lab.example.",
		`(?i)abc`:                          "",
		`a|b`:                              "",
		`(abc)?`:                           "",
		`(abc)*x`:                          "x",
		`(abc)+`:                           "abc",
		`(abc){2,3}`:                       "abc",
		`(abc){0,3}x`:                      "x",
		`.*`:                               "",
		`^$`:                               "",
		`one.three`:                        "three",
		`(?:x|y)\.svc\.other$`:             ".svc.other",
	} {
		if p := MustCompile(expr); string(p.literal) != want {
			t.Errorf("%s: %q, want %q", expr, p.literal, want)
		}
	}
}

// FuzzMatch: the text that is looked for first changes nothing of what matches.
func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{{`(.*)-(us-west-1)\.example\.org`, "ftp-us-west-1.example.org."}, {`^a+(b|c){2,}`, "aabc"}, {`(?i)X\.y`, "x.Y."}, {`[.]a[.]$`, "b.a."}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, expr, name string) {
		re, err := regexp.Compile(expr)
		if err != nil {
			t.Skip()
		}
		if p := MustCompile(expr); p.Match([]byte(name)) != re.MatchString(name) {
			t.Errorf("%q of %q: the text %q decides otherwise", expr, name, p.literal)
		}
	})
}
