package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config"
)

// FuzzParse looks for Corefiles that make reading, validating, checking or describing them panic. The golden files are the seeds.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		corefile, _, _ := strings.Cut(string(text), separator)
		f.Add(corefile)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "import") {
			return // it would read files of the machine that fuzzes
		}
		c, err := config.Parse(config.Source{Name: "Corefile", Text: []byte(text)}, config.DefaultPort)
		for _, e := range append(config.Errors(err), c.Warnings...) {
			_ = e.Error()
		}
		if err == nil {
			_ = c.Lint()
			_ = c.String()
		}
	})
}
