package cluster

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What a cluster consists of, by the names that its parts give themselves. Only such are looked at: others may be at work on the machine.
var (
	ownLink  = regexp.MustCompile(`^(node|wire|cni0|veth[0-9a-f]{8}|kube-.*)$`)
	ownRule  = regexp.MustCompile(`KUBE-|CNI-|cni0`)
	ownMount = regexp.MustCompile(`/run/cluster|kubelet|containerd|cni-|` + controlGroup)
)

// Traces are what can be seen of clusters outside of their sandboxes: processes, mounts, namespaces with a name, interfaces, addresses,
// rules and control groups.
func Traces() (out []string) {
	for _, look := range []func() []string{processTraces, mountTraces, networkTraces, ruleTraces} {
		out = append(out, look()...)
	}
	for _, h := range hierarchies() {
		if dir := filepath.Join(h, controlGroup); exists(dir) {
			out = append(out, "control group "+dir)
		}
	}
	return out
}

func processTraces() (out []string) {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environments {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(stageVariable+"=")) {
			out = append(out, "process "+file)
		}
	}
	return out
}

func mountTraces() (out []string) {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range bytes.Lines(mounts) {
		if ownMount.Match(line) {
			out = append(out, "mount "+string(line))
		}
	}
	return out
}

func networkTraces() (out []string) {
	namespaces, _ := filepath.Glob("/run/netns/cni-*")
	for _, n := range namespaces {
		out = append(out, "namespace "+n)
	}
	links, _ := net.Interfaces()
	for _, l := range links {
		if ownLink.MatchString(l.Name) {
			out = append(out, "interface "+l.Name)
		}
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if strings.HasPrefix(a.String(), "169.254.20.") {
			out = append(out, "address "+a.String())
		}
	}
	return out
}

func ruleTraces() (out []string) {
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		rules, _ := exec.Command(save).Output() // where there is none, there are no rules
		for line := range bytes.Lines(rules) {
			if ownRule.Match(line) {
				out = append(out, "rule "+string(line))
			}
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// NewTraces are those that were not there before. What is going away is waited for.
func NewTraces(before []string) (left []string) {
	_ = retry(removePatience, func() error {
		left = slices.DeleteFunc(Traces(), func(t string) bool { return slices.Contains(before, t) })
		if len(left) > 0 {
			return os.ErrExist
		}
		return nil
	})
	return left
}
