package deploy_test

import (
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// confined is a command in a root directory, as a user that is not root.
func confined(t *testing.T, root, uid, gid string, args ...string) *exec.Cmd {
	t.Helper()
	u, err := strconv.ParseUint(uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	g, err := strconv.ParseUint(gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/clusterdns", args...)
	c.Dir, c.Env = "/", []string{}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(u), Gid: uint32(g)}}
	return c
}
