// Package plugintest holds what the tests of directives share: parsing of Corefile text, handlers with fixed answers, and the check that a directive's page says all
// that its parser knows.
package plugintest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config/directive"
)

// Mentions fails the test unless docs/NAME.md has every one of words in code quotes or code blocks.
func Mentions(t *testing.T, name string, words ...string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", name+".md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for i, part := range strings.Split(string(b), "`") {
		if i%2 == 1 {
			code.WriteString(part)
			code.WriteByte(' ')
		}
	}
	fields := strings.FieldsFunc(code.String(), func(r rune) bool { return strings.ContainsRune(" \t\n[]|{}", r) })
	for _, w := range words {
		found := false
		for _, f := range fields {
			found = found || f == w
		}
		if !found {
			t.Errorf("%s does not mention %q", path, w)
		}
	}
}

// Names are the names of a table of options.
func Names[T any](rows []directive.Option[T]) []string {
	out := make([]string, len(rows))
	for i := range rows {
		out[i] = rows[i].Name
	}
	return out
}

// Input reads one directive as a Corefile has it: words parted by blanks, double quotes around words with blanks, one option a line in
// braces. zones are those of the server block.
func Input(t testing.TB, text string, zones ...string) *directive.Input {
	t.Helper()
	var stack []*directive.Line
	root := &directive.Line{}
	cur := root
	for n, raw := range strings.Split(text, "\n") {
		words := split(raw)
		if len(words) == 0 {
			continue
		}
		if words[0] == "}" {
			cur, stack = stack[len(stack)-1], stack[:len(stack)-1]
			continue
		}
		l := directive.Line{}
		for i, w := range words {
			a := directive.Arg{Text: w, File: "Corefile", Line: n + 1}
			switch {
			case w == "{" && i == len(words)-1:
				l.HasBlock = true
			case i == 0:
				l.Name = a
			default:
				l.Args = append(l.Args, a)
			}
		}
		cur.Lines = append(cur.Lines, l)
		if l.HasBlock {
			stack = append(stack, cur)
			cur = &cur.Lines[len(cur.Lines)-1]
		}
	}
	if len(root.Lines) != 1 {
		t.Fatalf("%d directives in %q, want one", len(root.Lines), text)
	}
	return &directive.Input{Line: root.Lines[0], Zones: zones, Warn: func(directive.Arg, string, ...any) {}}
}

func split(line string) []string {
	var out []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '"' {
			word, rest, _ := strings.Cut(line[1:], `"`)
			out, line = append(out, word), rest
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		out, line = append(out, word), rest
	}
	return out
}
