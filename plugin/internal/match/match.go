// Package match is regular expressions for names that most queries do not match: a text that every match must contain is looked for
// first, which costs a hundredth of running the expression.
package match

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// maxProgram bounds what an expression becomes. Matching takes time that grows with the length of the text times that of the program, and repetitions
// lengthen it: (.?){1000} five times over are 20,000 steps, and 60 ms for a name. Expressions in use have a few hundred; a list of 1,000 names
// has 20,000.
const maxProgram = 20_000

var errProgram = fmt.Errorf("the expression becomes a program of more than %d steps: it repeats too much", maxProgram)

// Compile is regexp.Compile for expressions of a configuration: one that takes too long for a query is an error.
func Compile(expr string) (*regexp.Regexp, error) {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if p, err := syntax.Compile(tree.Simplify()); err != nil || len(p.Inst) > maxProgram {
		return nil, errors.Join(err, errProgram)
	}
	return regexp.Compile(expr)
}

// Pattern is a regular expression with a text that whatever it matches has in it.
type Pattern struct {
	*regexp.Regexp
	literal []byte
}

// MustCompile compiles an expression that has been compiled before, so that it cannot fail; it panics if it does.
func MustCompile(expr string) Pattern {
	p := Pattern{Regexp: regexp.MustCompile(expr)}
	if tree, err := syntax.Parse(expr, syntax.Perl); err == nil {
		p.literal = []byte(required(tree.Simplify()))
	}
	return p
}

// Match says whether the expression matches anywhere in b. It does not allocate.
func (p *Pattern) Match(b []byte) bool {
	return bytes.Contains(b, p.literal) && p.Regexp.Match(b)
}

// required is the longest text found that must be in every match, or "".
func required(t *syntax.Regexp) string {
	longest := ""
	switch t.Op {
	case syntax.OpLiteral:
		if t.Flags&syntax.FoldCase == 0 {
			return string(t.Rune)
		}
	case syntax.OpConcat:
		for _, sub := range t.Sub {
			if s := required(sub); len(s) > len(longest) {
				longest = s
			}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(t.Sub[0])
	case syntax.OpRepeat:
		if t.Min > 0 {
			return required(t.Sub[0])
		}
	}
	return longest
}
