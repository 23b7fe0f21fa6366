//go:build !race

package forward

import "testing"

// TestMissAllocates is the gate: what a forwarded query takes memory for is the socket in memory, the copy of the reply that Direct
// gives, and the query's goroutine. The exchange itself takes none.
func TestMissAllocates(t *testing.T) {
	ask := miss(t)
	ask()
	if n := testing.AllocsPerRun(2000, ask); n > 3 {
		t.Errorf("%v allocations for a forwarded query, want 3 at the most", n)
	}
}
