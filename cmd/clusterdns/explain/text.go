package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// JSON writes the explanation for programs.
func (x *Explanation) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(x)
}

// colourful says whether w is a terminal that colours may be sent to (https://no-color.org).
func colourful(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// The colours, as SGR parameters (ECMA-48 8.3.117).
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// page is text being written.
type page struct {
	b      strings.Builder
	colour bool
}

// line writes a line; what comes from elsewhere has no control characters then.
func (p *page) line(format string, args ...any) {
	p.b.WriteString(plain(fmt.Sprintf(format, args...)))
	p.b.WriteByte('\n')
}

// plain puts question marks for characters that a terminal might obey.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

// paint puts colour around text that is one line already.
func (p *page) paint(colour, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Text writes the explanation for people.
func (x *Explanation) Text(w io.Writer, colour bool) error {
	p := &page{colour: colour}
	client := "namespace " + x.From
	if x.Pod != "" {
		client = "Pod " + x.Pod + " of " + client
	}
	p.line("%s, asked from %s with ndots:%d", x.Name, client, x.NDots)
	p.line("")
	for i := range x.Candidates {
		p.candidate(i+1, &x.Candidates[i])
	}
	if x.Service != nil {
		p.service(x.Service)
	}
	p.verdict(x)
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *page) candidate(n int, c *Candidate) {
	p.line("%2d  %s", n, c.Name)
	for i := 0; i < len(c.Answers); {
		a := &c.Answers[i]
		types := a.Type
		for i++; i < len(c.Answers) && a.same(&c.Answers[i]); i++ {
			types += ", " + c.Answers[i].Type
		}
		by := ""
		if a.By != "" {
			by = "  [" + a.By + "]"
		}
		lines := a.lines()
		for len(lines) > 1 {
			p.line("    %-7s  %s", types, lines[0])
			types, lines = "", lines[1:]
		}
		p.line("    %-7s  %s%s", types, lines[0], by)
		for _, r := range a.Reasons {
			p.line("             (%s)", r)
		}
	}
}

// same says whether two answers say the same of different types.
func (a *Answer) same(b *Answer) bool {
	return a.RCode == b.RCode && a.By == b.By && a.Error == b.Error && a.NotAsked == b.NotAsked && slices.Equal(a.Records, b.Records) && slices.Equal(a.Reasons, b.Reasons)
}

// The bounds of what is shown of an answer to people: a headless Service has as many records as endpoints.
const (
	maxRecords = 20
	lineWidth  = 100 // columns of records, beside what stands before them
)

// lines is the answer in lines that are not much longer than a terminal is wide: at least one.
func (a *Answer) lines() (lines []string) {
	if text := a.text(); len(text) <= lineWidth || len(a.Records) < 2 {
		return []string{text}
	}
	line := ""
	for _, r := range a.Records[:min(len(a.Records), maxRecords)] {
		if line != "" && len(line)+len(", ")+len(r) > lineWidth {
			lines, line = append(lines, line+","), ""
		}
		if line != "" {
			line += ", "
		}
		line += r
	}
	rest := *a
	rest.Records = []string{line}
	if n := len(a.Records) - maxRecords; n > 0 {
		rest.Records = append(rest.Records, fmt.Sprintf("and %d more", n))
	}
	return append(lines, rest.text())
}

// text is the answer in a line.
func (a *Answer) text() string {
	text := strings.Join(a.Records, ", ")
	switch {
	case a.Error != "":
		return a.Error
	case a.NotAsked && text != "":
		return text + "; " + notAsked
	case a.NotAsked:
		return notAsked
	case a.RCode != "NOERROR" && text != "":
		return text + "; " + a.RCode
	case a.RCode != "NOERROR":
		return a.RCode
	case text == "":
		return "no records of this type"
	}
	return text
}

func (p *page) service(s *Service) {
	p.line("")
	p.line("Service %s/%s: %s", s.Namespace, s.Name, serviceText(s))
	for i := range s.Ports {
		t := &s.Ports[i]
		text := "port " + portText(t)
		if t.Target != "" {
			text += ", targetPort " + t.Target
		}
		for j, l := range t.LeadsTo {
			if j == 0 {
				text += ", leads to "
			} else {
				text += " and "
			}
			text += fmt.Sprint(l)
		}
		p.line("  %s", text)
		if t.Problem != "" {
			p.b.WriteString("    " + p.paint(red, plain(t.Problem)) + "\n")
		}
	}
	for i := range s.Slices {
		p.slice(&s.Slices[i])
	}
}

func serviceText(s *Service) string {
	if s.ExternalName != "" {
		return s.Type + " to " + s.ExternalName
	}
	out := []string{strings.Join(append([]string{s.Type}, s.Addresses...), " "), "selector " + s.Selector}
	if s.PublishNotReady {
		out = append(out, "publishNotReadyAddresses")
	}
	return strings.Join(out, ", ")
}

// maxEndpoints bounds how many endpoints of a slice are shown to people; slices have up to 1000.
const maxEndpoints = 20

func (p *page) slice(s *Slice) {
	name := "EndpointSlice"
	if s.Name != "" {
		name += " " + s.Name
	}
	if len(s.Endpoints) == 0 {
		p.line("%s: no endpoints", name)
		return
	}
	p.line("%s: %s", name, plural(len(s.Endpoints), "endpoint"))
	var rows strings.Builder
	tab := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	for i := range s.Endpoints[:min(len(s.Endpoints), maxEndpoints)] {
		e := &s.Endpoints[i]
		who := e.Hostname
		if e.Pod != "" && e.Pod != who {
			who = strings.TrimPrefix(who+" ", " ") + "Pod " + e.Pod
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", plain(e.Address), plain(who), plain(e.Node), plain(e.Why))
	}
	_ = tab.Flush() // into memory
	for row := range strings.Lines(rows.String()) {
		p.line("  %s", strings.TrimRight(row, "\n "))
	}
	if n := len(s.Endpoints) - maxEndpoints; n > 0 {
		p.line("  and %d more", n)
	}
}

func (p *page) verdict(x *Explanation) {
	colour := map[Kind]string{Works: green, Unknown: yellow, Absent: red, Broken: red}[x.Verdict.Kind]
	p.line("")
	p.b.WriteString(p.paint(bold+";"+colour, strings.ToUpper(string(x.Verdict.Kind))) + ": " + plain(x.Verdict.Summary) + "\n")
	for _, n := range x.Verdict.Notes {
		p.line("  - %s", n)
	}
	if len(x.Next) > 0 {
		p.line("Next:")
		for _, n := range x.Next {
			p.line("  %s", n)
		}
	}
}
