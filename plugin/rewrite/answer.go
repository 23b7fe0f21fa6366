package rewrite

import (
	"bytes"
	"context"
	"regexp"
	"strings"

	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// kind is which part of a reply a step changes.
type kind uint8

const (
	owners kind = 1 << iota
	values
	ttls
	rcodes
	both = owners | values
)

// step is one change of a final reply.
type step struct {
	kind     kind
	name     func(name []byte) []byte // wire form to wire form, or nil to leave it
	min, max uint32
	old, now wire.RCode
}

// undo is what a query's rules leave to be done with its reply. It is made for queries that a rule applies to, only.
type undo struct {
	original []byte // the name before the first rule, in the client's letter case
	folded   []byte // the same in lower case
	answers  int    // how many answers stood before: those belong to names that other rules were asked for
	steps    []step
}

func newUndo(r *server.Reply, q *server.Query) *undo {
	n := q.Name.Len()
	both := append(append(make([]byte, 0, 2*n), q.Name.Bytes()...), q.Name.Folded()...)
	return &undo{original: both[:n:n], folded: both[n:], answers: r.Count(server.Answer)}
}

// add carries out a rule on the query. What is to be done with names of the reply goes before that of earlier rules: what was done last is
// undone first. TTLs and rcodes are changed in the order of the rules.
func (u *undo) add(q *server.Query, ru *rule, text string) error {
	steps := ru.steps
	switch ru.Field {
	case TTL:
		steps = []step{{kind: ttls, min: ru.MinTTL, max: ru.MaxTTL}}
	case RCode:
		steps = []step{{kind: rcodes, old: wire.RCode(ru.Old), now: wire.RCode(ru.New)}}
	case Name:
		before := bytes.Clone(q.Name.Bytes())
		if err := ru.rename(q, text); err != nil {
			return err
		}
		if ru.Auto && ru.Match != Suffix {
			steps = append([]step{{kind: both, name: remap(bytes.Clone(q.Name.Folded()), before)}}, steps...)
		}
	}
	if ru.Field != Name {
		u.steps = append(u.steps, steps...)
		return nil
	}
	u.steps = append(append([]step(nil), steps...), u.steps...)
	return nil
}

// Finish changes the records written since the rules were applied, and the rcode.
func (u *undo) Finish(r *server.Reply, _ *server.Query, _ uint64) {
	edit := false
	for i := range u.steps {
		if s := &u.steps[i]; s.kind == rcodes {
			if r.RCode() == s.old {
				r.SetRCode(s.now)
			}
		} else {
			edit = true
		}
	}
	if !edit || r.Empty() || r.Dropped() {
		return
	}
	if err := r.Edit(u.records); err != nil {
		r.Fault(err)
	}
}

func (u *undo) records(rrs []server.Record) []server.Record {
	for i := range rrs {
		if rr := &rrs[i]; i >= u.answers || rr.Section != server.Answer {
			for k := range u.steps {
				u.steps[k].apply(rr)
			}
			if sameName(rr.Owner, u.folded) {
				rr.Owner = u.original
			}
		}
	}
	return rrs
}

func (s *step) apply(rr *server.Record) {
	if s.kind == ttls {
		rr.TTL = max(s.min, min(s.max, rr.TTL))
		return
	}
	if s.kind&owners != 0 {
		if n := s.name(rr.Owner); n != nil {
			rr.Owner = n
		}
	}
	if s.kind&values == 0 {
		return
	}
	if from, to, ok := records.Target(rr); ok {
		if n := s.name(rr.Data[from:to]); n != nil {
			rr.Data = bytes.Join([][]byte{rr.Data[:from], n, rr.Data[to:]}, nil)
		}
	}
}

// sameName compares a name with one in lower case.
func sameName(name, folded []byte) bool {
	if len(name) != len(folded) {
		return false
	}
	var b [wire.MaxName]byte
	n := b[:copy(b[:], name)]
	wire.Fold(n)
	return bytes.Equal(n, folded)
}

// remap turns one name into another, and the names below it into the names below that.
func remap(from, to []byte) func([]byte) []byte {
	return func(name []byte) []byte {
		if len(from) == 1 { // the root is the end of every name, and was not asked for by all of them
			if len(name) == 1 {
				return to
			}
			return nil
		}
		// Where from would stand is told by its length; labels must begin there.
		at := len(name) - len(from)
		for i := 0; i <= at && name[i] != 0; i += int(name[i]) + 1 {
			if i < at {
				continue
			}
			if sameName(name[i:], from) && i+len(to) <= wire.MaxName {
				return append(name[:i:i], to...)
			}
		}
		return nil
	}
}

// suffixes exchanges the end of names.
func suffixes(from, to string) func([]byte) []byte {
	return func(name []byte) []byte {
		rest, ok := strings.CutSuffix(presentation(name), from)
		if !ok {
			return nil
		}
		return parsed(rest + to)
	}
}

// groups is the replacement by a regular expression.
func groups(re *regexp.Regexp, to string) func([]byte) []byte {
	return func(name []byte) []byte {
		match := re.FindStringSubmatch(presentation(name))
		if match == nil {
			return nil
		}
		return parsed(expand(match, to))
	}
}

func presentation(name []byte) string {
	var b [wire.MaxName]byte
	n := b[:copy(b[:], name)]
	wire.Fold(n)
	return string(wire.AppendPresentation(make([]byte, 0, wire.MaxName), n))
}

// parsed is the wire form, or nil for what is no name, which leaves the record as it was.
func parsed(s string) []byte {
	b, err := wire.ParseName(s)
	if err != nil {
		return nil
	}
	return b
}

// retarget asks the handlers behind and, where a CNAME of the answer leads to what a rule is for, once more for the new target.
func retarget(ctx context.Context, r *server.Reply, q *server.Query, rules []*rule) server.Verdict {
	ask := q.OnBehalf(q.Name.Bytes(), q.Type)
	first := q.Rest().Exchange(ctx, ask)
	note(r, first)
	rrs, err := server.Records(first.Msg)
	if err != nil {
		return r.Fail(err)
	}
	at, target := findTarget(rrs, rules)
	if at < 0 {
		if err := r.Splice(first.Msg, server.Splice{MaxTTL: 1<<31 - 1, Flags: wire.FlagAA | wire.FlagRA | wire.FlagAD}); err != nil {
			return r.Fail(err)
		}
		return server.Done
	}
	rrs[at].Data = target
	rrs = rrs[:at+1]
	r.SetRCode(first.RCode())
	r.SetFlags(wire.Flags(uint16(first.Msg[2])<<8|uint16(first.Msg[3])) & (wire.FlagAA | wire.FlagRA))
	if q.Type != wire.TypeCNAME {
		ask.Name = target
		second := q.Rest().Exchange(ctx, ask)
		note(r, second)
		more, err := server.Records(second.Msg)
		if err != nil {
			return r.Fail(err)
		}
		rrs = append(rrs, more...)
		r.SetRCode(second.RCode())
	}
	for i := range rrs {
		r.Record(&rrs[i])
	}
	return server.Done
}

// findTarget gives the first CNAME that a rule is for, and its new target.
func findTarget(rrs []server.Record, rules []*rule) (at int, target []byte) {
	for i := range rrs {
		if rr := &rrs[i]; rr.Section == server.Answer && rr.Type == wire.TypeCNAME {
			text := presentation(rr.Data)
			for _, ru := range rules {
				if ru.matches([]byte(text)) {
					if n := parsed(ru.replace(text)); n != nil {
						return i, n
					}
				}
			}
		}
	}
	return -1, nil
}

// note takes over what went wrong on the way to a reply of our own.
func note(r *server.Reply, p *server.Packed) {
	for _, err := range p.Faults {
		r.Fault(err)
	}
	for _, e := range p.EDE {
		r.AddEDE(e.Code, e.Text)
	}
}
