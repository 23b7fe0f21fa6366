package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"log/slog"
	"sync"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Source is a handler whose zones can be transferred.
type Source interface {
	// TransferZone gives the serial of a zone and all its records, the SOA record first and once. ok is false for zones of others. The sequence
	// is a snapshot: what changes while it is read does not show.
	TransferZone(origin wire.Zone) (all iter.Seq[server.Record], serial uint32, ok bool)
}

// fill is how full a message gets before the next is begun: compression pointers reach 16 KiB (RFC 1035 4.1.4), so larger ones gain little.
const fill = 16 << 10

// errCut is a transfer over a transport that ended in the middle.
var errCut = errors.New("transfer: the zone does not fit the one reply that this transport has")

// Transfer answers AXFR and IXFR questions for the zones of all transfer directives of a server block.
type Transfer struct {
	all     []Options
	sources []Source
	log     *slog.Logger

	mu      sync.Mutex // guards changed
	changed map[wire.Zone]bool
	wake    chan struct{} // holds one
}

// New makes the handler. sources are asked in their order. log may be nil.
func New(all []Options, sources []Source, log *slog.Logger) *Transfer {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Transfer{all: all, sources: sources, log: log, changed: map[wire.Zone]bool{}, wake: make(chan struct{}, 1)}
}

// find gives the directive that is for a zone, and the zone; exact says that its name is the very one that is asked for.
func (t *Transfer) find(q *server.Query) (o *Options, z wire.Zone, exact bool) {
	labels := -1
	for i := range t.all {
		if found, before, ok := t.all[i].Zones.Find(&q.Name); ok && found.Labels() > labels {
			o, z, exact, labels = &t.all[i], found, before == 0, found.Labels()
		}
	}
	return o, z, exact
}

// Answer says Wait to the questions that are answered here, and passes all others.
func (t *Transfer) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Type != wire.TypeAXFR && q.Type != wire.TypeIXFR || q.Class != wire.ClassIN || q.Transport == server.Internal {
		return server.Pass
	}
	o, _, exact := t.find(q)
	switch {
	case o == nil:
		return server.Pass
	case !o.allows(q.Client.Addr().Unmap()):
		r.SetRCode(wire.RCodeRefused)
		return server.Done
	case !exact:
		r.SetRCode(wire.RCodeNotAuth)
		return server.Done
	case q.Type == wire.TypeAXFR && q.Transport == server.UDP:
		r.SetRCode(wire.RCodeRefused) // RFC 5936 4.2: not defined over UDP
		return server.Done
	}
	return server.Wait
}

// AwaitAnswer sends the zone. The time that a query usually may wait does not bound it: a zone may be large, and the connection ends by itself
// when the client takes nothing any more.
func (t *Transfer) AwaitAnswer(_ context.Context, r *server.Reply, q *server.Query) server.Verdict {
	_, z, _ := t.find(q)
	for _, s := range t.sources {
		all, serial, ok := s.TransferZone(z)
		if !ok {
			continue
		}
		r.SetAA()
		if q.Type == wire.TypeIXFR && (q.Transport == server.UDP || current(q, serial)) {
			for rr := range all {
				r.Record(&rr)
				break // the SOA record: over UDP the client asks again over TCP (RFC 1995 2)
			}
			return server.Done
		}
		return send(r, all)
	}
	return server.Pass
}

// send writes all records with the SOA record at both ends (RFC 5936 2.2).
func send(r *server.Reply, all iter.Seq[server.Record]) server.Verdict {
	var soa server.Record
	for rr := range all {
		if soa.Owner == nil {
			soa = rr
		}
		if !put(r, &rr) {
			return r.Fail(errCut)
		}
	}
	if !put(r, &soa) {
		return r.Fail(errCut)
	}
	return server.Done
}

// put writes a record, in the next message if this one is full.
func put(r *server.Reply, rr *server.Record) bool {
	if r.Len() > fill {
		r.Send()
	}
	before := r.Mark()
	if r.Record(rr) {
		return true
	}
	r.Rewind(before) // the message is not truncated: it goes on in the next
	return r.Send() && r.Record(rr)
}

// current says whether the serial that the client of an IXFR has is the zone's, or a newer one (RFC 1982).
func current(q *server.Query, serial uint32) bool {
	h, err := wire.ParseHeader(q.Raw())
	if err != nil || h.NSCount != 1 {
		return false
	}
	off, err := wire.SkipQuestion(q.Raw(), int(h.QDCount))
	if err != nil {
		return false
	}
	rr, err := wire.ReadRR(q.Raw(), off)
	if err != nil || rr.Type != wire.TypeSOA || rr.End-rr.Data < 20 {
		return false
	}
	has := binary.BigEndian.Uint32(q.Raw()[rr.End-20:])
	return int32(has-serial) >= 0
}
