package arch_test

import (
	"go/ast"
	"go/token"
	"strings"
)

// allowedGlobals are package variables that the rule would forbid, each with the reason why it may stay.
var allowedGlobals = map[string]string{
	"cmd/clusterdns.version":  "set by the linker",
	"cmd/clusterdns.revision": "set by the linker",
}

// pure are functions whose result is never changed by anybody who holds it.
var pure = map[string]bool{
	"errors.New": true, "fmt.Errorf": true, "regexp.MustCompile": true, "maphash.MakeSeed": true, "netip.MustParseAddr": true,
	"netip.MustParsePrefix": true, "netip.MustParseAddrPort": true, "netip.AddrFrom4": true, "strings.NewReplacer": true,
	"template.Must": true, "wire.MustCanonical": true, "reflect.TypeFor": true, "wire.NewZone": true,
	"runtime.GOMAXPROCS": true,
}

// checkGlobals lets a package variable stand that is set where it is declared, to something that nothing changes afterwards: tables,
// errors, compiled expressions. A variable without a value, one with the address of something, and one that the file assigns to are
// state.
func checkGlobals(s *source) []finding {
	if s.isTest() {
		return nil
	}
	var out []finding
	names := map[string]bool{}
	for _, d := range s.ast.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.VAR {
			continue
		}
		for _, spec := range decl.Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				if name.Name == "_" || allowedGlobals[s.dir()+"."+name.Name] != "" || embedded(decl, v) {
					continue
				}
				names[name.Name] = true
				if i >= len(v.Values) || !constant(v.Values[i]) {
					out = append(out, finding{s.line(name), "package variable " + name.Name + " is not set to a constant value where it is declared"})
				}
			}
		}
	}
	return append(out, assignments(s, names)...)
}

// embedded reports whether the compiler fills the variable from a file.
func embedded(decl *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{decl.Doc, v.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// constant reports whether a value is a literal, a table of them, or made by a pure function or a literal function called at once.
func constant(e ast.Expr) bool {
	switch v := e.(type) {
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr, *ast.FuncLit, *ast.BinaryExpr:
		return true
	case *ast.CompositeLit:
		return !lockType(v.Type)
	case *ast.ParenExpr:
		return constant(v.X)
	case *ast.CallExpr:
		return pureCall(v)
	}
	return false
}

func pureCall(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.FuncLit:
		return true
	case *ast.ArrayType:
		return true // []byte("…")
	case *ast.Ident:
		return f.Name == "append" || f.Name == "len" || f.Name == "string"
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		return ok && pure[x.Name+"."+f.Sel.Name]
	}
	return false
}

// lockType reports whether a literal is of one of the types that exist to change.
func lockType(t ast.Expr) bool {
	sel, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && (x.Name == "sync" || x.Name == "atomic")
}

// assignments finds where functions of the file change one of the variables. A local variable of the same name hides it.
func assignments(s *source, names map[string]bool) []finding {
	var out []finding
	changed := func(e ast.Expr) {
		if id := root(e); id != nil && names[id.Name] && (id.Obj == nil || id.Obj.Pos() == token.NoPos || s.ast.Scope.Lookup(id.Name) == id.Obj) {
			out = append(out, finding{s.line(id), "package variable " + id.Name + " is changed"})
		}
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch v := n.(type) {
		case *ast.AssignStmt:
			if v.Tok != token.DEFINE {
				for _, l := range v.Lhs {
					changed(l)
				}
			}
		case *ast.IncDecStmt:
			changed(v.X)
		case *ast.UnaryExpr:
			if v.Op == token.AND {
				changed(v.X)
			}
		}
		return true
	})
	return out
}

// root is the variable that an expression such as a[i].b selects from.
func root(e ast.Expr) *ast.Ident {
	for {
		switch v := e.(type) {
		case *ast.Ident:
			return v
		case *ast.IndexExpr:
			e = v.X
		case *ast.SelectorExpr:
			e = v.X
		case *ast.StarExpr:
			e = v.X
		case *ast.ParenExpr:
			e = v.X
		default:
			return nil
		}
	}
}
