package zones

import (
	"sync"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Texts lends buffers for names in presentation form, so that matching them against text takes no memory. The zero value is ready.
type Texts struct{ pool sync.Pool }

// Text is a name in presentation form and lower case, until it is given back.
type Text struct{ B []byte }

// Of writes n out.
func (t *Texts) Of(n *wire.Name) *Text {
	x, ok := t.pool.Get().(*Text)
	if !ok {
		x = &Text{make([]byte, 0, 2*wire.MaxName)}
	}
	x.B = wire.AppendPresentation(x.B[:0], n.Folded())
	return x
}

// Done gives the buffer back.
func (t *Texts) Done(x *Text) { t.pool.Put(x) }
