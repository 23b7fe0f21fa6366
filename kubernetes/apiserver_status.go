package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// status says in the log how it stands with the API server: one line when it cannot be read, one for each other reason that comes
// up meanwhile, one when all is well again.
type status struct {
	log         *slog.Logger
	credentials string

	mu      sync.Mutex
	failing map[*feed]bool
	said    map[string]bool // the reasons that were logged since all was well
	since   time.Time       // when the first of them came up
	full    bool            // every kind was read
}

func newStatus(log *slog.Logger, credentials string) *status {
	return &status{log: log, credentials: credentials, failing: map[*feed]bool{}, said: map[string]bool{}}
}

// synced is called once, when every kind was read.
func (s *status) synced(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = true
	s.log.Info("kubernetes: the cluster is read", "took", took.Round(time.Millisecond))
}

// ok is called when f was read, or its watch opened again.
func (s *status) ok(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failing, f)
	if len(s.failing) > 0 || len(s.said) == 0 {
		return
	}
	s.log.Info("kubernetes: the API server can be read again", "after", time.Since(s.since).Round(time.Millisecond))
	clear(s.said)
}

// failed is called for each attempt that failed.
func (s *status) failed(f *feed, err error) {
	if passing(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing[f] = true
	reason, text := s.explain(f, err)
	if s.said[reason] {
		return
	}
	if len(s.said) == 0 {
		s.since = time.Now()
	}
	s.said[reason] = true
	answers := "SERVFAIL until it can be read"
	if s.full {
		answers = "from what was read before"
	}
	s.log.Warn("kubernetes: "+text, "err", err, "answers", answers)
}

// silent is called when the API server does not answer checks.
func (s *status) silent() {
	s.log.Warn("kubernetes: the API server does not answer on a connection that is open; opening another")
}

// restored is called when the API server has gone back in time.
func (s *status) restored(resource, known, now string) {
	s.log.Warn("kubernetes: the API server has gone back in time, as after the restoring of a backup; reading the cluster anew",
		"resource", resource, "from_version", known, "to_version", now)
}

// explain gives a reason, by which errors are told apart, and what to say of it.
func (s *status) explain(f *feed, err error) (reason, text string) {
	var cert *tls.CertificateVerificationError
	switch {
	case apierrors.IsUnauthorized(err):
		return "unauthorized", "the API server does not accept the credentials of " + s.credentials + ": renew its token or client certificate"
	case apierrors.IsForbidden(err):
		return "forbidden " + f.res.name, "not allowed to read " + f.res.name + ": the role of " + s.credentials + " needs the verbs list and watch on them"
	case apierrors.IsNotFound(err):
		return "not found " + f.res.name, "the API server has no " + f.res.gv.String() + " " + f.res.name + ": it is too old, or not a Kubernetes API server"
	case errors.As(err, &cert):
		return "certificate", "the certificate of the API server is not one that " + s.credentials + " trusts: check its certificate authority, and the name in the URL"
	case apierrors.ReasonForError(err) != "":
		return "api", "the API server fails"
	}
	return "unreachable", "the API server cannot be reached"
}

// passing errors are part of how lists and watches are negotiated; the next attempt of the reflector knows what to do.
func passing(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) ||
		apierrors.HasStatusCause(err, "ResourceVersionTooLarge") || errors.Is(err, context.Canceled)
}
