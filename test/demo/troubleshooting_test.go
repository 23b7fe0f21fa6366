package demo_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// transcript is a command of a page with what it prints.
type transcript struct {
	first   int // line of the page that the output begins on
	lines   int
	command string
	output  string
}

// transcripts finds the commands that a page shows: "$ …" within code blocks, with the output up to the next or to the block's end.
func transcripts(page string) (out []transcript) {
	open := false
	for i, line := range strings.Split(page, "\n") {
		switch {
		case strings.HasPrefix(line, "$ "):
			out, open = append(out, transcript{first: i + 1, command: line[2:]}), true
		case strings.HasPrefix(line, "```"):
			open = false
		case open:
			t := &out[len(out)-1]
			t.output += line + "\n"
			t.lines++
		}
	}
	return out
}

// explained runs a command of clusterdns in the repository's root, as "…; echo $?" would.
func explained(t *testing.T, command string) string {
	t.Helper()
	bin, err := program.binary()
	if err != nil {
		t.Fatal(err)
	}
	args, status := strings.CutSuffix(strings.TrimPrefix(command, "clusterdns "), "; echo $?")
	cmd := exec.Command(bin, strings.Fields(args)...)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if status {
		return fmt.Sprintf("%s%d\n", out, cmd.ProcessState.ExitCode())
	}
	return string(out)
}

// ede is an Extended DNS Error as dig prints it.
var ede = regexp.MustCompile(`^; EDE: \d+ \(.*\): \((.*)\)$`)

// dug checks the output of a dig command against a server.
func dug(t *testing.T, addr, page string, tr *transcript) {
	t.Helper()
	command, _, _ := strings.Cut(strings.TrimPrefix(tr.command, "dig "), " | ")
	c := parseCommand(t, command)
	c.where = fmt.Sprintf("%s:%d", page, tr.first)
	var want []string
	for line := range strings.Lines(tr.output) {
		line = strings.TrimSpace(line)
		if m := ede.FindStringSubmatch(line); m != nil {
			want = append(want, m[1])
		} else if line != "" {
			c.output(line)
		}
	}
	c.check(t, addr)
	var got []string
	for _, o := range ask(t, addr, c.name, c.typ, false).IsEdns0().Option {
		if e, ok := o.(*dns.EDNS0_EDE); ok {
			got = append(got, e.ExtraText)
		}
	}
	if (strings.Contains(tr.command, "EDE") || len(want) > 0) && strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: reasons %q, want %q", c.where, got, want)
	}
}

// TestTroubleshooting: what the pages show is what the binary prints and the demo answers. With UPDATE_GOLDEN=1 in the environment what clusterdns prints is
// written there.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	r := start(t, upstream(t))
	for _, file := range []string{"../../docs/troubleshooting.md", "../../docs/explain.md", readme} {
		page := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		all := transcripts(string(text))
		if len(all) == 0 {
			t.Errorf("%s shows no command", page)
		}
		for i := len(all) - 1; i >= 0; i-- { // from the end, so that lines before stay where they are
			tr := &all[i]
			if strings.HasPrefix(tr.command, "dig ") {
				dug(t, r.addr, page, tr)
				continue
			}
			if strings.HasPrefix(tr.command, "clusterdns ndots ") {
				continue // it has times
			}
			got := explained(t, tr.command)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				out := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
				lines = append(lines[:tr.first:tr.first], append(out, lines[tr.first+tr.lines:]...)...)
			} else if got != tr.output {
				t.Errorf("%s:%d: %s\n%s\nthe page says\n%s", page, tr.first, tr.command, got, tr.output)
			}
		}
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestTranscripts shows how commands and outputs are found.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	got := transcripts("text\n```\n$ a b; echo $?\none\n\ntwo\n$ c\n```\nthree\n")
	if len(got) != 2 || got[0].output != "one\n\ntwo\n" || got[0].first != 3 || got[1].output != "" || got[1].command != "c" {
		t.Errorf("%+v", got)
	}
}
