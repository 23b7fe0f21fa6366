package kubernetes

import (
	"context"
	"log/slog"

	"k8s.io/klog/v2"
)

// LogClient sends what client-go logs to log. It logs through one logger for the whole process, so this is for main. What reflectors
// say is of the level Debug: an APIServer says in its own lines what of it matters, once and not at each attempt.
func LogClient(log *slog.Logger) {
	klog.SetSlogLogger(slog.New(clientHandler{log.Handler()}))
}

// clientHandler lowers the levels of client-go: its information is for those who debug it, its errors are warnings here, since nothing
// that it does can keep the server from answering.
type clientHandler struct{ slog.Handler }

// Handle is slog.Handler's.
func (h clientHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = clientLevel(r)
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is slog.Handler's.
func (h clientHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return clientHandler{h.Handler.WithAttrs(a)}
}

// WithGroup is slog.Handler's.
func (h clientHandler) WithGroup(name string) slog.Handler {
	return clientHandler{h.Handler.WithGroup(name)}
}

func clientLevel(r slog.Record) slog.Level {
	if r.Level < slog.LevelWarn {
		return slog.LevelDebug
	}
	level := slog.LevelWarn
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "reflector" {
			level = slog.LevelDebug
		}
		return level == slog.LevelWarn
	})
	return level
}
