package server

// textSpan says where in Reply.words the text of an Extended DNS Error stands.
type textSpan struct {
	index  int // in Reply.errors
	lo, hi int
}

// AddEDE adds an Extended DNS Error for a client that sent EDNS; it is left out where it does not fit. Callers build
// text only if WantsEDE, so that it costs nothing otherwise.
func (r *Reply) AddEDE(code uint16, text string) {
	if r.WantsEDE() {
		r.errors = append(r.errors, ExtendedError{code, text})
	}
}

// AddEDEText is AddEDE for a text that was made for this reply, in a buffer of the caller's: it is copied, and takes no memory of its own.
func (r *Reply) AddEDEText(code uint16, text []byte) {
	if !r.WantsEDE() {
		return
	}
	lo := len(r.words)
	r.words = append(r.words, text...)
	r.texts = append(r.texts, textSpan{len(r.errors), lo, len(r.words)})
	r.errors = append(r.errors, ExtendedError{Code: code})
}

// MarkStale adds the Extended DNS Error of an answer that may not be current, once: a query that comes by again, at the target of a CNAME, is marked
// already. It costs nothing where nobody can read it.
func (r *Reply) MarkStale(why string) {
	if !r.WantsEDE() {
		return
	}
	for _, e := range r.EDE() {
		if e.Code == EDEStaleAnswer && e.Text == why {
			return
		}
	}
	r.AddEDE(EDEStaleAnswer, why)
}

// failed is Fail that tells the client as well: for errors of which it may know.
func (r *Reply) failed(err error) Verdict {
	r.AddEDE(EDEOther, err.Error())
	return r.Fail(err)
}

// WantsEDE says whether an Extended DNS Error could reach the client: it sent EDNS, and the block does not forbid it.
func (r *Reply) WantsEDE() bool {
	return r.q.Transport == Internal || r.q.EDNS.Present && (r.q.Block == nil || !r.q.Block.Options.NoEDE)
}

// EDE are the Extended DNS Errors added so far. They alias the reply, their texts do not.
func (r *Reply) EDE() []ExtendedError {
	for _, t := range r.texts {
		r.errors[t.index].Text = string(r.words[t.lo:t.hi])
	}
	r.texts = r.texts[:0]
	return r.errors
}

// putErrors appends the Extended DNS Errors to the OPT record that is being written (RFC 8914 2). Those that do not fit are left out.
func (r *Reply) putErrors() {
	texts := r.texts
	for i := range r.errors {
		e := &r.errors[i]
		var words []byte
		if len(texts) > 0 && texts[0].index == i {
			words, texts = r.words[texts[0].lo:texts[0].hi], texts[1:]
		}
		l := 2 + len(e.Text) + len(words)
		if len(r.buf)+4+l > r.limit {
			break
		}
		r.buf = append(r.buf, 0, optEDE, byte(l>>8), byte(l), byte(e.Code>>8), byte(e.Code))
		r.buf = append(append(r.buf, e.Text...), words...)
	}
}
