//go:build !linux

package cluster

// Traces are those of clusters, which are Linux's.
func Traces() []string { return nil }

// NewTraces are those that were not there before.
func NewTraces([]string) []string { return nil }
