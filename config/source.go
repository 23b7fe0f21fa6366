package config

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coredns/caddy/caddyfile"

	"github.com/clusterdns/clusterdns/config/directive"
)

// Source is a Corefile as it was found.
type Source struct {
	Name string // shown in messages: the path as given, "Corefile" or "stdin"
	Path string // where it was read from, or "" if it cannot be read again
	Text []byte
}

// ReadSource reads a Corefile. It may be a pipe, but not one without end.
func ReadSource(path string) (Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return Source{}, fmt.Errorf("cannot read the Corefile: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = &os.PathError{Op: "read", Path: path, Err: errLarge}
	}
	if err != nil {
		return Source{}, fmt.Errorf("cannot read the Corefile: %w", err)
	}
	return Source{Name: path, Path: path, Text: text}, nil
}

// dir is the folder of the Corefile.
func (s *Source) dir() string {
	if s.Path == "" {
		return "."
	}
	return filepath.Dir(s.Path)
}

// maxGap is how far behind a word the next one is looked for: spaces and a quote, as a rule. Without a bound, words that are not written as
// they are read (quotes within them) would cost the length of the line each.
const maxGap = 1024

// lex splits a text into words by the library's lexer, which is CoreDNS's: quotes, comments and line counting are its own. It stops at
// one word more than may be.
func lex(name string, text []byte) []directive.Arg {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	d := caddyfile.NewDispenser(name, bytes.NewReader(text))
	lines := strings.Split(string(text), "\n")
	var out []directive.Arg
	line, from, column := 0, 0, 1 // words are found again in order, for the column that the library does not tell
	for len(out) <= maxTokens && d.Next() {
		a := directive.Arg{Text: d.Val(), File: name, Line: d.Line()}
		if a.Line != line {
			line, from, column = a.Line, 0, 1
		}
		first, _, _ := strings.Cut(a.Text, "\n")
		if line <= len(lines) {
			rest := lines[line-1][from:]
			if i := strings.Index(rest[:min(len(rest), len(first)+maxGap)], first); i >= 0 {
				a.Column = column + utf8.RuneCountInString(lines[line-1][from:from+i])
				column = a.Column + utf8.RuneCountInString(first)
				from += i + len(first)
			}
		}
		out = append(out, a)
	}
	return out
}

// openQuote finds the quote that is not closed, if there is one: it takes all that follows for one word.
func openQuote(name string, text []byte) error {
	at, opened := directive.Arg{File: name, Line: 1}, directive.Arg{}
	var q quotes
	for _, c := range string(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		at.Column++
		if !q.quoted {
			q.outside(c)
			opened = at
		} else {
			q.inside(c)
		}
		if c == '\n' {
			at.Line, at.Column = at.Line+1, 0
		}
	}
	if !q.quoted {
		return nil
	}
	return opened.Errorf("the quote opened at %d:%d is not closed", opened.Line, opened.Column)
}

// quotes follows a text as the library's lexer does: where words, comments and quotes begin and end.
type quotes struct{ quoted, escaped, word, comment bool }

func (q *quotes) inside(c rune) {
	switch {
	case q.escaped:
		q.escaped = false
	case c == '\\':
		q.escaped = true
	case c == '"':
		q.quoted = false
	}
}

func (q *quotes) outside(c rune) {
	switch {
	case c == '\r':
	case unicode.IsSpace(c):
		q.comment = q.comment && c != '\n' && !q.word // a word that a comment follows ends both
		q.word = false
	case q.comment:
	case c == '#':
		q.comment = true
	case c == '"' && !q.word:
		q.quoted = true
	default:
		q.word = true
	}
}

// sameLine says whether b stands on the line on which a ends: in one file, a's line breaks within quotes counted.
func sameLine(a, b directive.Arg) bool {
	return a.File == b.File && a.Line+strings.Count(a.Text, "\n") == b.Line
}

// newLine says whether b begins a line of its own, as the library's parser sees it. It differs from !sameLine for words of one file that were
// brought out of order by a snippet.
func newLine(a, b directive.Arg) bool {
	return a.File != b.File || a.Line+strings.Count(a.Text, "\n") < b.Line
}

// maxExpansions and maxExpanded bound what environment variables whose values name variables can make of a word.
const (
	maxExpansions = 100
	maxExpanded   = 1 << 20
)

// expandEnv puts the values of environment variables in the place of {%NAME%} and {$NAME}. A value stays part of its word, whatever it
// holds. References that a value makes are expanded too, as the library does it, but not without end.
func expandEnv(s string, getenv func(string) string) string {
	if !strings.Contains(s, "{$") && !strings.Contains(s, "{%") {
		return s
	}
	return expandRefs(expandRefs(s, "{%", "%}", getenv), "{$", "}", getenv)
}

func expandRefs(s, open, end string, getenv func(string) string) string {
	for range maxExpansions {
		i := strings.Index(s, open)
		if i < 0 || len(s) > maxExpanded {
			break
		}
		n := strings.Index(s[i:], end)
		if n <= len(open) { // not closed, or without a name: it and all behind it stand for themselves
			break
		}
		ref := s[i : i+n+len(end)]
		s = strings.ReplaceAll(s, ref, getenv(ref[len(open):n]))
	}
	return s
}
