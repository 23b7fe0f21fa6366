package server

import "hash/maphash"

// compressor finds names that already stand in a message, to the letter. Its entries are in the order of their offsets, so
// forgetting those behind a point is popping; each bucket's chain begins with its newest entry.
type compressor struct {
	heads   [64]uint16 // index of the newest entry of each bucket, plus 1
	entries []nameAt
}

type nameAt struct {
	hash uint64
	off  uint16
	next uint16 // index of the entry before it in its bucket, plus 1
}

// seed makes the compression hashes unpredictable. It is the same for the life of the process.
var seed = maphash.MakeSeed()

// maxNames bounds the entries of one message; names over it are written in full.
const maxNames = 4096

// rewind forgets all names at offset n and behind.
func (c *compressor) rewind(n int) {
	for i := len(c.entries) - 1; i >= 0 && int(c.entries[i].off) >= n; i-- {
		e := &c.entries[i]
		c.heads[e.hash&63] = e.next
		c.entries = c.entries[:i]
	}
}

// seed enters the name of the question, when it is first needed: most replies only point at the whole of it.
func (c *compressor) seed(msg []byte, qend int) {
	if len(c.entries) > 0 || qend == 0 {
		return
	}
	name := msg[QuestionRef : qend-4]
	for i := 0; name[i] != 0; i += int(name[i]) + 1 {
		c.add(maphash.Bytes(seed, name[i:]), int(QuestionRef)+i)
	}
}

func (c *compressor) add(hash uint64, off int) {
	if off > maxPointer || len(c.entries) == maxNames {
		return
	}
	b := &c.heads[hash&63]
	c.entries = append(c.entries, nameAt{hash, uint16(off), *b})
	*b = uint16(len(c.entries))
}

// put appends name, in uncompressed wire form, to msg: its longest end that already stands there as a pointer.
func (c *compressor) put(msg, name []byte) []byte {
	for i := 0; i < len(name) && name[i] != 0; {
		h := maphash.Bytes(seed, name[i:])
		for e := c.heads[h&63]; e != 0; e = c.entries[e-1].next {
			if at := &c.entries[e-1]; at.hash == h && sameName(msg, int(at.off), name[i:]) {
				return append(msg, 0xC0|byte(at.off>>8), byte(at.off))
			}
		}
		c.add(h, len(msg))
		end := i + 1 + int(name[i])
		msg = append(msg, name[i:end]...)
		i = end
	}
	return append(msg, 0)
}

// sameName compares the name at msg[off:], which this package wrote, with one in uncompressed wire form, to the letter.
func sameName(msg []byte, off int, name []byte) bool {
	for {
		if msg[off] >= 0xC0 {
			off = int(msg[off]&0x3F)<<8 | int(msg[off+1])
			continue
		}
		l := int(msg[off]) + 1
		if len(name) < l || string(msg[off:off+l]) != string(name[:l]) {
			return false
		}
		if l == 1 {
			return true
		}
		off += l
		name = name[l:]
	}
}
