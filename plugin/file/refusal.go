package file

import (
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Refusal stands at the end of a server block that nothing follows the zones of: who asks it for names of other zones asks the wrong server, and is
// told so instead of that something failed.
type Refusal struct{ ours zones.Set }

// NewRefusal makes the handler of a block that serves these zones.
func NewRefusal(ours zones.Set) *Refusal { return &Refusal{ours} }

// Answer answers REFUSED for names outside the zones. Names that a CNAME leads to are for the client to look up elsewhere.
func (f *Refusal) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Followed() || f.ours.Contains(&q.Name) {
		return server.Pass
	}
	r.SetRCode(wire.RCodeRefused)
	return server.Done
}
