package log

import (
	"context"
	"io"
	"log/slog"
	"strings"
)

// Handler is a slog.Handler that writes the process's own messages as CoreDNS does: the level in brackets, the message, and then
// attributes as key=value.
type Handler struct {
	out    io.Writer
	level  slog.Leveler
	prefix string // of the names of attributes
	attrs  string // those of the logger, written out
}

// NewHandler makes a handler that writes messages from level on to out, each in one call.
func NewHandler(out io.Writer, level slog.Leveler) *Handler {
	return &Handler{out: out, level: level}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// Handle implements slog.Handler. The message may have several lines, as a stack trace does; other control characters are escaped, and
// attributes never break a line.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	b := make([]byte, 0, 256)
	b = append(b, levelName(r.Level)...)
	for i, line := range strings.Split(r.Message, "\n") {
		if i > 0 {
			b = append(b, '\n')
		}
		b = appendPrintable(b, line)
	}
	b = append(b, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b = appendAttr(b, h.prefix, a)
		return true
	})
	_, err := h.out.Write(append(b, '\n'))
	return err
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "[DEBUG] "
	case l < slog.LevelWarn:
		return "[INFO] "
	case l < slog.LevelError:
		return "[WARNING] "
	}
	return "[ERROR] "
}

// appendPrintable appends text with control characters escaped; quotes and backslashes stay, as no quotes stand around it.
func appendPrintable(b []byte, s string) []byte {
	from := 0
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7F {
			b = append(b, s[from:i]...)
			b = append(b, '\\', 'x', hex[c>>4], hex[c&0xF])
			from = i + 1
		}
	}
	return append(b, s[from:]...)
}

func appendAttr(b []byte, prefix string, a slog.Attr) []byte {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, in := range a.Value.Group() {
			b = appendAttr(b, prefix, in)
		}
		return b
	}
	if a.Key == "" {
		return b
	}
	b = append(append(append(b, ' '), prefix...), a.Key...)
	v := a.Value.String()
	if v == "" || strings.ContainsAny(v, " \t\n\"=") {
		return append(appendSafe(append(b, '=', '"'), v), '"')
	}
	return appendSafe(append(b, '='), v)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = appendAttr(b, h.prefix, a)
	}
	return &Handler{h.out, h.level, h.prefix, string(b)}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &Handler{h.out, h.level, h.prefix + name + ".", h.attrs}
}
