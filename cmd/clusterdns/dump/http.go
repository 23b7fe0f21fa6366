package dump

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/snapshot"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// mediaType is that of what is written (RFC 9512).
const mediaType = "application/yaml"

// cluster is how a kubernetes directive is known in a chain.
type cluster interface {
	Zones() []wire.Zone
	Ready() bool
	Stale() bool
	Objects(yield func(kubernetes.Object) bool)
}

// Served gives, over HTTP, what the kubernetes directives of a server have in memory, as manifests, each a line of JSON: GET /dump[?anonymize=true]. listeners are what is served at the
// moment. It writes while it walks through the objects and keeps none of them; anonymizing keeps every name and address once, with what it becomes.
// The answer is the whole cluster, so the handler belongs on an address that strangers do not reach. It changes nothing.
func Served(listeners func() []server.Listener) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		anonymize, ok := anonymizing(r)
		if !ok {
			http.Error(w, "known is anonymize=true or anonymize=false", http.StatusBadRequest)
			return
		}
		clusters := clustersOf(listeners())
		if status, text := missing(clusters); status != http.StatusOK {
			http.Error(w, text, status)
			return
		}
		h.Set("Content-Type", mediaType)
		h.Set("Content-Disposition", `attachment; filename="cluster.yaml"`)
		if r.Method == http.MethodHead {
			return
		}
		if err := writeMemory(w, time.Now(), clusters, anonymize); err != nil {
			panic(http.ErrAbortHandler) // so that what came so far is not taken for the whole
		}
	})
}

// anonymizing reads the query string. Unknown words are refused: names are not sent as they are for a slip of the pen.
func anonymizing(r *http.Request) (yes, ok bool) {
	q := r.URL.Query()
	value := q.Get("anonymize")
	q.Del("anonymize")
	switch value {
	case "true", "1":
		yes = true
	case "", "false", "0":
	default:
		return false, false
	}
	return yes, len(q) == 0
}

// clustersOf are the kubernetes directives of what is served.
func clustersOf(listeners []server.Listener) []cluster {
	var blocks []*server.Block
	for i := range listeners {
		blocks = append(blocks, listeners[i].Blocks...)
	}
	return snapshot.Handlers[cluster](blocks)
}

// missing says why there is nothing to write.
func missing(clusters []cluster) (status int, text string) {
	if len(clusters) == 0 {
		return http.StatusNotFound, "no kubernetes directive is configured"
	}
	for _, c := range clusters {
		if !c.Ready() {
			return http.StatusServiceUnavailable, "the cluster's objects have not been read yet"
		}
	}
	return http.StatusOK, ""
}

// remarks say what a dump of a server's memory is not.
const remarks = `# A server keeps what it answers from, and no more: labels, selectors, target ports, nodes and containers are missing.
# What its options hide is missing, too: read this without the options namespaces, namespace_labels and labels.
`

// writeMemory writes what servers hold.
func writeMemory(to io.Writer, now time.Time, clusters []cluster, anonymize bool) error {
	out := bufio.NewWriterSize(to, 32<<10) // a packet's worth many times over; a document is seldom larger
	fmt.Fprint(out, header(now, "the memory of a running server", anonymize), remarks)
	var zones []string
	for _, c := range clusters {
		for _, z := range c.Zones() {
			if name := z.String(); !strings.HasSuffix(name, ".arpa.") {
				zones = append(zones, name)
			}
		}
	}
	w := &writer{to: out, encode: line, names: renaming(anonymize, zones)}
	for _, c := range clusters {
		if c.Stale() {
			fmt.Fprintln(out, "# The API server has not been read since the start: this is from the server's snapshot, and may be old.")
		}
		if w.memory(c.Objects); w.err != nil {
			return w.err
		}
	}
	return out.Flush()
}

// line is an object as JSON, which is YAML too: a server has better things to do than to make it beautiful, which takes ten times as long.
func line(o any) ([]byte, error) {
	b, err := json.Marshal(o)
	return append(b, '\n'), err
}

// memory writes the objects of a server. It leaves out what is in a namespace that the server does not see, whose names it does not answer either: read from
// manifests, an object implies its namespace. Namespaces come first.
func (w *writer) memory(objects iter.Seq[kubernetes.Object]) {
	seen := map[string]bool{}
	for o := range objects {
		within, name := o.Key()
		if o.Kind() == kubernetes.KindNamespace {
			within, seen[name] = name, true
		}
		if !seen[within] {
			continue
		}
		if w.reduced(o); w.err != nil {
			return
		}
	}
}
