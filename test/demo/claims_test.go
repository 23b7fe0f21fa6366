package demo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// claim is a dig command out of documentation with the output that it promises.
type claim struct {
	where string // file:line
	name  string
	typ   uint16
	short bool // +short: only data, no owner and TTL
	tcp   bool
	want  []string // the records promised, one a line
	rcode string   // the status promised, "" if the output does not show it
	flags string
}

var (
	command = regexp.MustCompile(`^(?:# *)?\s*\$ dig (.*)$`)
	status  = regexp.MustCompile(`status: ([A-Z]+)`)
	flags   = regexp.MustCompile(`;; flags: ([a-z ]+);`)
)

// readClaims finds the dig commands in a file: in comments of YAML, where the output is indented like the command, and in
// Markdown's code blocks, where it ends with the block or the next command.
func readClaims(t *testing.T, file string) []claim {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []claim
	open := false // whether the lines that come are output of the last command
	for i, line := range strings.Split(string(b), "\n") {
		if m := command.FindStringSubmatch(line); m != nil {
			c := parseCommand(t, m[1])
			c.where = fmt.Sprintf("%s:%d", filepath.Base(file), i+1)
			out, open = append(out, c), true
			continue
		}
		text, comment := strings.CutPrefix(line, "#")
		if filepath.Ext(file) == ".yaml" && (!comment || !strings.HasPrefix(text, "   ")) || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "$ ") {
			open = false
		}
		if text = strings.TrimSpace(text); open && text != "" {
			out[len(out)-1].output(text)
		}
	}
	return out
}

// parseCommand reads the arguments of dig that documentation uses.
func parseCommand(t *testing.T, args string) claim {
	t.Helper()
	c := claim{typ: dns.TypeA}
	words := strings.Fields(args)
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "+short":
			c.short = true
		case w == "+tcp":
			c.tcp = true
		case w == "-p":
			i++
		case w == "-x":
			i++
			name, err := dns.ReverseAddr(words[i])
			if err != nil {
				t.Fatalf("dig %s: %v", args, err)
			}
			c.name, c.typ = name, dns.TypePTR
		case strings.HasPrefix(w, "@"), strings.HasPrefix(w, "+no"), w == "+comments", w == "+answer":
		case dns.StringToType[w] != 0:
			c.typ = dns.StringToType[w]
		case c.name == "":
			c.name = dns.Fqdn(w)
		default:
			t.Fatalf("dig %s: the test does not know %q", args, w)
		}
	}
	return c
}

// output takes one line of what dig printed.
func (c *claim) output(line string) {
	if m := status.FindStringSubmatch(line); m != nil {
		c.rcode = m[1]
		return
	}
	if m := flags.FindStringSubmatch(line); m != nil {
		c.flags = m[1]
	}
	if !strings.HasPrefix(line, ";") {
		c.want = append(c.want, strings.Join(strings.Fields(line), " "))
	}
}

// check asks addr and compares.
func (c *claim) check(t *testing.T, addr string) {
	t.Helper()
	r := ask(t, addr, c.name, c.typ, c.tcp)
	var got []string
	for _, rr := range r.Answer {
		text := rr.String()
		if c.short {
			text = strings.TrimPrefix(text, rr.Header().String())
		}
		got = append(got, strings.Join(strings.Fields(text), " "))
	}
	want := slices.Clone(c.want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %s %s\n got %q\nwant %q", c.where, c.name, dns.TypeToString[c.typ], got, want)
	}
	if rcode := dns.RcodeToString[r.Rcode]; c.rcode != "" && rcode != c.rcode {
		t.Errorf("%s: %s %s: status %s, want %s", c.where, c.name, dns.TypeToString[c.typ], rcode, c.rcode)
	}
	if got := flagNames(r); c.flags != "" && got != c.flags {
		t.Errorf("%s: %s: flags %s, want %s", c.where, c.name, got, c.flags)
	}
}

// flagNames are the header flags in dig's order and words.
func flagNames(m *dns.Msg) string {
	var out []string
	for _, f := range []struct {
		on   bool
		name string
	}{{m.Response, "qr"}, {m.Authoritative, "aa"}, {m.Truncated, "tc"}, {m.RecursionDesired, "rd"}, {m.RecursionAvailable, "ra"}} {
		if f.on {
			out = append(out, f.name)
		}
	}
	return strings.Join(out, " ")
}
