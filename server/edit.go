package server

import (
	"bytes"

	"github.com/clusterdns/clusterdns/server/wire"
)

// Record is one resource record outside a message. Owner is in uncompressed wire form, and so are the names in Data.
type Record struct {
	Section Section
	Owner   []byte
	Type    wire.Type
	Class   wire.Class
	TTL     uint32
	Data    []byte
}

// Record appends rr as it is. Names in the RDATA of the types of RFC 1035 are compressed, which every reader takes (RFC 3597 4). It
// says whether it fitted, as End does.
func (r *Reply) Record(rr *Record) bool {
	r.open(rr.Section)
	r.PutName(rr.Owner)
	r.fixed(rr.Type, rr.Class, rr.TTL)
	r.putData(rr.Type, rr.Data)
	if len(r.buf)-r.data > 0xFFFF {
		r.over = true
	}
	return r.End()
}

// putData appends RDATA in uncompressed form. What is not well-formed is taken as it is.
func (r *Reply) putData(t wire.Type, data []byte) {
	skip, names := 0, 1
	switch t {
	case wire.TypeNS, wire.TypeCNAME, wire.TypePTR:
	case wire.TypeMX:
		skip = 2
	case wire.TypeSOA:
		names = 2
	default:
		names = 0
	}
	if names > 0 && len(data) > skip {
		r.buf = append(r.buf, data[:skip]...)
		data = data[skip:]
		for range names {
			end, err := wire.SkipName(data, 0)
			if err != nil || data[end-1] != 0 {
				break
			}
			r.PutName(data[:end])
			data = data[end:]
		}
	}
	r.buf = append(r.buf, data...)
}

// Records takes all records of a whole message apart, OPT left out; they are copies. It allocates. A message that does not parse is an error.
func Records(msg []byte) ([]Record, error) {
	h, err := wire.ParseHeader(msg)
	if err != nil {
		return nil, err
	}
	off, err := wire.SkipQuestion(msg, int(h.QDCount))
	if err != nil {
		return nil, err
	}
	var out []Record
	for s, count := range [...]uint16{h.ANCount, h.NSCount, h.ARCount} {
		for range count {
			at, err := wire.ReadRR(msg, off)
			if err != nil {
				return nil, err
			}
			off = at.End
			if at.Type == wire.TypeOPT {
				continue
			}
			rr := Record{Section: Section(s), Type: at.Type, Class: at.Class, TTL: at.TTL}
			if rr.Owner, _, err = wire.AppendName(nil, msg, at.Owner); err != nil {
				return nil, err
			}
			if rr.Data, err = wire.AppendRData(nil, msg, at); err != nil {
				return nil, err
			}
			out = append(out, rr)
		}
	}
	return out, nil
}

// Edit rebuilds the record sections: f gets all records in order and gives those that shall stand instead, in the order of their
// sections; it may change the ones it got. Flags and rcode stay as they are. It is meant for finishers, and it allocates.
// Records that cannot be taken apart, because a message spliced in holds a bad name, are an error and stay as they are.
func (r *Reply) Edit(f func([]Record) []Record) error {
	old, counts := bytes.Clone(r.buf), r.counts
	wire.PutHeader(old, wire.Header{QDCount: 1, ANCount: counts[Answer], NSCount: counts[Authority], ARCount: counts[Additional]})
	records, err := Records(old)
	if err != nil {
		return err
	}
	records = f(records)
	r.cut(r.q.qend)
	r.sec, r.counts = Answer, [3]uint16{}
	for i := range records {
		r.Record(&records[i])
	}
	return nil
}

// AnswerOnly takes the records of Authority and Additional away. It does not allocate.
func (r *Reply) AnswerOnly() {
	if r.counts[Authority] == 0 && r.counts[Additional] == 0 {
		return
	}
	off := r.q.qend
	for range r.counts[Answer] {
		rr, err := wire.ReadRR(r.buf, off)
		if err != nil {
			return
		}
		off = rr.End
	}
	r.cut(off)
	r.sec, r.counts = Answer, [3]uint16{r.counts[Answer]}
}
