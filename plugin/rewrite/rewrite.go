package rewrite

import (
	"bytes"
	"context"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/clusterdns/clusterdns/plugin/internal/match"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Rewrite applies the rules of a server block in their order.
type Rewrite struct {
	rules []rule
	waits bool // a cname rule must see the reply before the client does
	texts sync.Pool
}

// rule is a compiled Options.
type rule struct {
	Options
	from, to []byte
	re       match.Pattern
	steps    []step // what the reply's names go through, but for an auto rule that depends on the query
}

// New makes the handler of all rewrite lines of a server block. They must have come from Parse.
func New(rules []Options) *Rewrite {
	h := &Rewrite{rules: make([]rule, len(rules))}
	h.texts.New = func() any { b := make([]byte, 0, 4*wire.MaxName); return &b }
	for i, o := range rules {
		ru := rule{Options: o, from: []byte(o.From), to: []byte(o.To)}
		if o.Match == Regex {
			ru.re = match.MustCompile(o.From)
		}
		if o.Auto && o.Match == Suffix {
			ru.steps = append(ru.steps, step{kind: both, name: suffixes(o.To, o.From)})
		}
		for _, a := range o.Answers {
			s := step{kind: owners, name: groups(regexp.MustCompile(a.From), a.To)}
			if a.Value {
				s.kind = values
			}
			ru.steps = append(ru.steps, s)
		}
		h.rules[i] = ru
		h.waits = h.waits || o.Field == CNAME
	}
	return h
}

// Answer rewrites the query. With cname rules it says Wait at once: they have to ask again when they saw the reply.
func (h *Rewrite) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if h.waits {
		return server.Wait
	}
	v, _ := h.apply(r, q)
	return v
}

// AwaitAnswer is Answer for blocks with cname rules.
func (h *Rewrite) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	v, targets := h.apply(r, q)
	if v != server.Pass || len(targets) == 0 {
		return v
	}
	return retarget(ctx, r, q, targets)
}

// run is one pass of a query through the rules.
type run struct {
	text    []byte  // the name that is looked for now
	back    *undo   // what is to be done with the reply, or nil
	direct  uint64  // rules that need nothing but their number for that
	targets []*rule // the cname rules among those that count
	shown   []shownOption
}

// apply goes through the rules and gives the cname rules among those that count.
func (h *Rewrite) apply(r *server.Reply, q *server.Query) (server.Verdict, []*rule) {
	buf := h.texts.Get().(*[]byte)
	defer h.texts.Put(buf)
	pass := run{text: wire.AppendPresentation((*buf)[:0], q.Name.Folded())}
	for i := range h.rules {
		ru := &h.rules[i]
		if !ru.applies(q, &pass) {
			continue
		}
		if err := pass.carry(r, q, ru, i); err != nil {
			return r.Fail(err), nil
		}
		if !ru.Continue {
			break
		}
	}
	if !q.Followed() {
		for _, o := range pass.shown {
			r.AddOption(o.code, o.data)
		}
	}
	if pass.direct != 0 {
		r.OnFinish(h, pass.direct)
	}
	if pass.back != nil && len(pass.back.steps) > 0 {
		r.OnFinish(pass.back, 0)
	}
	return server.Pass, pass.targets
}

// carry carries out rule i, which applies.
func (p *run) carry(r *server.Reply, q *server.Query, ru *rule, i int) error {
	switch ru.Field {
	case CNAME:
		p.targets = append(p.targets, ru)
		return nil
	case TTL, RCode:
		if i < 64 && r.Empty() {
			p.direct |= 1 << i
			return nil
		}
	case Name:
	default:
		return nil // carried out when it was found to apply
	}
	if p.back == nil {
		p.back = newUndo(r, q)
	}
	if err := p.back.add(q, ru, string(p.text)); err != nil {
		return err
	}
	p.text = wire.AppendPresentation(p.text[:0], q.Name.Folded())
	return nil
}

// Finish carries out the ttl and rcode rules whose bits are set, in their order.
func (h *Rewrite) Finish(r *server.Reply, _ *server.Query, rules uint64) {
	for ; rules != 0; rules &= rules - 1 {
		switch ru := &h.rules[bits.TrailingZeros64(rules)]; {
		case ru.Field == TTL:
			r.BoundTTL(ru.MinTTL, ru.MaxTTL)
		case r.RCode() == wire.RCode(ru.Old):
			r.SetRCode(wire.RCode(ru.New))
		}
	}
}

// applies says whether a rule is for the query. Rules of type, class and edns0 are carried out at once.
func (ru *rule) applies(q *server.Query, pass *run) bool {
	switch ru.Field {
	case Type:
		if uint16(q.Type) != ru.Old {
			return false
		}
		q.Type = wire.Type(ru.New)
		return true
	case Class:
		if uint16(q.Class) != ru.Old {
			return false
		}
		q.Class = wire.Class(ru.New)
		return true
	case EDNS:
		return ru.Option.apply(q, &pass.shown)
	case CNAME:
		return true
	}
	return ru.matches(pass.text)
}

// matches compares a name in presentation form and lower case.
func (ru *rule) matches(text []byte) bool {
	switch ru.Match {
	case Prefix:
		return bytes.HasPrefix(text, ru.from)
	case Suffix:
		return bytes.HasSuffix(text, ru.from)
	case Substring:
		return bytes.Contains(text, ru.from)
	case Regex:
		return ru.re.Match(text)
	}
	return bytes.Equal(text, ru.from)
}

// replace makes the new name of one that matches.
func (ru *rule) replace(text string) string {
	switch ru.Match {
	case Prefix:
		return ru.To + strings.TrimPrefix(text, ru.From)
	case Suffix:
		return strings.TrimSuffix(text, ru.From) + ru.To
	case Substring:
		return strings.ReplaceAll(text, ru.From, ru.To)
	case Regex:
		return expand(ru.re.FindStringSubmatch(text), ru.To)
	}
	return ru.To
}

// expand puts the groups of a match into the places {0}, {1}, … of a name.
func expand(match []string, to string) string {
	for i, m := range match {
		to = strings.ReplaceAll(to, "{"+strconv.Itoa(i)+"}", m)
	}
	return to
}

// rename makes the query look for the name that a name rule gives.
func (ru *rule) rename(q *server.Query, text string) error {
	to := ru.replace(text)
	name, err := wire.ParseName(to)
	if err == nil {
		err = q.SetName(name)
	}
	if err != nil {
		return fmt.Errorf("rewrite: %s became %s, which is not a domain name: %w", text, to, err)
	}
	return nil
}
