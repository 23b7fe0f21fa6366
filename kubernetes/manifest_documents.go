package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// documents calls f for each document of YAML, or of JSON one behind the other. The separator of YAML cannot stand within JSON. before is
// how many lines of the file stand in front of the document.
func documents(data []byte, f func(n, before int, doc []byte)) error {
	if t := bytes.TrimLeft(data, " \t\r\n\ufeff"); len(t) > 0 && t[0] == '{' && !bytes.Contains(t, []byte("\n---")) {
		return jsonDocuments(data[len(data)-len(t):], lines(data[:len(data)-len(t)]), f)
	}
	n, from, at, line, start := 0, 0, 0, 0, 0
	emit := func() {
		if doc := data[from:at]; len(bytes.TrimSpace(doc)) > 0 {
			n++
			f(n, start, doc)
		}
	}
	for at < len(data) {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line++
		if isSeparator(data[at:end]) {
			emit()
			from, start = end, line
		}
		at = end
	}
	emit()
	return nil
}

// isSeparator says whether a line stands between two documents: three hyphens, and nothing or a comment behind them.
func isSeparator(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '#')
}

func jsonDocuments(data []byte, before int, f func(n, before int, doc []byte)) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	for n := 1; ; n++ {
		var doc json.RawMessage
		start := before + lines(data[:dec.InputOffset()])
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			at := len(data)
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				at = int(min(max(syntax.Offset-1, 0), int64(len(data))))
			}
			return fmt.Errorf("document %d: line %d: %w", n, 1+before+lines(data[:at]), err)
		}
		f(n, start, doc)
	}
}

func lines(data []byte) int { return bytes.Count(data, []byte("\n")) }

// inFile makes the line numbers in an error of the YAML library, which counts within a document, those of the file. There they are in
// its text only.
func inFile(err error, before int) error {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	return errors.New(yamlLine.ReplaceAllStringFunc(text, func(m string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(m, "line "))
		return fmt.Sprintf("line %d", n+before)
	}))
}

var yamlLine = regexp.MustCompile(`\bline \d+`)
