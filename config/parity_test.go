package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coredns/caddy/caddyfile"

	"github.com/clusterdns/clusterdns/config/directive"
)

// flatten gives back the words of lines.
func flatten(out []string, l directive.Line) []string {
	out = append(out, l.Name.Text)
	for _, a := range l.Args {
		out = append(out, a.Text)
	}
	if l.HasBlock {
		out = append(out, "{")
		for _, in := range l.Lines {
			out = flatten(out, in)
		}
		out = append(out, "}")
	}
	return out
}

// sameAsLibrary checks that what read accepts is what the library reads: labels and words of each directive. Reading may refuse more.
func sameAsLibrary(t *testing.T, text string) {
	t.Helper()
	got, err := read(Source{Name: "Corefile", Text: []byte(text)})
	if err != nil {
		return
	}
	want, err := caddyfile.Parse("Corefile", strings.NewReader(text), nil)
	if err != nil {
		t.Fatalf("read accepts what the library refuses with %v:\n%s", err, text)
	}
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	before := len(got.blocks)
	got.blocks = slices.DeleteFunc(got.blocks, func(b serverBlock) bool {
		// A block without a name is read as one for all names, and by the library not at all.
		at := b.labels[0]
		if at.Text != "." || at.Column == 0 { // the column of what is not written as it is read is not known
			return false
		}
		words := strings.Fields(string([]rune(lines[at.Line-1])[at.Column-1:]))
		return len(words) > 0 && (words[0] == "{" || strings.HasPrefix(words[0], "{#")) // a comment begins in mid-word
	})
	if n := len(want) - 1; before > 0 && n == len(got.blocks) && slices.Equal(want[n].Keys, []string{"}"}) {
		want = want[:n] // it is a brace too many here
	}
	if len(got.blocks) != len(want) {
		t.Fatalf("%d server blocks, the library finds %d:\n%s", len(got.blocks), len(want), text)
	}
	for i, b := range got.blocks {
		var labels []string
		for _, l := range b.labels {
			labels = append(labels, l.Text)
		}
		if !reflect.DeepEqual(labels, want[i].Keys) {
			t.Fatalf("labels %q, the library finds %q:\n%s", labels, want[i].Keys, text)
		}
		words := map[string][]string{}
		for _, l := range b.lines {
			words[l.Name.Text] = flatten(words[l.Name.Text], l)
		}
		for name, tokens := range want[i].Tokens {
			var wanted []string
			for _, tok := range tokens {
				wanted = append(wanted, tok.Text)
			}
			if strings.ContainsAny(name+strings.Join(wanted, ""), "$%") {
				continue // the library leaves variables in the names of directives
			}
			if !reflect.DeepEqual(words[name], wanted) {
				t.Fatalf("%s: %q, the library finds %q:\n%s", name, words[name], wanted, text)
			}
		}
		if len(words) != len(want[i].Tokens) {
			t.Fatalf("directives %v, the library finds %v:\n%s", words, want[i].Tokens, text)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", ".", ".:53", ". {\n whoami\n}\n", ". { whoami }", "a, b\n{\n log\n}", "a,\nb {\n}", "a, {\n}",
		"(s) {\n errors\n log\n}\n. {\n import s\n whoami\n}\n", "(s) {\n import s\n}\n. {\n import s\n}", "(a) {\n import b\n}\n(b) {\n import a\n}\n. {\n import a\n}",
		". {\n forward . 1.1.1.1 {\n  max_fails 3\n }\n}", ". {\n forward . 1.1.1.1 { max_fails 3 }\n}", ". {\n health { lameduck 5s }\n}",
		". {\n log . \"{remote} {name}\" {\n class all\n }\n}", ". {\n a \"multi\nline\" b\n}", "# comment\n. { # c\n who#ami\n}", "a b c\nlog\nerrors",
		". {\n log {\n {\n }\n }\n}", ". {\n errors\n {\n stacktrace\n }\n}", "}", "{", ". {\n}}", ". {\n errors {\n }", "import x", "import", ". {\n import\n}",
		"{$HOME} {\n log {%HOME%}\n}", "{$} {\n log {$\n}", "\ufeff. {\n}", ". {\n \"\" x\n}", "\"a b\" {\n}", ". {\r\n log\r\n}\r\n", ". {\n log } \n}", "() {\n}\n. {\n import \"\"\n}",
		". {\n errors {\n } log\n}", "a {\n}\nb\nlog", "(s) {\n x\n}\nimport s {\n}\n", ". {\n log a{ }b\n}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // in what column a block begins is counted in letters
		}
		if strings.Contains(text, "import") && strings.ContainsAny(text, "/*?[.") {
			return // imports of files are tested with files of ours
		}
		sameAsLibrary(t, text)
	})
}
