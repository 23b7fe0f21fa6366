package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config"
)

const separator = "---\n"

// outcome is what a golden file has below its Corefile: warnings, then the configuration in effect or the errors.
func outcome(src config.Source) string {
	c, err := config.Parse(src, config.DefaultPort)
	var b strings.Builder
	for _, w := range c.Warnings {
		b.WriteString("warning: " + w.Error() + "\n")
	}
	if err == nil {
		return b.String() + c.String()
	}
	for _, e := range config.Errors(err) {
		b.WriteString("error: " + e.Error() + "\n")
	}
	return b.String()
}

// TestGolden reads each file of testdata: a Corefile, "---", and what must come of it. With UPDATE_GOLDEN=1 in the environment what
// comes of it is written there.
func TestGolden(t *testing.T) {
	t.Setenv("TEST_ZONE", "example.net")
	t.Setenv("TEST_WORDS", "two words { }")
	t.Setenv("TEST_PORT", "5300")
	t.Setenv("TEST_IP", "10.244.0.2")
	t.Setenv("TEST_SELF", "{$TEST_SELF}")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/*.txt", outcome, here)
}

// TestLint is TestGolden for what is most likely not meant.
func TestLint(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/lint/*.txt", func(src config.Source) string {
		c, err := config.Parse(src, config.DefaultPort)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		var b strings.Builder
		for _, w := range c.Lint() {
			b.WriteString("warning: " + w.Error() + "\n")
		}
		return b.String()
	}, here)
}

func golden(t *testing.T, pattern string, outcome func(config.Source) string, here string) {
	t.Helper()
	optionList := regexp.MustCompile(`(unknown option .*known are) .*`)
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files:", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			corefile, want, ok := strings.Cut(string(text), separator)
			if !ok {
				t.Fatalf("there is no line of %q", separator)
			}
			got := outcome(config.Source{Name: "testdata/Corefile", Path: "testdata/Corefile", Text: []byte(corefile)})
			got = strings.NewReplacer("testdata/Corefile", "Corefile", here+"/", "", known(), "(all directives)").Replace(got)
			got = optionList.ReplaceAllString(got, "$1 …") // the table in the documentation has them
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, []byte(corefile+separator+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// known are the names of all directives as messages list them; golden files should not change whenever one is added.
func known() string {
	var names []string
	for _, d := range config.Directives() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func TestNoPath(t *testing.T) {
	t.Parallel()
	if _, err := config.ReadSource(filepath.Join(t.TempDir(), "Corefile")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
