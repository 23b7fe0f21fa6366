package console

import (
	"net/http"

	"github.com/clusterdns/clusterdns/plugin/admin"
)

// policy lets a page have its own style sheet, script and data, and nothing else at all (https://www.w3.org/TR/CSP3).
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxQuery bounds a request's query string: the longest is a handful of names.
const maxQuery = 8192

// guard turns away what no page of ours asks, and says to browsers what they may do with what they get.
func guard(allowed admin.Hosts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !allowed.Has(r.Host):
			http.Error(w, "this host name is not served here", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
		case len(r.URL.RawQuery) > maxQuery:
			http.Error(w, "the query is too long", http.StatusRequestURITooLong)
		case foreign(r):
			http.Error(w, "not for other sites", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// foreign says whether a page of another site makes the browser ask, other than by a link that somebody followed to the overview: what
// other pages do costs queries.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") { // https://www.w3.org/TR/fetch-metadata; programs do not send it
	case "cross-site", "same-site":
		return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate"
	}
	return false
}
