package log

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// none stands for a value that there is not, as in other servers' logs.
const none = "-"

// entry is what a line is about.
type entry struct {
	r    *server.Reply
	q    *server.Query
	took time.Duration
}

// op appends one piece of a line: a value of e, or text itself.
type op struct {
	add  func(b []byte, e *entry, text string) []byte
	text string
}

// placeholders are those with a fixed name, without braces.
var placeholders = map[string]func(b []byte, e *entry, _ string) []byte{
	"type":     addType,
	"class":    addClass,
	"name":     addName,
	"proto":    addProto,
	"remote":   addRemote,
	"port":     addPort,
	"local":    addLocal,
	"size":     addSize,
	"rcode":    addRCode,
	"rsize":    addReplySize,
	"duration": addDuration,
	"when":     addWhen,
	">id":      addID,
	">opcode":  addOpcode,
	">do":      addDO,
	">bufsize": addBufSize,
	">rflags":  addFlags,
	"plugin":   addPlugin,
	"zone":     addZone,
	"view":     addView,
	"reason":   addReason,
}

// compile turns a format into what appends its lines. What is in braces and no placeholder stays as it is.
func compile(format string) []op {
	var ops []op
	literal := func(s string) {
		switch n := len(ops); {
		case s == "":
		case n > 0 && ops[n-1].text != "" && ops[n-1].text[0] != '/': // a literal, and no label
			ops[n-1].text += s
		default:
			ops = append(ops, op{addText, s})
		}
	}
	for format != "" {
		text, word, rest := cut(format)
		if o, ok := placeholder(word); ok {
			literal(text)
			ops = append(ops, o)
		} else {
			literal(format[:len(format)-len(rest)])
		}
		format = rest
	}
	return ops
}

// cut takes a format apart at its first pair of braces with none between them: what stands before, what is in them, and what stands
// behind. Without such a pair there is no word.
func cut(format string) (text, word, rest string) {
	end := strings.IndexByte(format, '}')
	if end < 0 {
		return format, "", ""
	}
	start := strings.LastIndexByte(format[:end], '{')
	if start < 0 {
		return format[:end+1], "", format[end+1:]
	}
	return format[:start], format[start+1 : end], format[end+1:]
}

// placeholder is what appends the value of a word in braces.
func placeholder(word string) (op, bool) {
	if len(word) > 1 && word[0] == '/' {
		return op{addLabel, word}, true
	}
	add, ok := placeholders[word]
	return op{add, ""}, ok
}

// unknown gives what looks like a placeholder in a format and is none.
func unknown(format string) []string {
	var out []string
	for format != "" {
		text, word, rest := cut(format)
		if _, ok := placeholder(word); !ok && len(text)+len(rest) < len(format) {
			out = append(out, "{"+word+"}")
		}
		format = rest
	}
	return out
}

func addText(b []byte, _ *entry, text string) []byte { return append(b, text...) }

// addLabel appends a value of metadata; text is the label behind a slash.
func addLabel(b []byte, e *entry, text string) []byte {
	v := e.label(text[1:])
	if v == "" {
		return append(b, none...)
	}
	return appendSafe(b, v)
}

func addType(b []byte, e *entry, _ string) []byte { return append(b, e.q.QuestionType().String()...) }

func addClass(b []byte, e *entry, _ string) []byte {
	return append(b, e.q.QuestionClass().String()...)
}

// addName appends the name of the question in lower case, with whatever is not plain escaped.
func addName(b []byte, e *entry, _ string) []byte {
	name := questionName(e.q)
	if len(name) <= 1 {
		return append(b, '.')
	}
	for len(name) > 1 {
		label := name[1 : 1+int(name[0])]
		for i, c := range label {
			if plain[c] == 0 {
				b = appendEscaped(b, label[i])
				continue
			}
			b = append(b, plain[c])
		}
		b = append(b, '.')
		name = name[1+len(label):]
	}
	return b
}

// plain are the bytes that stand for themselves in presentation form, in lower case; 0 is for all others.
var plain = func() (t [256]byte) {
	for i := range t {
		if b := wire.AppendPresentation(nil, []byte{1, byte(i), 0}); len(b) == 2 {
			wire.Fold(b)
			t[i] = b[0]
		}
	}
	return t
}()

// appendEscaped appends a byte that does not stand for itself.
func appendEscaped(b []byte, c byte) []byte {
	b = wire.AppendPresentation(b, []byte{1, c, 0})
	return b[:len(b)-1]
}

// addProto appends what carried the query: CoreDNS logs all that comes over TCP, TLS and HTTPS included, as tcp.
func addProto(b []byte, e *entry, _ string) []byte {
	if e.q.Transport == server.UDP {
		return append(b, "udp"...)
	}
	return append(b, "tcp"...)
}

func addRemote(b []byte, e *entry, _ string) []byte { return appendAddr(b, e.q.Client.Addr()) }
func addLocal(b []byte, e *entry, _ string) []byte  { return appendAddr(b, e.q.Local.Addr()) }

// appendAddr appends an address; one of IPv6 is in brackets.
func appendAddr(b []byte, a netip.Addr) []byte {
	switch {
	case !a.IsValid():
		return append(b, none...)
	case a.Is4():
		return a.AppendTo(b)
	}
	return append(a.AppendTo(append(b, '[')), ']')
}

func addPort(b []byte, e *entry, _ string) []byte {
	return strconv.AppendUint(b, uint64(e.q.Client.Port()), 10)
}

func addSize(b []byte, e *entry, _ string) []byte {
	return strconv.AppendInt(b, int64(e.q.Size()), 10)
}

func addRCode(b []byte, e *entry, _ string) []byte {
	if e.r.Dropped() {
		return append(b, none...)
	}
	return append(b, e.r.RCode().String()...)
}

func addReplySize(b []byte, e *entry, _ string) []byte {
	return strconv.AppendInt(b, int64(replySize(e.r)), 10)
}

func replySize(r *server.Reply) int {
	if r.Dropped() {
		return 0
	}
	return r.Len()
}

func addDuration(b []byte, e *entry, _ string) []byte { return append(appendSeconds(b, e.took), 's') }

// appendSeconds appends a duration as seconds with as many decimals as it has.
func appendSeconds(b []byte, d time.Duration) []byte {
	d = max(d, 0)
	b = strconv.AppendInt(b, int64(d/time.Second), 10)
	ns := int64(d % time.Second)
	if ns == 0 {
		return b
	}
	at := len(b)
	b = strconv.AppendInt(b, ns+int64(time.Second), 10) // ten digits, of which the first is in place of the point
	b[at] = '.'
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

func addWhen(b []byte, e *entry, _ string) []byte {
	return e.q.Received.AppendFormat(b, time.RFC3339Nano)
}

func addID(b []byte, e *entry, _ string) []byte { return strconv.AppendUint(b, uint64(e.q.ID), 10) }

func addOpcode(b []byte, e *entry, _ string) []byte {
	return strconv.AppendUint(b, uint64(e.q.Flags.Opcode()), 10)
}

func addDO(b []byte, e *entry, _ string) []byte { return strconv.AppendBool(b, e.q.EDNS.DO) }

func addBufSize(b []byte, e *entry, _ string) []byte {
	return strconv.AppendInt(b, int64(bufSize(e.q)), 10)
}

// bufSize is the longest reply that the client takes.
func bufSize(q *server.Query) int {
	switch {
	case q.Transport != server.UDP:
		return wire.MaxMessage
	case q.EDNS.Present:
		return max(wire.MinUDPSize, int(q.EDNS.UDPSize))
	}
	return wire.MinUDPSize
}

// flagNames are the flags of the header that are shown, in order.
var flagNames = [...]struct {
	flag wire.Flags
	name string
}{
	{wire.FlagQR, "qr,"}, {wire.FlagAA, "aa,"}, {wire.FlagTC, "tc,"}, {wire.FlagRD, "rd,"},
	{wire.FlagRA, "ra,"}, {wire.FlagZ, "z,"}, {wire.FlagAD, "ad,"}, {wire.FlagCD, "cd,"},
}

func addFlags(b []byte, e *entry, _ string) []byte {
	if e.r.Dropped() {
		return append(b, none...)
	}
	return appendFlags(b, e.r)
}

// appendFlags appends the names of the flags that the reply has, with commas between them. A reply always has QR.
func appendFlags(b []byte, r *server.Reply) []byte {
	msg := r.Bytes()
	f := wire.Flags(uint16(msg[2])<<8 | uint16(msg[3]))
	for i := range flagNames {
		if f&flagNames[i].flag != 0 {
			b = append(b, flagNames[i].name...)
		}
	}
	return b[:len(b)-1]
}

func addPlugin(b []byte, e *entry, _ string) []byte { return orNone(b, e.r.By()) }
func addZone(b []byte, e *entry, _ string) []byte   { return orNone(b, e.q.Block.ZoneName) }
func addView(b []byte, e *entry, _ string) []byte   { return orNone(b, e.q.Block.View) }

func orNone(b []byte, s string) []byte {
	if s == "" {
		return append(b, none...)
	}
	return append(b, s...)
}

// addReason appends what went wrong: the faults of the reply and its Extended DNS Errors.
func addReason(b []byte, e *entry, _ string) []byte {
	at := len(b)
	b = appendReason(b, e.r)
	if len(b) == at {
		return append(b, none...)
	}
	return b
}

func appendReason(b []byte, r *server.Reply) []byte {
	at := len(b)
	for _, err := range r.Faults() {
		if len(b) > at {
			b = append(b, "; "...)
		}
		b = appendSafe(b, err.Error())
	}
	if err := r.Cause(); err != nil && len(r.EDE()) == 0 { // with EDNS, that says the same
		if len(b) > at {
			b = append(b, "; "...)
		}
		b = appendSafe(b, err.Error())
	}
	for _, x := range r.EDE() {
		if len(b) > at {
			b = append(b, "; "...)
		}
		b = strconv.AppendUint(append(b, "EDE "...), uint64(x.Code), 10)
		if x.Text != "" {
			b = append(b, ": "...)
			b = appendSafe(b, x.Text)
		}
	}
	return b
}

const hex = "0123456789abcdef"

// appendSafe appends text that others chose so that it can neither begin a line nor end a quoted field nor steer a terminal: as it
// would stand in a JSON string, with everything beyond printable ASCII escaped that is not valid text.
func appendSafe(b []byte, s string) []byte {
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case hidden(c):
			b = append(b, '\\', 'u', hex[c>>12&0xF], hex[c>>8&0xF], hex[c>>4&0xF], hex[c&0xF])
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return b
}

// hidden says whether a character does something else than to show itself: control characters, the one that stands for what is not
// UTF-8, and those that end lines or turn the direction of writing.
func hidden(c rune) bool {
	return c < ' ' || 0x7F <= c && c < 0xA0 || c == utf8.RuneError || 0x2028 <= c && c <= 0x202E || 0x2066 <= c && c <= 0x2069
}
