package log

import "time"

// compileJSON makes what appends one JSON object per line. labels are those of metadata, which become members of their own.
func compileJSON(labels []string) []op {
	ops := []op{
		{addText, `{"time":"`}, {addJSONTime, ""},
		{addText, `","client":"`}, {addJSONClient, ""},
		{addText, `","port":`}, {addPort, ""},
		{addText, `,"proto":"`}, {addJSONProto, ""},
		{addText, `","id":`}, {addID, ""},
		{addText, `,"type":"`}, {addType, ""},
		{addText, `","class":"`}, {addClass, ""},
		{addText, `","name":"`}, {addJSONName, ""},
		{addText, `","size":`}, {addSize, ""},
		{addText, `,"do":`}, {addDO, ""},
		{addText, `,"bufsize":`}, {addBufSize, ""},
		{addText, `,"rcode":"`}, {addRCode, ""},
		{addText, `","flags":"`}, {addFlags, ""},
		{addText, `","rsize":`}, {addReplySize, ""},
		{addText, `,"duration":`}, {addJSONSeconds, ""},
		{addText, `,"zone":"`}, {addJSONZone, ""},
		{addText, `"`}, {addJSONView, ""},
		{addText, `,"plugin":"`}, {addJSONPlugin, ""},
		{addText, `"`}, {addJSONReason, ""},
	}
	for _, l := range labels {
		ops = append(ops, op{addJSONLabel, l})
	}
	return append(ops, op{addText, "}"})
}

// addJSONTime appends when the query was received, in UTC: what every JSON log store reads.
func addJSONTime(b []byte, e *entry, _ string) []byte {
	return e.q.Received.UTC().AppendFormat(b, time.RFC3339Nano)
}

// addJSONClient appends the client's address without brackets: its port is a member of its own.
func addJSONClient(b []byte, e *entry, _ string) []byte {
	if a := e.q.Client.Addr(); a.IsValid() {
		return a.AppendTo(b)
	}
	return b
}

// addJSONProto appends the transport, more exactly than lines of text may.
func addJSONProto(b []byte, e *entry, _ string) []byte {
	return append(b, e.q.Transport.String()...)
}

// addJSONName appends the name; in presentation form only backslashes and quotes are left to escape.
func addJSONName(b []byte, e *entry, _ string) []byte {
	at := len(b)
	b = addName(b, e, "")
	return escapeTail(b, at)
}

// escapeTail escapes the quotes and backslashes of b[at:] in place.
func escapeTail(b []byte, at int) []byte {
	n := 0
	for _, c := range b[at:] {
		if c == '"' || c == '\\' {
			n++
		}
	}
	if n == 0 {
		return b
	}
	end := len(b)
	for range n {
		b = append(b, 0)
	}
	for from, to := end-1, len(b)-1; from < to; from, to = from-1, to-1 {
		b[to] = b[from]
		if c := b[from]; c == '"' || c == '\\' {
			to--
			b[to] = '\\'
		}
	}
	return b
}

func addJSONSeconds(b []byte, e *entry, _ string) []byte { return appendSeconds(b, e.took) }

func addJSONZone(b []byte, e *entry, _ string) []byte   { return appendSafe(b, e.q.Block.ZoneName) }
func addJSONPlugin(b []byte, e *entry, _ string) []byte { return appendSafe(b, e.r.By()) }

// addJSONView appends a member of its own where there is a view.
func addJSONView(b []byte, e *entry, _ string) []byte {
	if e.q.Block.View == "" {
		return b
	}
	b = appendSafe(append(b, `,"view":"`...), e.q.Block.View)
	return append(b, '"')
}

// addJSONReason appends a member of its own where something went wrong.
func addJSONReason(b []byte, e *entry, _ string) []byte {
	const member = `,"reason":"`
	at := len(b)
	b = appendReason(append(b, member...), e.r)
	if len(b) == at+len(member) {
		return b[:at]
	}
	return append(b, '"')
}

// addJSONLabel appends a member for a label of metadata that has a value.
func addJSONLabel(b []byte, e *entry, label string) []byte {
	v := e.label(label)
	if v == "" {
		return b
	}
	b = appendSafe(append(b, ',', '"'), label)
	b = appendSafe(append(b, '"', ':', '"'), v)
	return append(b, '"')
}
