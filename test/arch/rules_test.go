package arch_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
)

// module is the path under which this repository's packages are imported.
const module = "github.com/clusterdns/clusterdns"

// Limits of STYLE: a longer function or file is where parsers and servers of this kind rot first.
const (
	maxFunctionLines = 60
	maxComplexity    = 12
	maxFileLines     = 500
)

// source is one parsed Go file of the repository.
type source struct {
	path string // slash-separated, from the repository's root
	text string
	fset *token.FileSet
	ast  *ast.File
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }
func (s *source) dir() string  { return path.Dir(s.path) }

func (s *source) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

// finding is one breach of a rule.
type finding struct {
	line int
	text string
}

// rule is one law of the house. Its name is that of its counter-example under testdata.
type rule struct {
	name  string
	why   string
	check func(*source) []finding
}

// rules are all laws that can be seen in one Go file.
var rules = []rule{
	{"imports", "the middle rooms stay replaceable, and heavy modules stay behind one door", checkImports},
	{"init", "what runs before main cannot be configured, ordered, or fail with a message", checkInit},
	{"globals", "state that no constructor made is shared between servers and tests without anybody saying so", checkGlobals},
	{"sleep", "a test that sleeps is slow on good days and wrong on bad ones; wait for the thing itself", checkSleep},
	{"length", "a function that does not fit a screen has more than one job", checkLength},
	{"complexity", "more than a dozen branches are not kept in mind by whoever changes the thirteenth", checkComplexity},
	{"todo", "work that is not done belongs into an issue, where somebody finds it", checkTodo},
	{"paths", "a path of one machine works on one machine", checkPaths},
}

// layer says what the packages under a folder may import of this module (themselves aside).
type layer struct {
	dir  string
	may  []string
	note string
}

// layers in the order of matching; the first whose folder holds a package counts. Folders that are not named may import everything:
// cmd joins all, test looks at all.
var layers = []layer{
	{"server/wire", nil, "pure byte code"},
	{"config/directive", []string{"server/wire"}, "a leaf that every directive's parser uses"},
	{"server/servertest", []string{"server", "server/wire", "config/directive"}, "what tests of handlers share"},
	{"server", []string{"server/wire", "config/directive"}, "knows no handler"},
	{"cache", handlers, "a middle room"},
	{"forward", handlers, "a middle room"},
	{"kubernetes", handlers, "a middle room"},
	{"plugin/admin", []string{"config/directive"}, "the HTTP end points that several directives share"},
	{"plugin/internal/plugintest", append([]string{"server/servertest", "plugin/internal"}, handlers...), "what tests of directives share"},
	{"plugin", append([]string{"plugin/admin", "plugin/internal"}, handlers...), "a middle room"},
	{"config", append([]string{"cache", "forward", "kubernetes", "plugin"}, handlers...), "joins the rooms"},
}

var handlers = []string{"server", "server/wire", "config/directive"}

// doors are modules that only some folders may import.
var doors = []struct {
	module string
	dirs   []string
	why    string
}{
	{"k8s.io/client-go", []string{"kubernetes", "cmd"}, "only kubernetes speaks with an API server"},
	{"github.com/hashicorp/golang-lru", []string{"cache"}, "only cache evicts"},
	{"github.com/coredns/caddy", []string{"config"}, "only config reads the Corefile's grammar"},
	{module + "/server/servertest", []string{"plugin/internal/plugintest"}, "only tests script servers"},
}

func within(dir, folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }

func withinAny(dir string, folders []string) bool {
	for _, f := range folders {
		if within(dir, f) {
			return true
		}
	}
	return false
}

// checkImports holds the direction of imports. Tests may reach further: they join rooms to see them work.
func checkImports(s *source) []finding {
	if s.isTest() || within(s.dir(), "test") {
		return nil
	}
	var out []finding
	for _, spec := range s.ast.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		if msg := forbidden(s.dir(), imported); msg != "" {
			out = append(out, finding{s.line(spec), imported + ": " + msg})
		}
	}
	return out
}

// forbidden says why a package of dir may not import another, or nothing.
func forbidden(dir, imported string) string {
	for _, d := range doors {
		if within(imported, d.module) && !withinAny(dir, d.dirs) && !within(module+"/"+dir, d.module) {
			return d.why
		}
	}
	if within(dir, "server") && !within(dir, "server/servertest") && within(imported, "github.com/miekg/dns") {
		return "miekg/dns messages are in no signature of server; tests alone use them as oracle"
	}
	if within(dir, "server/wire") && strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") && !within(imported, module) {
		return "server/wire imports only the standard library"
	}
	local, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		return ""
	}
	for _, l := range layers {
		if !within(dir, l.dir) {
			continue
		}
		if own := ownRoom(dir, l.dir); within(local, own) || exactOrBelow(local, l.may) {
			return ""
		}
		return fmt.Sprintf("%s is %s and may import only its own packages and %v", l.dir, l.note, l.may)
	}
	return ""
}

// ownRoom is the folder whose packages may import each other: each directive under plugin is a room of its own.
func ownRoom(dir, layer string) string {
	if layer != "plugin" || dir == layer {
		return layer
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(dir, layer+"/"), "/")
	return layer + "/" + name
}

// exactOrBelow: "server" allows that package alone, as its folder holds others with rules of their own; the rest allow what is below.
func exactOrBelow(local string, may []string) bool {
	for _, m := range may {
		if local == m || m != "server" && within(local, m) {
			return true
		}
	}
	return false
}

func checkInit(s *source) []finding {
	var out []finding
	for _, d := range s.ast.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			out = append(out, finding{s.line(f), "func init()"})
		}
	}
	return out
}

// checkSleep leaves alone what imports testing/synctest: there the clock is the test's own, and a sleep is how it is turned.
func checkSleep(s *source) []finding {
	if !s.isTest() || imports(s, "testing/synctest") {
		return nil
	}
	var out []finding
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && calls(call, "time", "Sleep") {
			out = append(out, finding{s.line(call), "time.Sleep in a test"})
		}
		return true
	})
	return out
}

func imports(s *source, name string) bool {
	for _, spec := range s.ast.Imports {
		if strings.Trim(spec.Path.Value, `"`) == name {
			return true
		}
	}
	return false
}

// calls reports whether a call is pkg.name(…).
func calls(call *ast.CallExpr, pkg, name string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func checkLength(s *source) []finding {
	if s.isTest() {
		return nil
	}
	var out []finding
	if n := strings.Count(s.text, "\n"); n > maxFileLines {
		out = append(out, finding{1, fmt.Sprintf("the file has %d lines, more than %d", n, maxFileLines)})
	}
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if n := s.fset.Position(f.Body.End()).Line - s.line(f) + 1; n > maxFunctionLines {
			out = append(out, finding{s.line(f), fmt.Sprintf("%s has %d lines, more than %d", f.Name.Name, n, maxFunctionLines)})
		}
	}
	return out
}

// checkComplexity counts the branches of each function as gocyclo does.
func checkComplexity(s *source) []finding {
	if s.isTest() {
		return nil
	}
	var out []finding
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if n := complexity(f.Body); n > maxComplexity {
			out = append(out, finding{s.line(f), fmt.Sprintf("%s has a cyclomatic complexity of %d, more than %d", f.Name.Name, n, maxComplexity)})
		}
	}
	return out
}

func complexity(body ast.Node) int {
	n := 1
	ast.Inspect(body, func(node ast.Node) bool {
		switch v := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if v.List != nil {
				n++
			}
		case *ast.CommClause:
			if v.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if v.Op == token.LAND || v.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

var (
	undone = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	issue  = regexp.MustCompile(`#\d+`)
)

func checkTodo(s *source) []finding {
	var out []finding
	for _, group := range s.ast.Comments {
		for _, c := range group.List {
			if undone.MatchString(c.Text) && !issue.MatchString(c.Text) {
				out = append(out, finding{s.line(c), strings.TrimSpace(c.Text) + ": no issue is named"})
			}
		}
	}
	return out
}

// machinePath matches folders that exist because of who works on a machine, not because of an operating system.
var machinePath = regexp.MustCompile(`(^|[^\w.:/-])/(work|root|farm|Users|home/[a-z]\w*)/[\w.]`)

// checkPaths is applied to every text file of the repository, not only to Go.
func checkPaths(s *source) []finding {
	var out []finding
	for i, l := range strings.Split(s.text, "\n") {
		if m := machinePath.FindString(l); m != "" {
			out = append(out, finding{i + 1, "path of a machine: " + strings.TrimSpace(l)})
		}
	}
	return out
}
