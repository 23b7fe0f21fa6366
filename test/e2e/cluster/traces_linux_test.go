package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// TestTracesAreSeen: a process of a sandbox that outlives it is found, and not one that was there before.
func TestTracesAreSeen(t *testing.T) {
	cmd := exec.Command("cat") // until its input ends
	cmd.Env = append(os.Environ(), stageVariable+"=left behind")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	before := Traces()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("process /proc/%d/environ", cmd.Process.Pid)
	if left := NewTraces(before); !slices.Contains(left, want) {
		t.Errorf("%q has no %s", left, want)
	}
	in.Close()
	_ = cmd.Wait()
	if left := NewTraces(before); slices.Contains(left, want) {
		t.Errorf("%q has a process that has ended", left)
	}
}
