//go:build !linux

package node

import (
	"errors"
	"net/netip"
)

var errLinux = errors.New("this is Linux's")

func add(netip.Addr) error { return errLinux }

func remove(netip.Addr) error { return errLinux }
