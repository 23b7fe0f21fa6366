package server

import (
	"errors"
	"syscall"
)

// isTemporary says whether Accept may work again later.
func isTemporary(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}
