package snapshot

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Remarks is a logger that writes warnings as Complain writes errors.
func Remarks(w io.Writer, command string) *slog.Logger {
	return slog.New(remarks{w, command})
}

// remarks is the handler of that logger. Attributes are not shown: texts of warnings say all.
type remarks struct {
	w       io.Writer
	command string
}

// Enabled is slog.Handler's.
func (r remarks) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle is slog.Handler's.
func (r remarks) Handle(_ context.Context, rec slog.Record) error {
	_, err := fmt.Fprintf(r.w, "clusterdns %s: warning: %s\n", r.command, rec.Message)
	return err
}

// WithAttrs is slog.Handler's.
func (r remarks) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup is slog.Handler's.
func (r remarks) WithGroup(string) slog.Handler { return r }
