// Package wire is the byte code of DNS: names, headers, records and the patching of messages in place
// (RFC 1035, RFC 6891). Nothing here allocates unless its comment says so, and nothing here knows of a server.
// It imports the standard library only.
package wire

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// Type is the type of a resource record, or the QTYPE of a question.
type Type uint16

// The types that this project treats by name; every other one passes through as a number.
const (
	TypeNone   Type = 0
	TypeA      Type = 1
	TypeNS     Type = 2
	TypeMD     Type = 3
	TypeMF     Type = 4
	TypeCNAME  Type = 5
	TypeSOA    Type = 6
	TypeMB     Type = 7
	TypeMG     Type = 8
	TypeMR     Type = 9
	TypeNULL   Type = 10
	TypePTR    Type = 12
	TypeHINFO  Type = 13
	TypeMINFO  Type = 14
	TypeMX     Type = 15
	TypeTXT    Type = 16
	TypeRP     Type = 17
	TypeAFSDB  Type = 18
	TypeRT     Type = 21
	TypeSIG    Type = 24
	TypePX     Type = 26
	TypeAAAA   Type = 28
	TypeLOC    Type = 29
	TypeNXT    Type = 30
	TypeSRV    Type = 33
	TypeNAPTR  Type = 35
	TypeKX     Type = 36
	TypeDNAME  Type = 39
	TypeOPT    Type = 41
	TypeDS     Type = 43
	TypeSSHFP  Type = 44
	TypeRRSIG  Type = 46
	TypeNSEC   Type = 47
	TypeDNSKEY Type = 48
	TypeNSEC3  Type = 50
	TypeTLSA   Type = 52
	TypeSVCB   Type = 64
	TypeHTTPS  Type = 65
	TypeSPF    Type = 99
	TypeTSIG   Type = 250
	TypeIXFR   Type = 251
	TypeAXFR   Type = 252
	TypeANY    Type = 255
	TypeCAA    Type = 257
)

// Class is the class of a record or question.
type Class uint16

// The classes of RFC 1035 3.2.4 and 3.2.5.
const (
	ClassIN  Class = 1
	ClassCH  Class = 3
	ClassHS  Class = 4
	ClassANY Class = 255
)

// RCode is a response code; values over 15 need EDNS (RFC 6891 6.1.3).
type RCode uint16

// The response codes of RFC 1035 and RFC 6891 that a server of ours gives or meets.
const (
	RCodeNoError  RCode = 0
	RCodeFormErr  RCode = 1
	RCodeServFail RCode = 2
	RCodeNXDomain RCode = 3
	RCodeNotImp   RCode = 4
	RCodeRefused  RCode = 5
	RCodeNotAuth  RCode = 9
	RCodeBadVers  RCode = 16
	RCodeBadCook  RCode = 23
)

// Opcode is the kind of a message (RFC 1035 4.1.1).
type Opcode uint8

// The opcodes in use.
const (
	OpcodeQuery  Opcode = 0
	OpcodeNotify Opcode = 4
	OpcodeUpdate Opcode = 5
)

// Flags are the third and fourth byte of a header, rcode and opcode included (RFC 1035 4.1.1, RFC 4035 3).
type Flags uint16

// The single-bit flags.
const (
	FlagQR Flags = 1 << 15
	FlagAA Flags = 1 << 10
	FlagTC Flags = 1 << 9
	FlagRD Flags = 1 << 8
	FlagRA Flags = 1 << 7
	FlagZ  Flags = 1 << 6
	FlagAD Flags = 1 << 5
	FlagCD Flags = 1 << 4
)

// Opcode is the four bits of it.
func (f Flags) Opcode() Opcode { return Opcode(f >> 11 & 0xF) }

// RCode is the lower four bits of the response code.
func (f Flags) RCode() RCode { return RCode(f & 0xF) }

// HeaderLen is the length of a message header in bytes.
const HeaderLen = 12

// MaxMessage is the length of the longest DNS message (RFC 1035 4.2.2).
const MaxMessage = 65535

// MinUDPSize is what every client takes over UDP without EDNS (RFC 1035 4.2.1).
const MinUDPSize = 512

// The errors of the parsers. They are values, never wrapped with detail: a bad packet must not cost memory.
var (
	ErrShort   = errors.New("message ends too early")
	ErrName    = errors.New("malformed domain name")
	ErrPointer = errors.New("compression pointer not allowed here")
	ErrCounts  = errors.New("section counts do not fit the message")
	ErrOPT     = errors.New("malformed or repeated OPT record")
)

// Header is a decoded message header.
type Header struct {
	ID      uint16
	Flags   Flags
	QDCount uint16
	ANCount uint16
	NSCount uint16
	ARCount uint16
}

// ParseHeader reads the first 12 bytes of msg.
func ParseHeader(msg []byte) (Header, error) {
	if len(msg) < HeaderLen {
		return Header{}, ErrShort
	}
	return Header{
		ID:      binary.BigEndian.Uint16(msg[0:]),
		Flags:   Flags(binary.BigEndian.Uint16(msg[2:])),
		QDCount: binary.BigEndian.Uint16(msg[4:]),
		ANCount: binary.BigEndian.Uint16(msg[6:]),
		NSCount: binary.BigEndian.Uint16(msg[8:]),
		ARCount: binary.BigEndian.Uint16(msg[10:]),
	}, nil
}

// PutHeader writes h over the first 12 bytes of msg, which must be that long.
func PutHeader(msg []byte, h Header) {
	_ = msg[HeaderLen-1]
	binary.BigEndian.PutUint16(msg[0:], h.ID)
	binary.BigEndian.PutUint16(msg[2:], uint16(h.Flags))
	binary.BigEndian.PutUint16(msg[4:], h.QDCount)
	binary.BigEndian.PutUint16(msg[6:], h.ANCount)
	binary.BigEndian.PutUint16(msg[8:], h.NSCount)
	binary.BigEndian.PutUint16(msg[10:], h.ARCount)
}

// String is the mnemonic, or TYPE123 (RFC 3597 5).
func (t Type) String() string {
	if s, ok := t.mnemonic(); ok {
		return s
	}
	return "TYPE" + strconv.Itoa(int(t))
}

// String is the mnemonic, or CLASS123 (RFC 3597 5).
func (c Class) String() string {
	switch c {
	case ClassIN:
		return "IN"
	case ClassCH:
		return "CH"
	case ClassHS:
		return "HS"
	case ClassANY:
		return "ANY"
	}
	return "CLASS" + strconv.Itoa(int(c))
}

var rcodeNames = [...]string{
	0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED", 6: "YXDOMAIN", 7: "YXRRSET",
	8: "NXRRSET", 9: "NOTAUTH", 10: "NOTZONE", 16: "BADVERS", 17: "BADKEY", 18: "BADTIME", 19: "BADMODE",
	20: "BADNAME", 21: "BADALG", 22: "BADTRUNC", 23: "BADCOOKIE",
}

// String is the mnemonic that dig and CoreDNS's logs and metrics use, or RCODE123.
func (r RCode) String() string {
	if int(r) < len(rcodeNames) && rcodeNames[r] != "" {
		return rcodeNames[r]
	}
	return "RCODE" + strconv.Itoa(int(r))
}

// mnemonic knows the types that have a constant above.
func (t Type) mnemonic() (string, bool) {
	for i := range typeNames {
		if typeNames[i].t == t {
			return typeNames[i].s, true
		}
	}
	return "", false
}

// ParseType reads a mnemonic (any letter case) or TYPE123.
func ParseType(s string) (Type, bool) {
	up := upper(s)
	for i := range typeNames {
		if typeNames[i].s == up {
			return typeNames[i].t, true
		}
	}
	if len(up) > 4 && up[:4] == "TYPE" {
		n, err := strconv.ParseUint(up[4:], 10, 16)
		return Type(n), err == nil
	}
	return 0, false
}

func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// typeNames holds the mnemonics, the commonest first.
var typeNames = [...]struct {
	t Type
	s string
}{
	{TypeA, "A"}, {TypeAAAA, "AAAA"}, {TypeSRV, "SRV"}, {TypePTR, "PTR"}, {TypeHTTPS, "HTTPS"}, {TypeTXT, "TXT"},
	{TypeCNAME, "CNAME"}, {TypeMX, "MX"}, {TypeNS, "NS"}, {TypeSOA, "SOA"}, {TypeANY, "ANY"}, {TypeDS, "DS"},
	{TypeDNSKEY, "DNSKEY"}, {TypeRRSIG, "RRSIG"}, {TypeNSEC, "NSEC"}, {TypeNSEC3, "NSEC3"}, {TypeSVCB, "SVCB"},
	{TypeNAPTR, "NAPTR"}, {TypeCAA, "CAA"}, {TypeTLSA, "TLSA"}, {TypeSSHFP, "SSHFP"}, {TypeDNAME, "DNAME"},
	{TypeOPT, "OPT"}, {TypeAXFR, "AXFR"}, {TypeIXFR, "IXFR"}, {TypeTSIG, "TSIG"}, {TypeHINFO, "HINFO"},
	{TypeLOC, "LOC"}, {TypeSPF, "SPF"}, {TypeKX, "KX"}, {TypeRP, "RP"}, {TypeAFSDB, "AFSDB"}, {TypeRT, "RT"},
	{TypeSIG, "SIG"}, {TypePX, "PX"}, {TypeNXT, "NXT"}, {TypeMD, "MD"}, {TypeMF, "MF"}, {TypeMB, "MB"},
	{TypeMG, "MG"}, {TypeMR, "MR"}, {TypeNULL, "NULL"}, {TypeMINFO, "MINFO"}, {TypeNone, "None"},
}
