package match

import (
	"regexp"
	"strings"
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

// TestPrograms has expressions that are short, and programs that are not.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`^([a-z0-9-]{1,63}\.){1,8}example\.org\.$`:                     "",
		strings.Repeat(`advertising\.example\.com|`, 700) + "x":        "",
		strings.Repeat(`(.?){1000}`, 6):                                "more than 20000 steps",
		strings.Repeat(`.{0,1000}`, 300):                               "more than 20000 steps",
		`(a{0,100}){0,100}`:                                            "invalid repeat count",
		strings.Repeat("(", 2000) + "a" + strings.Repeat("){2}", 2000): "invalid repeat count",
		strings.Repeat(`\pL{1000}`, 50000):                             "too large",
	} {
		if _, err := Compile(expr); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %.200v, want %q", expr, err, want)
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
