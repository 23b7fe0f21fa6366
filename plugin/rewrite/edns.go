package rewrite

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// The EDNS options that rules name by word (RFC 5001, RFC 7871).
const (
	optNSID   = 3
	optSubnet = 8
)

// Option is the rule of an edns0 field.
type Option struct {
	Action   string // set, append, replace or unset
	Code     uint16
	Data     string // of a local option: the bytes themselves, or a variable in braces
	Variable bool
	V4, V6   int  // of a subnet option: how many bits of the client's address
	Revert   bool // the reply does not show what was done
}

// edns reads an edns0 rule behind its field.
func (p *parser) edns() (o Option, err error) {
	var kind string
	if err = p.take("local, nsid or subnet, and what to do with it", &kind, &o.Action); err != nil {
		return o, err
	}
	kind, o.Action = strings.ToLower(kind), strings.ToLower(o.Action)
	switch o.Action {
	case "set", "append", "replace", "unset":
	default:
		return o, p.at.Errorf("rewrite: edns0 %s: unknown action %q; known are set, append, replace, unset", kind, o.Action)
	}
	if err = p.option(&o, kind); err != nil {
		return o, err
	}
	if len(p.args) == 1 && strings.EqualFold(p.args[0].Text, "revert") {
		_, err = p.next("")
		o.Revert = true
	}
	return o, err
}

// option reads what an option needs beside its kind and the action.
func (p *parser) option(o *Option, kind string) error {
	unset := o.Action == "unset"
	switch kind {
	case "local":
		return p.local(o)
	case "nsid":
		o.Code = optNSID
		return nil
	case "subnet":
		o.Code = optSubnet
		if unset {
			return nil
		}
		return p.subnet(o)
	}
	return p.at.Errorf("rewrite: unknown EDNS option %q; known are local, nsid, subnet", kind)
}

func (p *parser) local(o *Option) error {
	code, err := p.next("the code of the option")
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(code, 0, 16)
	if err != nil {
		return p.at.Errorf("rewrite: %q is not the code of an EDNS option", code)
	}
	if o.Code = uint16(n); o.Action == "unset" {
		return nil
	}
	return p.data(o)
}

func (p *parser) data(o *Option) error {
	if err := p.take("the data of the option", &o.Data); err != nil {
		return err
	}
	if digits, ok := strings.CutPrefix(o.Data, "0x"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil {
			return p.at.Errorf("rewrite: %q is not hexadecimal", o.Data)
		}
		o.Data = string(b)
		return nil
	}
	if name, ok := strings.CutPrefix(o.Data, "{"); ok && strings.HasSuffix(name, "}") {
		name = strings.TrimSuffix(name, "}")
		o.Data, o.Variable = name, true
		switch name {
		case "qname", "qtype", "client_ip", "client_port", "protocol", "server_ip", "server_port":
		default:
			if first, rest, ok := strings.Cut(name, "/"); !ok || first == "" || rest == "" {
				return p.at.Errorf("rewrite: unknown variable {%s}; known are qname, qtype, client_ip, client_port, protocol, server_ip, server_port, and labels of metadata such as {kubernetes/client-namespace}", name)
			}
		}
	}
	return nil
}

func (p *parser) subnet(o *Option) (err error) {
	for i, most := range []int{32, 128} {
		if len(p.args) == 0 {
			return p.at.Errorf("rewrite: the bits of IPv4 and of IPv6 addresses are missing")
		}
		p.at, p.args = p.args[0], p.args[1:]
		if *[]*int{&o.V4, &o.V6}[i], err = p.at.Int(0, most); err != nil {
			return err
		}
	}
	return nil
}

// apply changes the EDNS options that go on with the query, and says whether it did anything. Of the client's own, those go on that a rule
// looks at and leaves. What is set goes into shown as well, unless it is to be reverted.
func (o *Option) apply(q *server.Query, shown *[]shownOption) bool {
	mine := wire.EDNS{Options: q.ToUpstream}
	data, found := mine.Option(o.Code)
	if !found {
		data, found = q.EDNS.Option(o.Code)
	}
	done := true
	switch o.Action {
	case "append":
		done = !found
	case "replace", "unset":
		done = found
	}
	switch {
	case o.Action == "unset":
		if found {
			q.ToUpstream = without(q.ToUpstream, o.Code)
			o.show(shown, nil)
		}
		return done
	case done:
		data = o.value(q)
	case !found:
		return false
	}
	q.ToUpstream = without(q.ToUpstream, o.Code)
	q.ToUpstream = binary.BigEndian.AppendUint16(q.ToUpstream, o.Code)
	q.ToUpstream = binary.BigEndian.AppendUint16(q.ToUpstream, uint16(len(data)))
	q.ToUpstream = append(q.ToUpstream, data...)
	if done {
		o.show(shown, data)
	}
	return done
}

// shownOption is an option that a reply shows because a rule set it for the query.
type shownOption struct {
	code uint16
	data string
}

// Replies show options of codes for local use (RFC 6891 9) alone: what others say in a reply is not what they say in a query.
const firstLocal, lastLocal = 65001, 65534

// show has the reply show the option with that data, or not at all with nil.
func (o *Option) show(shown *[]shownOption, data []byte) {
	if o.Revert || o.Code < firstLocal || o.Code > lastLocal {
		return
	}
	*shown = slices.DeleteFunc(*shown, func(s shownOption) bool { return s.code == o.Code })
	if data != nil {
		*shown = append(*shown, shownOption{o.Code, string(data)})
	}
}

// without copies options but for those of one code.
func without(options []byte, code uint16) []byte {
	var out []byte
	for len(options) >= 4 {
		l := 4 + int(binary.BigEndian.Uint16(options[2:]))
		if binary.BigEndian.Uint16(options) != code {
			out = append(out, options[:l]...)
		}
		options = options[l:]
	}
	return out
}

// value is the data of the option for one query.
func (o *Option) value(q *server.Query) []byte {
	switch {
	case o.Code == optSubnet && o.Data == "":
		return o.clientSubnet(q.Client.Addr())
	case !o.Variable:
		return []byte(o.Data)
	}
	switch o.Data {
	case "qname":
		return wire.AppendPresentation(nil, q.Name.Bytes())
	case "qtype":
		return binary.BigEndian.AppendUint16(nil, uint16(q.Type))
	case "client_ip":
		return q.Client.Addr().AsSlice()
	case "client_port":
		return binary.BigEndian.AppendUint16(nil, q.Client.Port())
	case "protocol":
		return []byte(q.Transport.String())
	case "server_ip":
		return q.Local.Addr().AsSlice()
	case "server_port":
		return binary.BigEndian.AppendUint16(nil, q.Local.Port())
	}
	return []byte(q.Metadata(o.Data))
}

// clientSubnet is family, source and scope prefix length, and as many bytes of the address as the prefix needs (RFC 7871 6).
func (o *Option) clientSubnet(a netip.Addr) []byte {
	family, bits := byte(1), o.V4
	if !a.Is4() {
		family, bits = 2, o.V6
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return nil
	}
	return append([]byte{0, family, byte(bits), 0}, p.Addr().AsSlice()[:(bits+7)/8]...)
}
