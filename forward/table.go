package forward

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// tableSize is how many questions one socket or connection can have in flight. It is a power of two; the id's lower bits are the
// place in the table.
const tableSize = 256

// tableFull is how many it takes before another socket is opened: a random id then still finds a free place in two tries on average.
const tableFull = tableSize / 2

// slot is a place for one question in flight. After its attempt has been given up the slot still knows the id until it is used again, so
// that a reply which comes late is not taken for a forged one.
type slot struct {
	at    *attempt // nil once given up
	id    uint16
	known bool
	sent  time.Time
}

// table finds the question of a reply by its id. Ids are random, so that a forger has to guess them (RFC 5452 4.3). Its owner locks it.
type table struct {
	slots  [tableSize]slot
	n      int // with an attempt
	random [128]byte
	left   int // unused bytes of random
}

// id is a random id. They are taken from the system's secure source, 64 at a time because each call of it may be a system call.
func (t *table) id() uint16 {
	if t.left == 0 {
		_, _ = rand.Read(t.random[:]) // never fails: crypto/rand ends the process rather
		t.left = len(t.random)
	}
	t.left -= 2
	return binary.BigEndian.Uint16(t.random[t.left:])
}

// add gives a an id, or says false if no free place was found.
func (t *table) add(a *attempt) (uint16, bool) {
	if t.n > tableSize*3/4 {
		return 0, false
	}
	for range 32 { // at three quarters full, all tries fail once in 10,000 times
		id := t.id()
		s := &t.slots[id%tableSize]
		if s.at != nil {
			continue
		}
		*s = slot{at: a, id: id, known: true, sent: a.sent}
		t.n++
		return id, true
	}
	return 0, false
}

// find gives the slot of an id, or nil if that is not known here.
func (t *table) find(id uint16) *slot {
	if s := &t.slots[id%tableSize]; s.known && s.id == id {
		return s
	}
	return nil
}

// remove takes a's attempt out if it is still there, and says whether it was.
func (t *table) remove(a *attempt) bool {
	s := &t.slots[a.id%tableSize]
	if s.at != a {
		return false
	}
	s.at = nil
	t.n--
	return true
}

// all takes all attempts out and gives them.
func (t *table) all() (out []*attempt) {
	for i := range t.slots {
		if a := t.slots[i].at; a != nil {
			t.slots[i] = slot{}
			out = append(out, a)
		}
	}
	t.n = 0
	return out
}
