package config_test

import (
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config"
)

// TestRelativePaths has paths begin where CoreDNS has them begin: in the working directory, or where root says. Those of options that are only here
// begin beside the Corefile.
func TestRelativePaths(t *testing.T) {
	t.Parallel()
	const files = "    hosts h\n    file db example.org\n    tls cert key\n    kubernetes {\n        manifests m /abs\n    }\n"
	for root, want := range map[string][]string{
		"":              {"file: h ", "file: db ", "cert: cert ", "key: key ", "manifests: etc/dns/m /abs "},
		"root zones\n":  {"file: zones/h ", "file: zones/db ", "cert: zones/cert ", "key: zones/key ", "manifests: zones/m /abs "},
		"root /zones\n": {"file: /zones/h ", "file: /zones/db ", "cert: /zones/cert ", "key: /zones/key ", "manifests: /zones/m /abs "},
	} {
		src := config.Source{Name: "etc/dns/Corefile", Path: "etc/dns/Corefile", Text: []byte(". {\n" + root + files + "}\n")}
		c, err := config.Parse(src, config.DefaultPort)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if got := c.String(); !strings.Contains(got, w) {
				t.Errorf("with %q there is no %q in\n%s", root, w, got)
			}
		}
	}
}
