// Package cluster runs a real Kubernetes cluster of one node on this machine, without a container engine: etcd, API server, controller
// manager, scheduler, kubelet, containerd, runc, kube-proxy and bridge networking, in namespaces of its own.
//
// Everything lives in one sandbox: new mount, process, network and IPC namespaces. When the sandbox's first process ends, the kernel
// ends all others and takes away mounts, interfaces and rules, so a run that crashes leaves no more behind than one that ends well. Nothing
// outside can be reached from inside, and two runs do not see each other.
package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// stageVariable says which of the sandbox's processes a program is: nothing for the outermost one.
const stageVariable = "CLUSTERDNS_E2E_STAGE"

const (
	stageInit = "init" // the first process of the sandbox
	stageWork = "work" // what runs inside
)

// Inside reports whether this process is the one that works in the sandbox.
func Inside() bool { return os.Getenv(stageVariable) == stageWork }

// Enter runs the program again, with the same arguments, inside a new sandbox, and gives its exit code. The sandbox's own
// first process ends up here too, and does not return.
func Enter() (int, error) {
	if os.Getenv(stageVariable) == stageInit {
		os.Exit(initProcess())
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = nil, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), stageVariable+"="+stageInit)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL, // and with it all that is inside
	}
	if err := c.Start(); err != nil {
		return 1, fmt.Errorf("making namespaces: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-stop
		_ = c.Process.Kill()
	}()
	err = c.Wait()
	if e := removeControlGroups(); e != nil && err == nil {
		err = e
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// ownSession keeps the signals of a terminal from a command: whoever interrupts a test wants the test to clean up.
func ownSession(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// initProcess prepares the sandbox, runs the work in it, and reaps the processes whose parents have ended.
func initProcess() int {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Env = append(os.Environ(), stageVariable+"="+stageWork)
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 1
		case pid == c.Process.Pid && status.Exited():
			return status.ExitStatus()
		case pid == c.Process.Pid:
			return 1
		}
	}
}

// prepare cuts the sandbox's mounts off from the machine's, shows it its own processes, and makes the control groups.
func prepare() error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"", "/", "", syscall.MS_REC | syscall.MS_SHARED}, // the kubelet's volumes have to reach the pods
		{"proc", "/proc", "proc", 0},
		// Names of network namespaces and sockets of shims are kept there; they must not stay behind.
		{"tmpfs", "/run", "tmpfs", 0},
	} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	return makeControlGroups()
}

// hierarchies are the control group trees of the machine: one for each controller in version 1, one in version 2.
func hierarchies() []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{"/sys/fs/cgroup"}
	}
	out, _ := filepath.Glob("/sys/fs/cgroup/*")
	return out
}

// cpuWeights are those of all pods together, by version of control groups. By default they are that of one process of the machine, and where it
// compiles with thirty others every pod starves: the tests are about a node, whose pods share it among themselves.
var cpuWeights = map[string]string{"cpu.shares": "32768", "cpu.weight": "3200"}

func makeControlGroups() error {
	for _, h := range hierarchies() {
		dir := filepath.Join(h, controlGroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new group of version 1, and then nothing may run there
			if b, err := os.ReadFile(filepath.Join(h, f)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, f), b, 0o644); err != nil {
					return err
				}
			}
		}
		for name, weight := range cpuWeights {
			if file := filepath.Join(dir, name); exists(file) {
				if err := os.WriteFile(file, []byte(weight), 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// removeControlGroups removes the groups from the inside out; they are empty once the sandbox has ended.
func removeControlGroups() error {
	var errs []error
	for _, h := range hierarchies() {
		errs = append(errs, removeGroup(filepath.Join(h, controlGroup)))
	}
	return errors.Join(errs...)
}

func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	// A group that a dying process has just left answers EBUSY for a moment.
	return retry(removePatience, func() error { return syscall.Rmdir(dir) })
}
