// Package deploy_test builds everything under deploy as its users do, kustomize and Helm included, and compares it with what was
// built before; it also holds the parts to each other: selectors to labels, probes to the Corefile, rights to what the server reads.
package deploy_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update writes the golden files anew: go test -update, then read the difference.
var update = flag.Bool("update", false, "write the golden files")

const repository = "../.."

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name+".yaml")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what it was; if that is right, run go test -update.\n%s", name, firstDifference(got, string(want)))
	}
}

// firstDifference is the first line that differs.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "is:  " + g[i] + "\nwas: " + w[i]
		}
	}
	return "one is longer"
}
