package wire

import "encoding/binary"

// RR is where one resource record stands in a message: offsets only, nothing is copied.
type RR struct {
	Owner int // offset of the owner name, which may be compressed
	Type  Type
	Class Class
	TTL   uint32
	TTLAt int // offset of the TTL's four bytes
	Data  int // offset of the RDATA
	End   int // offset behind the record
}

// ReadRR reads the fixed parts of the record at msg[off:]. The RDATA is within msg; what is in it is not looked at.
func ReadRR(msg []byte, off int) (RR, error) {
	p, err := SkipName(msg, off)
	if err != nil {
		return RR{}, err
	}
	if p+10 > len(msg) {
		return RR{}, ErrShort
	}
	rr := RR{
		Owner: off,
		Type:  Type(binary.BigEndian.Uint16(msg[p:])),
		Class: Class(binary.BigEndian.Uint16(msg[p+2:])),
		TTL:   binary.BigEndian.Uint32(msg[p+4:]),
		TTLAt: p + 4,
		Data:  p + 10,
	}
	rr.End = rr.Data + int(binary.BigEndian.Uint16(msg[p+8:]))
	if rr.End > len(msg) {
		return RR{}, ErrShort
	}
	return rr, nil
}

// SkipName gives the offset behind the name at msg[off:], compressed or not, without following its pointer.
func SkipName(msg []byte, off int) (int, error) {
	for start := off; ; {
		if off >= len(msg) {
			return 0, ErrShort
		}
		l := int(msg[off])
		switch {
		case l == 0:
			return off + 1, nil
		case l >= 192:
			if off+2 > len(msg) {
				return 0, ErrShort
			}
			return off + 2, nil
		case l >= 64:
			return 0, ErrName
		}
		off += 1 + l
		if off-start >= MaxName {
			return 0, ErrName
		}
	}
}

// AppendName appends the uncompressed wire form of the name at msg[off:] to dst, letter case kept, and gives the offset behind
// it in msg. Pointers must lead backwards, so it always ends. It does not allocate when dst has room for MaxName bytes.
func AppendName(dst, msg []byte, off int) (out []byte, end int, err error) {
	base := len(dst)
	low := off // pointers must lead before this
	for {
		if off >= len(msg) {
			return dst, 0, ErrShort
		}
		l := int(msg[off])
		switch {
		case l >= 192:
			if off+2 > len(msg) {
				return dst, 0, ErrShort
			}
			to := l&0x3F<<8 | int(msg[off+1])
			if end == 0 {
				end = off + 2
			}
			if to >= low {
				return dst, 0, ErrPointer
			}
			off, low = to, to
			continue
		case l >= 64:
			return dst, 0, ErrName
		}
		if off+1+l > len(msg) {
			return dst, 0, ErrShort
		}
		if len(dst)-base+1+l > MaxName {
			return dst, 0, ErrName
		}
		dst = append(dst, msg[off:off+1+l]...)
		off += 1 + l
		if l == 0 {
			if end == 0 {
				end = off
			}
			return dst, end, nil
		}
	}
}

// SkipQuestion gives the offset behind the question section of a message with qd questions.
func SkipQuestion(msg []byte, qd int) (int, error) {
	off := HeaderLen
	for range qd {
		p, err := SkipName(msg, off)
		if err != nil {
			return 0, err
		}
		if off = p + 4; off > len(msg) {
			return 0, ErrShort
		}
	}
	return off, nil
}

// rdataNames says which parts of a type's RDATA are names that may be compressed (RFC 3597 4, RFC 1035 3.3): skip bytes, then that
// many names. Only these types are ever rewritten when a record moves to another message.
func rdataNames(t Type) (skip, names int) {
	switch t {
	case TypeNS, TypeCNAME, TypePTR, TypeMD, TypeMF, TypeMB, TypeMG, TypeMR, TypeDNAME, TypeNXT:
		return 0, 1
	case TypeSOA, TypeMINFO, TypeRP:
		return 0, 2
	case TypeMX, TypeAFSDB, TypeRT, TypeKX:
		return 2, 1
	case TypeSRV:
		return 6, 1
	case TypePX:
		return 2, 2
	case TypeSIG:
		return 18, 1
	}
	return 0, 0
}

// AppendRData appends the RDATA of rr with its names uncompressed to dst.
func AppendRData(dst, msg []byte, rr RR) ([]byte, error) {
	skip, names := rdataNames(rr.Type)
	off := rr.Data
	if names > 0 {
		if off+skip > rr.End {
			return dst, ErrShort
		}
		dst = append(dst, msg[off:off+skip]...)
		off += skip
		for range names {
			var err error
			if dst, off, err = AppendName(dst, msg, off); err != nil {
				return dst, err
			}
			if off > rr.End {
				return dst, ErrShort
			}
		}
	} else if rr.Type == TypeNAPTR {
		return appendNAPTR(dst, msg, rr)
	}
	return append(dst, msg[off:rr.End]...), nil
}

// appendNAPTR is AppendRData for the one type whose name stands behind parts of varying length (RFC 3403 4.1).
func appendNAPTR(dst, msg []byte, rr RR) ([]byte, error) {
	off := rr.Data + 4
	for range 3 {
		if off >= rr.End {
			return dst, ErrShort
		}
		off += 1 + int(msg[off])
	}
	if off >= rr.End {
		return dst, ErrShort
	}
	dst = append(dst, msg[rr.Data:off]...)
	dst, end, err := AppendName(dst, msg, off)
	if err != nil {
		return dst, err
	}
	if end > rr.End {
		return dst, ErrShort
	}
	return append(dst, msg[end:rr.End]...), nil
}

// EDNS is the OPT record of a message (RFC 6891 6.1).
type EDNS struct {
	Present bool
	UDPSize uint16 // as sent; below 512 it means 512
	Ext     uint8  // the upper eight bits of the response code
	Version uint8
	DO      bool
	Options []byte // the raw options, checked to be well-formed; they alias the message
}

// parseOPT reads rr, which is of type OPT.
func parseOPT(msg []byte, rr RR) (EDNS, error) {
	if msg[rr.Owner] != 0 {
		return EDNS{}, ErrOPT
	}
	e := EDNS{
		Present: true,
		UDPSize: uint16(rr.Class),
		Ext:     uint8(rr.TTL >> 24),
		Version: uint8(rr.TTL >> 16),
		DO:      rr.TTL>>15&1 == 1,
		Options: msg[rr.Data:rr.End],
	}
	for o := e.Options; len(o) > 0; {
		if len(o) < 4 {
			return EDNS{}, ErrOPT
		}
		l := 4 + int(binary.BigEndian.Uint16(o[2:]))
		if l > len(o) {
			return EDNS{}, ErrOPT
		}
		o = o[l:]
	}
	return e, nil
}

// Option gives the data of the first EDNS option with that code (RFC 6891 6.1.2).
func (e *EDNS) Option(code uint16) (data []byte, ok bool) {
	for o := e.Options; len(o) >= 4; {
		l := 4 + int(binary.BigEndian.Uint16(o[2:]))
		if binary.BigEndian.Uint16(o) == code {
			return o[4:l], true
		}
		o = o[l:]
	}
	return nil, false
}

// FindOPT walks the records of a message from off, the end of its question, and reads its OPT record. It checks that exactly the
// records that h counts fill the message, that there is at most one OPT, and that it is in the additional section.
func FindOPT(msg []byte, h Header, off int) (EDNS, error) {
	var e EDNS
	first := int(h.ANCount) + int(h.NSCount)
	for i := range first + int(h.ARCount) {
		rr, err := ReadRR(msg, off)
		if err != nil {
			return EDNS{}, err
		}
		if rr.Type == TypeOPT {
			if e.Present || i < first {
				return EDNS{}, ErrOPT
			}
			if e, err = parseOPT(msg, rr); err != nil {
				return EDNS{}, err
			}
		}
		off = rr.End
	}
	if off != len(msg) {
		return EDNS{}, ErrCounts
	}
	return e, nil
}
