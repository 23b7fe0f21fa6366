package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
)

// imported is what an import asked for, so that a change of it can be noticed.
type imported struct {
	pattern string // absolute; a path or a glob
	files   []string
}

// doImport resolves the import under the cursor: the words that it stands for come next.
func (r *reader) doImport() error {
	at, before, second := r.cur, r.prev, r.second
	if !r.advance() || !sameLine(at, r.cur) {
		return at.Errorf("import: a file, a glob pattern or the name of a snippet must follow")
	}
	what := r.expand(r.cur)
	if what.Text == "" {
		return what.Errorf("import: the name is empty")
	}
	if next, ok := r.peek(); ok && sameLine(r.cur, next) {
		return next.Errorf("import: takes one argument, found %q behind it", next.Text)
	}
	if r.count++; r.count > maxImports {
		return what.Errorf("%w", errImports)
	}
	if len(r.frames) >= maxImportDepth {
		return what.Errorf("%w", errDepth)
	}
	if r.words > maxTokens {
		return what.Errorf("%w", errTokens)
	}
	words, ok := r.snippets[what.Text]
	if !ok {
		var err error
		if words, err = r.importFiles(what); err != nil {
			return err
		}
	}
	r.frames = append(r.frames, frame{words: words})
	r.cur, r.started = before, second // as if the import had not been there
	return nil
}

// importFiles reads the files that a path or a pattern names, relative to the file that has the import.
func (r *reader) importFiles(what directive.Arg) ([]directive.Arg, error) {
	pattern := what.Text
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(what.File), pattern)
	}
	pattern, err := filepath.Abs(pattern)
	if err != nil {
		return nil, what.Errorf("import: %w", err)
	}
	if strings.Count(pattern, "*") > 1 || strings.Count(pattern, "?") > 1 || strings.Contains(pattern, "[") && strings.Contains(pattern, "]") {
		return nil, what.Errorf("import: a pattern may have one wildcard, %q has more", what.Text)
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, what.Errorf("import: %q: %w", what.Text, err)
	}
	r.out.imports = append(r.out.imports, imported{pattern, files})
	if len(files) == 0 {
		if !strings.ContainsAny(pattern, "*?[]") {
			return nil, what.Errorf("import: no file and no snippet is called %q", what.Text)
		}
		r.out.warnings = append(r.out.warnings, what.Errorf("import: no file matches %q", what.Text))
	}
	var words []directive.Arg
	for _, file := range files {
		more, err := r.importFile(what, file)
		if err != nil {
			return nil, err
		}
		words = append(words, more...)
	}
	return words, nil
}

func (r *reader) importFile(what directive.Arg, file string) ([]directive.Arg, error) {
	text, err := r.readFile(file)
	if err != nil {
		return nil, what.Errorf("import: %w", err)
	}
	name := r.shown(what, file)
	r.out.texts[name] = text
	return lex(name, text), openQuote(name, text)
}

// shown is the name of an imported file for messages: relative to the importing file if that was.
func (r *reader) shown(what directive.Arg, file string) string {
	if filepath.IsAbs(what.Text) || filepath.IsAbs(what.File) {
		return file
	}
	return filepath.Join(filepath.Dir(what.File), filepath.Dir(what.Text), filepath.Base(file))
}

// maxFile is the size of the largest file that is read as a configuration; ConfigMaps end at 1 MiB.
const maxFile = 16 << 20

var errLarge = fmt.Errorf("the file is larger than %d MiB", maxFile>>20)

// readRegular reads a file that is one: an import of a folder, a pipe or a device would fail late or never end.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("it is a folder")}
	case !info.Mode().IsRegular():
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("it is no regular file")}
	case info.Size() > maxFile:
		return nil, &os.PathError{Op: "read", Path: path, Err: errLarge}
	}
	return os.ReadFile(path)
}
