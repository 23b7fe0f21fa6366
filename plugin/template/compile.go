package template

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// What one template may do for a query. Numbers in it come from the client's name as a rule, as in {{range parseInt .Group.n 10 64}}.
const (
	// maxOutput is the length of its text and of each value that it computes: a record in presentation form is a few times its RDATA, which is at most
	// 65,535 bytes.
	maxOutput = 256 << 10
	// maxTurns is how often its loops and the templates that it calls are gone through: no reply holds as many records.
	maxTurns = 10_000
)

var (
	errOutput = fmt.Errorf("it makes a text of more than %d KiB", maxOutput>>10)
	errTurns  = fmt.Errorf("its loops are gone through more than %d times", maxTurns)
)

// program is a template that can be executed, by one query at a time.
type program struct {
	*template.Template
	turns int // of this execution
}

// compile makes a template with the functions of the documentation.
func compile(text string) (*program, error) {
	p := &program{}
	var err error
	if p.Template, err = template.New("record").Funcs(p.functions()).Parse(text); err != nil {
		return nil, err
	}
	count := template.Must(template.New("count").Funcs(p.functions()).Parse("{{turn}}")).Root.Nodes[0]
	for _, part := range p.Templates() {
		countTurns(part.Root, count)
		if part != p.Template {
			part.Root.Nodes = append([]parse.Node{count}, part.Root.Nodes...)
		}
	}
	return p, nil
}

// functions are those that templates call: parseInt, the library's that make texts within bounds, and turn, which is called by what countTurns puts in.
func (p *program) functions() template.FuncMap {
	joined := func(f func(...any) string) func(...any) (string, error) {
		return func(a ...any) (string, error) { return within(f(a...)) }
	}
	return template.FuncMap{
		"parseInt": strconv.ParseUint,
		"print":    joined(fmt.Sprint),
		"println":  joined(fmt.Sprintln),
		"html":     joined(template.HTMLEscaper),
		"js":       joined(template.JSEscaper),
		"urlquery": joined(template.URLQueryEscaper),
		"printf":   func(format string, a ...any) (string, error) { return within(fmt.Sprintf(format, a...)) },
		"turn": func() (string, error) {
			if p.turns++; p.turns > maxTurns {
				return "", errTurns
			}
			return "", nil
		},
	}
}

func within(s string) (string, error) {
	if len(s) > maxOutput {
		return "", errOutput
	}
	return s, nil
}

// countTurns puts a call of turn at the beginning of each loop.
func countTurns(n parse.Node, count parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, c := range n.Nodes {
			countTurns(c, count)
		}
	case *parse.IfNode:
		countTurns(n.List, count)
		countTurns(n.ElseList, count)
	case *parse.WithNode:
		countTurns(n.List, count)
		countTurns(n.ElseList, count)
	case *parse.RangeNode:
		countTurns(n.List, count)
		countTurns(n.ElseList, count)
		n.List.Nodes = append([]parse.Node{count}, n.List.Nodes...)
	}
}

// fields are what a template may write behind a dot.
func fields() (names []string) {
	t := reflect.TypeFor[*data]()
	for _, f := range reflect.VisibleFields(t.Elem()) {
		if f.IsExported() {
			names = append(names, f.Name)
		}
	}
	for i := range t.NumMethod() {
		names = append(names, t.Method(i).Name)
	}
	return names
}

// unknownFields tells of the fields of the question that a template uses and that do not exist.
func unknownFields(n parse.Node, tell func(field string)) {
	if f, ok := n.(*parse.FieldNode); ok && !slices.Contains(fields(), f.Ident[0]) {
		tell(f.Ident[0])
	}
	for _, c := range sameDot(n) {
		unknownFields(c, tell)
	}
}

// sameDot are the parts of a node in which the dot is what it is outside. In the bodies of range and with it is something else.
func sameDot(n parse.Node) []parse.Node {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			return n.Nodes
		}
	case *parse.ActionNode:
		return []parse.Node{n.Pipe}
	case *parse.IfNode:
		return []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.WithNode:
		return []parse.Node{n.Pipe}
	case *parse.RangeNode:
		return []parse.Node{n.Pipe}
	case *parse.PipeNode:
		var args []parse.Node
		for _, c := range n.Cmds {
			args = append(args, c.Args...)
		}
		return args
	case *parse.ChainNode:
		return []parse.Node{n.Node}
	}
	return nil
}

// run executes the template within its bounds.
func (p *program) run(d *data) (string, error) {
	p.turns = 0
	var out bounded
	if err := p.Execute(&out, d); err != nil {
		return "", err
	}
	return out.String(), nil
}

// bounded is a text that does not grow over maxOutput.
type bounded struct{ strings.Builder }

// Write is io.Writer's.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		return 0, errOutput
	}
	return b.Builder.Write(p)
}
