package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
)

// serverBlock is a server block as it was written: its labels and the lines of its directives in order.
type serverBlock struct {
	labels []directive.Arg
	lines  []directive.Line
}

// corefile is what reading a Corefile and all that it imports gave.
type corefile struct {
	blocks   []serverBlock
	warnings []error
	imports  []imported
	texts    map[string][]byte // what was read, by the name that messages show
}

// The limits on imports. The first two end files and snippets that import themselves. CoreDNS allows 10,000 expansions of snippets and 100,000
// of files, nested as deep as memory allows; no Corefile in use comes near these.
const (
	maxImportDepth = 64
	maxImports     = 10_000
	maxTokens      = 1_000_000
)

// maxNesting is how deep braces may be nested within a directive; no directive nests more than one level.
const maxNesting = 32

// errDepth, errImports and errTokens are what those limits say.
var (
	errDepth   = fmt.Errorf("import: nested more than %d deep; does it import itself?", maxImportDepth)
	errImports = fmt.Errorf("import: more than %d imports; do they import each other?", maxImports)
	errTokens  = fmt.Errorf("import: more than %d words in all", maxTokens)
)

// frame is a list of words being read: the Corefile, a file or a snippet.
type frame struct {
	words []directive.Arg
	next  int
}

// reader is a parser for the structure of a Corefile. It follows the library's parser step by step where that decides what is
// accepted, so its methods are named after the library's. That one cannot be used itself: it forgets where labels stand and which files
// were imported, mixes the repetitions of a directive, and logs by itself.
type reader struct {
	lookenv  func(string) (string, bool)
	readFile func(string) ([]byte, error)
	frames   []frame
	cur      directive.Arg // the word under the cursor
	prev     directive.Arg // the one before it
	started  bool          // there is a word under the cursor
	second   bool          // there is one before it
	held     bool          // cur was given back by back and comes again
	eof      bool
	count    int // imports so far
	words    int // words read so far
	snippets map[string][]directive.Arg
	out      corefile
}

// read reads a Corefile into blocks of lines. It opens imported files and does nothing else.
func read(src Source) (*corefile, error) {
	r := &reader{lookenv: os.LookupEnv, readFile: readRegular, snippets: map[string][]directive.Arg{}}
	r.out.texts = map[string][]byte{src.Name: src.Text}
	if err := openQuote(src.Name, src.Text); err != nil {
		return &r.out, err
	}
	words := lex(src.Name, src.Text)
	if err := kubernetesObject(words); err != nil {
		return &r.out, err
	}
	if len(words) > maxTokens {
		return &r.out, words[maxTokens].Errorf("more than %d words", maxTokens)
	}
	r.frames = []frame{{words: words}}
	for r.advance() {
		if err := r.block(); err != nil {
			return &r.out, err
		}
	}
	return &r.out, nil
}

// kubernetesObject is an error for a ConfigMap that was saved whole, which else would give one for each of its lines.
func kubernetesObject(words []directive.Arg) error {
	for i, w := range words {
		switch {
		case w.Text == "{" && i == 0:
		case w.Text == "apiVersion:", w.Text == "apiVersion" && i == 1: // YAML, JSON
			return w.Errorf("this is an object of Kubernetes, and the Corefile is within it: kubectl -n kube-system get configmap coredns -o jsonpath='{.data.Corefile}' writes it")
		default:
			return nil
		}
	}
	return nil
}

// expand puts the values of environment variables into a word, and warns of those that are not set and of what was meant to be one.
func (r *reader) expand(word directive.Arg) directive.Arg {
	plain := word
	word.Text = expandEnv(word.Text, func(name string) string {
		value, set := r.lookenv(name)
		if !set {
			r.warnOnce(plain.Errorf("%s is not set: the environment variable is read as nothing", name))
		}
		return value
	})
	if _, name, found := strings.Cut(plain.Text, "{$"); found && !strings.Contains(name, "}") && name != "" && isLetter(name[0]) {
		r.warnOnce(plain.Errorf("{$%s is not closed, so it is not read as an environment variable: write {$%s}", name, name))
	}
	return word
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// warnOnce adds a warning that has not been given yet: a snippet is read as often as it is imported.
func (r *reader) warnOnce(err error) {
	same := func(w error) bool { return w.Error() == err.Error() }
	if !slices.ContainsFunc(r.out.warnings, same) {
		r.out.warnings = append(r.out.warnings, err)
	}
}

// advance moves to the next word. At the end it says false and stays on the last one.
func (r *reader) advance() bool {
	if r.held {
		r.held = false
		return true
	}
	for len(r.frames) > 0 {
		f := &r.frames[len(r.frames)-1]
		if f.next < len(f.words) {
			r.prev, r.second = r.cur, r.started
			r.cur, r.started = f.words[f.next], true
			f.next++
			r.words++
			return true
		}
		r.frames = r.frames[:len(r.frames)-1]
	}
	return false
}

// peek is the word that advance would move to.
func (r *reader) peek() (directive.Arg, bool) {
	for i := len(r.frames) - 1; i >= 0; i-- {
		if f := &r.frames[i]; f.next < len(f.words) {
			return f.words[f.next], true
		}
	}
	return directive.Arg{}, false
}

// back makes the next advance give the same word again.
func (r *reader) back() { r.held = true }

// isNewLine says whether the current word begins a line.
func (r *reader) isNewLine() bool { return !r.second || newLine(r.prev, r.cur) }

// block reads one server block or snippet.
func (r *reader) block() error {
	labels, err := r.addresses()
	if err != nil {
		return err
	}
	if r.eof {
		r.last(labels)
		return nil
	}
	if name, ok := snippetName(labels); ok {
		return r.snippet(name)
	}
	b, open := serverBlock{labels: labels}, r.cur
	braces := open.Text == "{"
	if !braces {
		r.back() // a single server block needs none
	}
	closed, err := r.directives(&b)
	if err != nil {
		return err
	}
	if braces && !closed {
		if err := r.unclosed(labels); err != nil {
			return err
		}
	}
	if len(labels) == 0 && braces {
		open.Text = "."
		b.labels = []directive.Arg{open}
		r.warnOnce(open.Errorf("a server block without a zone is read as one for all names: write \".\" in front of the brace"))
	}
	if len(b.labels) > 0 {
		r.out.blocks = append(r.out.blocks, b)
	}
	return nil
}

// unclosed judges a server block in which the file ends. CoreDNS takes the closing brace of its last directive for its own.
func (r *reader) unclosed(labels []directive.Arg) error {
	if r.cur.Text != "}" {
		return r.cur.Errorf("the file ends within the server block of %s: a closing brace is missing", texts(labels))
	}
	r.warnOnce(r.cur.Errorf("this brace closes a directive, and the file ends within the server block of %s: write another one", texts(labels)))
	return nil
}

// last takes labels behind which the file ends.
func (r *reader) last(labels []directive.Arg) {
	switch {
	case len(labels) == 1 && labels[0].Text == "}" && len(r.out.blocks) > 0:
		r.warnOnce(labels[0].Errorf("a closing brace without an opening one: leave it out"))
	case len(labels) > 0:
		r.out.blocks = append(r.out.blocks, serverBlock{labels: labels})
	}
}

// addresses reads the labels of a server block.
func (r *reader) addresses() (labels []directive.Arg, err error) {
	more := false // a comma says that another label follows, maybe on the next line
	for {
		word := r.expand(r.cur)
		if word.Text == "import" && r.isNewLine() {
			if ok, err := r.importHere(); err != nil {
				return nil, err
			} else if !ok {
				r.eof = true
				return labels, nil
			}
			continue
		}
		if word.Text == "{" {
			return labels, needMore(word, more)
		}
		if word.Text != "" {
			word.Text, more = strings.CutSuffix(word.Text, ",")
			labels = append(labels, word)
		}
		if !r.advance() {
			r.eof = true
			return labels, needMore(word, more)
		}
		if !more && r.isNewLine() {
			return labels, nil
		}
	}
}

// needMore is an error if a comma has said that another label follows, and none does.
func needMore(at directive.Arg, more bool) error {
	if !more {
		return nil
	}
	return at.Errorf("another zone must follow the comma")
}

// importHere resolves an import among the labels and moves to the first word that it brought, or to the one behind it. ok is false at the end.
func (r *reader) importHere() (ok bool, err error) {
	if err := r.doImport(); err != nil {
		return false, err
	}
	return r.advance(), nil
}

// directives reads lines up to the end of the server block. closed says that a brace is there, and not the end of the file.
func (r *reader) directives(b *serverBlock) (closed bool, err error) {
	for r.advance() {
		switch r.cur.Text {
		case "}":
			return true, nil
		case "import":
			if err := r.doImport(); err != nil {
				return false, err
			}
			continue
		}
		line, err := r.directive()
		if err != nil {
			return false, err
		}
		b.lines = append(b.lines, line)
	}
	return false, nil
}

// directive collects the words of one directive, up to the end of its line or of its braces.
func (r *reader) directive() (directive.Line, error) {
	first := r.expand(r.cur)
	words, nesting := []directive.Arg{first}, 0
	for r.advance() {
		if nesting == 0 && r.cur.Text != "{" && r.isNewLine() {
			r.back()
			return tree(words)
		}
		var err error
		if nesting, err = r.nest(first, nesting); err != nil {
			return directive.Line{}, err
		}
		if r.cur.Text == "import" && r.isNewLine() {
			if err := r.doImport(); err != nil {
				return directive.Line{}, err
			}
			continue
		}
		word := r.expand(r.cur)
		words = append(words, word)
	}
	if nesting > 0 {
		return directive.Line{}, first.Errorf("the file ends within the braces of %q: a closing brace is missing", first.Text)
	}
	return tree(words)
}

// nest gives how deep in braces a directive is behind the current word.
func (r *reader) nest(first directive.Arg, nesting int) (int, error) {
	switch {
	case r.cur.Text == "{" && nesting == maxNesting:
		return nesting, r.cur.Errorf("%s: braces are nested more than %d deep", first.Text, maxNesting)
	case r.cur.Text == "{":
		return nesting + 1, nil
	case r.cur.Text == "}" && nesting > 0:
		return nesting - 1, nil
	case r.cur.Text == "}":
		return nesting, r.cur.Errorf("the closing brace of a server block must stand on a line of its own, not behind %q", first.Text)
	}
	return nesting, nil
}

// snippetName is the name of a snippet, if that is what the labels say: "(name)" alone.
func snippetName(labels []directive.Arg) (string, bool) {
	if len(labels) != 1 {
		return "", false
	}
	name, open := strings.CutPrefix(labels[0].Text, "(")
	name, closed := strings.CutSuffix(name, ")")
	return name, open && closed
}

// snippet keeps the words of a snippet for imports to come.
func (r *reader) snippet(name string) error {
	if _, found := r.snippets[name]; found {
		return r.cur.Errorf("the snippet (%s) is defined twice", name)
	}
	if r.cur.Text != "{" {
		return r.cur.Errorf("a snippet needs braces, found %q behind (%s)", r.cur.Text, name)
	}
	words := []directive.Arg{}
	for depth := 1; r.advance(); {
		switch r.cur.Text {
		case "}":
			depth--
		case "{":
			depth++
		}
		if depth == 0 {
			r.snippets[name] = words
			return r.importsItself(name, words)
		}
		words = append(words, r.cur)
	}
	return r.cur.Errorf("the file ends within the snippet (%s): a closing brace is missing", name)
}

// importsItself is an error if a snippet does so directly, even if nobody imports it.
func (r *reader) importsItself(name string, words []directive.Arg) error {
	for i := 0; i+1 < len(words); i++ {
		begins := i == 0 || words[i-1].File != words[i].File || words[i-1].Line != words[i].Line
		if words[i].Text == "import" && begins && expandEnv(words[i+1].Text, os.Getenv) == name {
			return words[i].Errorf("the snippet (%s) imports itself", name)
		}
	}
	return nil
}

// texts are words in one line for a message.
func texts(args []directive.Arg) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(a.Text)
	}
	return b.String()
}

// tree makes a line of a directive's words: arguments up to an opening brace, the lines within, and nothing behind the closing one.
func tree(words []directive.Arg) (directive.Line, error) {
	line, rest, err := takeLine(words)
	if err != nil {
		return line, err
	}
	if len(rest) > 0 {
		if rest[0].Text == "{" {
			return line, rest[0].Errorf("%s: the opening brace must stand on the directive's own line", line.Name.Text)
		}
		return line, rest[0].Errorf("%s: found %q behind the closing brace", line.Name.Text, rest[0].Text)
	}
	return line, nil
}

// takeLine takes one line, and the braces that open on it, off the words.
func takeLine(words []directive.Arg) (line directive.Line, rest []directive.Arg, err error) {
	line.Name = words[0]
	i := 1
	for ; i < len(words) && sameLine(words[i-1], words[i]); i++ {
		switch words[i].Text {
		case "{":
			return takeBraces(line, words[i+1:])
		case "}":
			line.Closes = true
			return line, words[i:], nil
		}
		line.Args = append(line.Args, words[i])
	}
	return line, words[i:], nil
}

// errUnbalanced cannot be seen by anybody, as braces are counted before: it keeps that from becoming a panic.
var errUnbalanced = errors.New("unbalanced braces")

// takeBraces takes the lines of an open block up to and with its closing brace off the words.
func takeBraces(line directive.Line, words []directive.Arg) (directive.Line, []directive.Arg, error) {
	line.HasBlock = true
	for len(words) > 0 {
		switch words[0].Text {
		case "}":
			return line, words[1:], nil
		case "{":
			return line, nil, words[0].Errorf("%s: an opening brace must stand behind a word on the same line", line.Name.Text)
		}
		inner, rest, err := takeLine(words)
		if err != nil {
			return line, nil, err
		}
		line.Lines = append(line.Lines, inner)
		words = rest
	}
	return line, nil, line.Name.Errorf("%s: %w", line.Name.Text, errUnbalanced)
}
