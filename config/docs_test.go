package config_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config"
)

// sampleArgs are arguments with which a directive can be parsed that cannot be without.
func sampleArgs(name string) string {
	switch name {
	case "forward":
		return ". 192.0.2.1"
	case "template":
		return "IN A"
	case "tls":
		return "cert key"
	case "bind":
		return "192.0.2.1"
	case "ratelimit":
		return "10"
	case "file", "view", "k8s_external", "secondary", "auto":
		return "example.org"
	}
	return ""
}

// options are the options of a directive as its own message about an unknown one lists them.
func options(name string) string {
	text := fmt.Sprintf(". {\n    %s %s {\n        no_such_option\n    }\n}\n", name, sampleArgs(name))
	_, err := config.Parse(config.Source{Name: "Corefile", Text: []byte(text)}, config.DefaultPort)
	if err == nil {
		return ""
	}
	m := regexp.MustCompile(`unknown (?:option|action|word) .*known are (.*)`).FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	return "`" + strings.ReplaceAll(m[1], ", ", "` `") + "`"
}

// TestDirectiveTable checks the table of directives in the documentation, and that each has a page. With UPDATE_GOLDEN=1 in the environment the table is
// written.
func TestDirectiveTable(t *testing.T) {
	const page = "../docs/corefile.md"
	const heading = "| directive | options | |\n|---|---|---|\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(heading)
	for _, d := range config.Directives() {
		usage := strings.ReplaceAll(strings.TrimSpace(d.Name+" "+d.Usage), "|", "\\|")
		more := ""
		if d.Repeat {
			more = "; may stand more than once"
		}
		fmt.Fprintf(&b, "| [`%s`](%s.md) | %s | %s%s |\n", usage, d.Name, options(d.Name), d.Help, more)
		if _, err := os.Stat("../docs/" + d.Name + ".md"); err != nil {
			t.Errorf("%s has no page: %v", d.Name, err)
		}
	}
	before, _, _ := strings.Cut(string(text), heading)
	want := before + b.String()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil { //nolint:gosec // it is documentation
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s does not have this table at its end; UPDATE_GOLDEN=1 go test ./config writes it:\n%s", page, b.String())
	}
}
