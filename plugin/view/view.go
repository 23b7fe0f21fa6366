// Package view is the directive of that name: a server block with it takes only queries for which an expression is true.
package view

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are those of one view directive.
type Options struct {
	Name  string
	Exprs []string // all have to be true
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "expr", Usage: "EXPRESSION", Min: 1, Max: directive.Many, Repeat: true, Help: "what has to be true of a query",
			Set: func(o *Options, l *directive.Line) error {
				text := strings.Join(l.Texts(), " ")
				if _, err := compile(text); err != nil {
					return l.Name.Errorf("%w", err)
				}
				o.Exprs = append(o.Exprs, text)
				return nil
			}},
	}
}

// Functions are the functions of expressions.
func Functions() []string {
	return []string{"bufsize()", "class()", "client_ip()", "do()", "id()", "name()", "opcode()", "port()", "proto()", "server_ip()", "server_port()",
		"size()", "type()", "incidr()", "metadata()"}
}

// Parse reads one view directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	if len(in.Args) != 1 {
		return o, in.Name.Errorf("view: one name must follow")
	}
	o.Name = in.Args[0].Text
	if err := directive.ParseOptions(in, &o, Rows()); err != nil {
		return o, err
	}
	if len(o.Exprs) == 0 {
		in.Warn(in.Name, "view: is for all queries without an expr")
	}
	return o, nil
}

// environment is what expressions see. Its functions are made once, for whatever query it holds.
type environment struct {
	BufSize    func() int                          `expr:"bufsize"`
	Class      func() string                       `expr:"class"`
	ClientIP   func() string                       `expr:"client_ip"`
	DO         func() bool                         `expr:"do"`
	ID         func() int                          `expr:"id"`
	Name       func() string                       `expr:"name"`
	Opcode     func() int                          `expr:"opcode"`
	Port       func() string                       `expr:"port"`
	Proto      func() string                       `expr:"proto"`
	ServerIP   func() string                       `expr:"server_ip"`
	ServerPort func() string                       `expr:"server_port"`
	Size       func() int                          `expr:"size"`
	Type       func() string                       `expr:"type"`
	InCIDR     func(ip, cidr string) (bool, error) `expr:"incidr"`
	Metadata   func(label string) string           `expr:"metadata"`

	q *server.Query
	m vm.VM
}

// errAddress is an argument of incidr that is none.
var errAddress = errors.New("incidr needs an address and a network")

func newEnvironment(metadata func(q *server.Query, label string) string) *environment {
	e := new(environment)
	e.BufSize = func() int { return e.bufsize() }
	e.Class = func() string { return e.q.Class.String() }
	e.ClientIP = func() string { return e.q.Client.Addr().Unmap().String() }
	e.DO = func() bool { return e.q.EDNS.DO }
	e.ID = func() int { return int(e.q.ID) }
	e.Name = func() string { return string(wire.AppendPresentation(nil, e.q.Name.Folded())) }
	e.Opcode = func() int { return int(e.q.Flags.Opcode()) }
	e.Port = func() string { return fmt.Sprint(e.q.Client.Port()) }
	e.Proto = func() string { return e.q.Transport.String() }
	e.ServerIP = func() string { return e.q.Local.Addr().Unmap().String() }
	e.ServerPort = func() string { return fmt.Sprint(e.q.Local.Port()) }
	e.Size = func() int { return e.q.Size() }
	e.Type = func() string { return e.q.Type.String() }
	e.InCIDR = inCIDR
	e.Metadata = func(label string) string {
		if metadata == nil {
			return ""
		}
		return metadata(e.q, label)
	}
	return e
}

// bufsize is what the client takes: 512 bytes without EDNS or when it says less (RFC 6891 6.2.3), all of a message over TCP.
func (e *environment) bufsize() int {
	switch {
	case e.q.Transport != server.UDP:
		return wire.MaxMessage
	case e.q.EDNS.Present:
		return max(wire.MinUDPSize, int(e.q.EDNS.UDPSize))
	}
	return wire.MinUDPSize
}

func inCIDR(ip, cidr string) (bool, error) {
	a, err := netip.ParseAddr(strings.Trim(ip, "[]"))
	if err != nil {
		return false, errAddress
	}
	p, err := directive.Network(cidr)
	if err != nil {
		return false, errAddress
	}
	return p.Contains(a.Unmap()), nil
}

// compile checks an expression, the types of what it is made of included.
func compile(text string) (*vm.Program, error) {
	return expr.Compile(text, expr.Env(&environment{}), expr.AsBool())
}

// View is the views of a server block: the block takes queries for which all their expressions are true.
type View struct {
	name     string
	programs []*vm.Program
	spare    sync.Pool
}

// New makes the match of all view directives of a server block. metadata gives what the block's directives know of a query; it may be nil.
func New(all []Options, metadata func(q *server.Query, label string) string) (*View, error) {
	v := &View{}
	for _, o := range all {
		if v.name == "" {
			v.name = o.Name
		}
		for _, text := range o.Exprs {
			p, err := compile(text)
			if err != nil {
				return nil, err
			}
			v.programs = append(v.programs, p)
		}
	}
	v.spare.New = func() any { return newEnvironment(metadata) }
	return v, nil
}

// Name is that of the first directive: the label of metrics.
func (v *View) Name() string { return v.name }

// Match says whether the block takes a query. An expression that fails is not true.
func (v *View) Match(q *server.Query) bool {
	e := v.spare.Get().(*environment)
	e.q = q
	defer func() {
		e.q = nil
		v.spare.Put(e)
	}()
	for _, p := range v.programs {
		out, err := e.m.Run(p, e)
		if yes, ok := out.(bool); err != nil || !ok || !yes {
			return false
		}
	}
	return true
}

// Metadata knows the label view/name.
func (v *View) Metadata(_ *server.Query, label string) (string, bool) {
	return v.name, label == "view/name"
}
