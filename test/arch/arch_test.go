// Package arch_test holds the house rules of docs/design.md: which room imports which, what no file may hold, and how long things
// may get. Each rule has a counter-example under testdata that shows it fires.
package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root of the repository, from this package's folder.
const repository = "../.."

func parse(t *testing.T, name, text string) *source {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return &source{path: name, text: text, fset: fset, ast: f}
}

// files calls f for every file of the repository that people wrote: no hidden folders, no recorded data.
func files(t *testing.T, f func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(repository, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			skip := d.Name() == "testdata" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && p != repository && d.Name() != ".ci"
			if skip {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !textFile(d.Name()) {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(repository, p)
		if err == nil {
			f(filepath.ToSlash(rel), string(b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func textFile(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".md", ".yaml", ".yml", ".json", ".sh", ".mod", ".tpl", ".py":
		return true
	}
	return name == "Makefile" || name == "Dockerfile" || name == "Corefile" || name == "run"
}

// exceptions are findings that stay, by file and first words, each with its reason.
var exceptions = map[string]string{}

// excused gives the exception that a finding falls under, or "".
func excused(path string, f finding) string {
	for prefix := range exceptions {
		if strings.HasPrefix(path+": "+f.text, prefix) {
			return prefix
		}
	}
	return ""
}

func TestHouseRules(t *testing.T) {
	t.Parallel()
	count, needed := 0, map[string]bool{}
	files(t, func(path, text string) {
		if filepath.Ext(path) != ".go" {
			for _, f := range checkPaths(&source{path: path, text: text}) {
				t.Errorf("%s:%d: %s", path, f.line, f.text)
			}
			return
		}
		count++
		s := parse(t, path, text)
		for _, r := range rules {
			for _, f := range r.check(s) {
				if e := excused(path, f); e != "" {
					needed[e] = true
					continue
				}
				t.Errorf("%s:%d: %s\n\twhy: %s", path, f.line, f.text, r.why)
			}
		}
	})
	for e := range exceptions {
		if !needed[e] {
			t.Errorf("the exception %q is not needed any more", e)
		}
	}
	if count < 20 {
		t.Errorf("saw only %d Go files: the walk does not reach the repository", count)
	}
}

// TestRulesFire runs each rule over its counter-example. A line ending in "// fires" must be found, all others must not. The first
// line names the path that the file pretends to have.
func TestRulesFire(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(filepath.Join("testdata", r.name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			first, text, _ := strings.Cut(string(b), "\n")
			text = strings.ReplaceAll(text, "(((", strings.Repeat("\n", maxFunctionLines))
			s := parse(t, strings.TrimPrefix(first, "path: "), text)
			found := map[int]bool{}
			for _, f := range r.check(s) {
				found[f.line] = true
			}
			for i, l := range strings.Split(text, "\n") {
				if want := strings.HasSuffix(l, "// fires"); want != found[i+1] {
					t.Errorf("%s: line %q: found %v, want %v", r.name, l, found[i+1], want)
				}
			}
		})
	}
}

// TestFileLength shows that the limit on files fires; a counter-example of that size would only be in the way.
func TestFileLength(t *testing.T) {
	t.Parallel()
	long := "package x\n" + strings.Repeat("\n", maxFileLines)
	if got := checkLength(parse(t, "server/x.go", long)); len(got) != 1 {
		t.Errorf("a file of %d lines: %v", maxFileLines+1, got)
	}
	if got := checkLength(parse(t, "server/x_test.go", long)); len(got) != 0 {
		t.Errorf("tests may be longer: %v", got)
	}
}

// TestSignatures: what server exports speaks of bytes and of its own types.
func TestSignatures(t *testing.T) {
	t.Parallel()
	files(t, func(path, text string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || filepath.ToSlash(filepath.Dir(path)) != "server" {
			return
		}
		ast.Inspect(parse(t, path, text).ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "dns" {
					t.Errorf("%s uses dns.%s", path, sel.Sel.Name)
				}
			}
			return true
		})
	})
}
