//go:build tools

// Package tools pins the runc that the end-to-end tests run; Debian's is too old for containerd 2.
package tools

import _ "github.com/opencontainers/runc"
