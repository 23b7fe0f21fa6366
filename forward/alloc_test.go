//go:build !race

package forward

import "testing"

// TestMissAllocates is the gate: what a forwarded query takes memory for is the socket in memory and the copy of the reply that Direct
// gives. The exchange itself takes none.
func TestMissAllocates(t *testing.T) {
	ask := miss(t)
	ask()
	if n := testing.AllocsPerRun(2000, ask); n > 2 {
		t.Errorf("%v allocations for a forwarded query, want 2 at the most", n)
	}
}
