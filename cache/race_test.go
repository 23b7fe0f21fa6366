//go:build race

package cache_test

// raceDetector: memory is not what it is without.
const raceDetector = true
