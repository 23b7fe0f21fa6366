package wire

import (
	"fmt"
	"strings"
)

// MaxName is the length of the longest name in wire form, root label included (RFC 1035 2.3.4).
const MaxName = 255

// maxLabels is the number of labels of the longest name: 127 of one byte each, the root not counted.
const maxLabels = 127

// Canonical is a domain name in uncompressed wire form with its letters in lower case (RFC 4034 6.2), the root
// label's zero byte included: "\x07cluster\x05local\x00". It is comparable and a map key; the zero value is no name.
type Canonical string

// Root is the name of the root zone.
const Root Canonical = "\x00"

// ParseCanonical reads presentation form (RFC 1035 5.1, with \X and \DDD escapes), with or without the final dot.
// The empty string is an error; "." is the root.
func ParseCanonical(s string) (Canonical, error) {
	b, err := ParseName(s)
	if err != nil {
		return "", err
	}
	Fold(b)
	return Canonical(b), nil
}

// MustCanonical is ParseCanonical for constants of the program: it panics on a malformed name.
func MustCanonical(s string) Canonical {
	c, err := ParseCanonical(s)
	if err != nil {
		panic(err)
	}
	return c
}

// ParseName reads presentation form into uncompressed wire form and keeps its letter case.
func ParseName(s string) ([]byte, error) {
	if s == "" {
		return nil, fmt.Errorf("empty domain name")
	}
	if s == "." {
		return []byte{0}, nil
	}
	out := make([]byte, 1, len(s)+2)
	start := 0 // where the length of the label being read stands
	for i := 0; i < len(s); {
		if s[i] == '.' {
			if len(out)-start == 1 {
				return nil, fmt.Errorf("domain name %q has an empty label", s)
			}
			start = len(out)
			out = append(out, 0)
			i++
			continue
		}
		c, n, ok := unescape(s[i:])
		if !ok {
			return nil, fmt.Errorf("domain name %q has a bad escape", s)
		}
		i += n
		out = append(out, c)
		l := len(out) - start - 1
		if l > 63 {
			return nil, fmt.Errorf("domain name %q has a label over 63 bytes", s)
		}
		out[start] = byte(l)
	}
	if len(out)-start > 1 { // no final dot
		out = append(out, 0)
	}
	if len(out) > MaxName {
		return nil, fmt.Errorf("domain name %q is longer than 255 bytes", s)
	}
	return out, nil
}

// unescape reads one byte of a label in presentation form and says how many bytes it took.
func unescape(s string) (c byte, n int, ok bool) {
	if s[0] != '\\' {
		return s[0], 1, true
	}
	if len(s) >= 4 && digit(s[1]) && digit(s[2]) && digit(s[3]) {
		v := int(s[1]-'0')*100 + int(s[2]-'0')*10 + int(s[3]-'0')
		return byte(v), 4, v <= 255
	}
	if len(s) < 2 || digit(s[1]) {
		return 0, 0, false
	}
	return s[1], 2, true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// String is presentation form, fully qualified, with whatever is not plain escaped.
func (c Canonical) String() string {
	return string(AppendPresentation(make([]byte, 0, len(c)+8), []byte(c)))
}

// Labels is the number of labels, the root not counted. The name must be well-formed.
func (c Canonical) Labels() int {
	n := 0
	for i := 0; i < len(c) && c[i] != 0; i += int(c[i]) + 1 {
		n++
	}
	return n
}

// escaped are the printable characters that mean something in a zone file.
const escaped = `. '@;()"\`

// AppendPresentation appends the presentation form of a name in uncompressed wire form, final dot included, to dst.
// It escapes as miekg/dns does: dots, spaces, quotes, backslashes, parentheses, semicolons and @ with a backslash, and what is not
// printable ASCII as \DDD. It does not allocate when dst has room.
func AppendPresentation(dst, name []byte) []byte {
	if len(name) == 0 || name[0] == 0 {
		return append(dst, '.')
	}
	for i := 0; i < len(name) && name[i] != 0; {
		end := min(i+1+int(name[i]), len(name))
		dst = append(appendLabel(dst, name[i+1:end]), '.')
		i = end
	}
	return dst
}

// appendLabel appends the text of a label: at once if there is nothing to escape, as in nearly all names.
func appendLabel(dst, label []byte) []byte {
	i := 0
	for i < len(label) && plain[label[i]] {
		i++
	}
	dst = append(dst, label[:i]...)
	for _, c := range label[i:] {
		switch {
		case plain[c]:
			dst = append(dst, c)
		case c < ' ' || c > '~':
			dst = append(dst, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
		default:
			dst = append(dst, '\\', c)
		}
	}
	return dst
}

// plain are the characters that stand for themselves in presentation form.
var plain = func() (t [256]bool) {
	for c := byte('!'); c <= '~'; c++ {
		t[c] = strings.IndexByte(escaped, c) < 0
	}
	return t
}()

// Fold turns the ASCII letters of b to lower case in place (RFC 4343). Length bytes are below 'A' and so never change.
func Fold(b []byte) {
	for i, c := range b {
		b[i] = lower[c]
	}
}

// EqualFold says whether two names in uncompressed wire form differ at most in the case of ASCII letters (RFC 4343).
func EqualFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower[a[i]] != lower[b[i]] {
			return false
		}
	}
	return true
}

// lower maps each byte to its lower case.
var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] = byte(i) + 'a' - 'A'
		}
	}
	return t
}()

// Name is a name taken apart once: its wire form as it was asked, the same folded, and where each label begins.
// It owns its bytes. The zero value is no name; Set and Parse fill it. It is 640 bytes: pass pointers.
type Name struct {
	cased  [MaxName]byte
	folded [MaxName]byte
	offs   [maxLabels + 1]uint8
	size   uint8
	labels uint8
}

// Parse reads the uncompressed name at msg[off:] and gives the offset behind it. A compression pointer there is ErrPointer:
// the only callers read questions, in which nothing stands before the name that it could point to.
func (n *Name) Parse(msg []byte, off int) (end int, err error) {
	w, labels := 0, 0
	for {
		if off >= len(msg) {
			return 0, ErrShort
		}
		l := int(msg[off])
		if l >= 64 {
			if l >= 192 {
				return 0, ErrPointer
			}
			return 0, ErrName
		}
		if off+1+l > len(msg) {
			return 0, ErrShort
		}
		if w+1+l > MaxName {
			return 0, ErrName
		}
		n.offs[labels] = uint8(w)
		src := msg[off : off+1+l]
		cased, folded := n.cased[w:w+1+l], n.folded[w:w+1+l]
		for i, c := range src {
			cased[i] = c
			folded[i] = lower[c]
		}
		w += 1 + l
		off += 1 + l
		if l == 0 {
			n.size, n.labels = uint8(w), uint8(labels)
			return off, nil
		}
		labels++
		if labels > maxLabels || w >= MaxName {
			return 0, ErrName
		}
	}
}

// Set copies a name in uncompressed wire form.
func (n *Name) Set(name []byte) error {
	_, err := n.Parse(name, 0)
	return err
}

// SetCanonical copies c, which must be well-formed.
func (n *Name) SetCanonical(c Canonical) error {
	var buf [MaxName + 1]byte
	return n.Set(buf[:copy(buf[:], c)])
}

// Bytes is the wire form with its letter case as asked, root label included. It aliases n.
func (n *Name) Bytes() []byte { return n.cased[:n.size] }

// Folded is the wire form in lower case. It aliases n; string(n.Folded()) as a map key does not allocate.
func (n *Name) Folded() []byte { return n.folded[:n.size] }

// Canonical is a copy of the folded form; it allocates.
func (n *Name) Canonical() Canonical { return Canonical(n.folded[:n.size]) }

// Len is the length of the wire form in bytes.
func (n *Name) Len() int { return int(n.size) }

// Labels is the number of labels, the root not counted.
func (n *Name) Labels() int { return int(n.labels) }

// Label is the folded text of label i, counted from the left, without its length byte. It aliases n.
func (n *Name) Label(i int) []byte {
	o := int(n.offs[i])
	return n.folded[o+1 : o+1+int(n.folded[o])]
}

// Offset is where label i begins in the wire form; Offset(Labels()) is where the root label stands.
func (n *Name) Offset(i int) int { return int(n.offs[i]) }

// Suffix is the folded wire form from label i on; Suffix(Labels()) is the root. It aliases n.
func (n *Name) Suffix(i int) []byte { return n.folded[n.offs[i]:n.size] }

// Span is the folded wire form of labels i up to but without j, with no root label: a key of adjacent labels. It aliases n.
func (n *Name) Span(i, j int) []byte { return n.folded[n.offs[i]:n.offs[j]] }

// Cut says whether the name is at or below zone z, and how many labels stand before it then.
func (n *Name) Cut(z Zone) (labels int, ok bool) {
	k := int(n.labels) - int(z.labels)
	if k < 0 || string(n.folded[n.offs[k]:n.size]) != string(z.name) {
		return 0, false
	}
	return k, true
}

// String is presentation form with the letter case as asked; it allocates.
func (n *Name) String() string { return string(AppendPresentation(nil, n.Bytes())) }

// Zone is a canonical name with its labels counted, ready to be looked for at the end of other names. It is comparable.
type Zone struct {
	name   Canonical
	labels uint8
}

// NewZone counts the labels of c, which must be well-formed.
func NewZone(c Canonical) Zone { return Zone{c, uint8(c.Labels())} }

// Name is the zone's apex.
func (z Zone) Name() Canonical { return z.name }

// Labels is the number of the apex's labels, the root not counted.
func (z Zone) Labels() int { return int(z.labels) }

// String is presentation form.
func (z Zone) String() string { return z.name.String() }

// Contains says whether c is at or below z.
func (z Zone) Contains(c Canonical) bool {
	i := 0
	for k := c.Labels() - int(z.labels); k > 0; k-- {
		i += int(c[i]) + 1
	}
	return c[i:] == z.name
}
