package server

// ednsOption is an EDNS option of the reply (RFC 6891 6.1.2).
type ednsOption struct {
	code uint16
	data string
}

// AddOption puts an option into the OPT record of the reply. It is left out for a client that sent no EDNS, and where it does not fit.
// Extended DNS Errors have AddEDE.
func (r *Reply) AddOption(code uint16, data string) {
	r.options = append(r.options, ednsOption{code, data})
}

// putOptions appends the added options to the OPT record that is being written.
func (r *Reply) putOptions() {
	for i := range r.options {
		o := &r.options[i]
		l := len(o.data)
		if len(r.buf)+4+l > r.limit {
			continue
		}
		r.buf = append(r.buf, byte(o.code>>8), byte(o.code), byte(l>>8), byte(l))
		r.buf = append(r.buf, o.data...)
	}
}
