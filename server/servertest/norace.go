//go:build !race

package servertest

// RaceEnabled says whether the race detector is on, which makes everything allocate.
const RaceEnabled = false
