package server

import (
	"math/rand/v2"
	"slices"
)

// Turn is one go of a goroutine that finds several messages at once, or one. What they make it send is collected, and leaves together at the end: a system
// call for many datagrams costs far less than one for each. Between turns nothing is held back. It is for one goroutine.
type Turn struct {
	seed    uint32
	ends    []Ender
	replies []*slab // sealed
	out     sender
}

// Ender has something to do at the end of a turn. It may make the turn longer by it.
type Ender interface{ EndTurn(t *Turn) }

// NewTurn makes a turn, which is used again after each End.
func NewTurn() *Turn { return &Turn{seed: rand.Uint32()} }

// Seed is a random number that is the same until End.
func (t *Turn) Seed() uint32 { return t.seed }

// AtEnd has e called at the end, once however often it is given. It is for handlers that collect something themselves.
func (t *Turn) AtEnd(e Ender) {
	if !slices.Contains(t.ends, e) { // hardly ever more than one
		t.ends = append(t.ends, e)
	}
}

// End sends what was collected.
func (t *Turn) End() {
	if len(t.ends) == 0 && len(t.replies) == 0 {
		return
	}
	for n := len(t.ends); n > 0; n = len(t.ends) {
		e := t.ends[n-1]
		t.ends[n-1] = nil
		t.ends = t.ends[:n-1]
		e.EndTurn(t)
	}
	t.out.send(t.replies)
	clear(t.replies)
	t.replies = t.replies[:0]
	t.seed = rand.Uint32()
}
