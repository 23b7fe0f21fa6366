package zone

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Table is the zones of a handler, which come and go while it answers.
type Table struct {
	mu    sync.Mutex // held by who changes it
	zones atomic.Pointer[map[wire.Canonical]served]
}

// served is a zone that is ours; its records may not be known.
type served struct {
	zone *Zone
	fall zones.Fallthrough
}

// Own makes a zone ours, with what falls through of it. Its records come by Set.
func (t *Table) Own(origin wire.Zone, fall zones.Fallthrough) {
	t.change(func(m map[wire.Canonical]served) { m[origin.Name()] = served{m[origin.Name()].zone, fall} })
}

// Set puts the records of a zone in place of those before. nil means that they are not known.
func (t *Table) Set(origin wire.Zone, z *Zone) {
	t.change(func(m map[wire.Canonical]served) { m[origin.Name()] = served{z, m[origin.Name()].fall} })
}

// Delete takes a zone away.
func (t *Table) Delete(origin wire.Zone) {
	t.change(func(m map[wire.Canonical]served) { delete(m, origin.Name()) })
}

func (t *Table) change(f func(map[wire.Canonical]served)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := map[wire.Canonical]served{}
	if old := t.zones.Load(); old != nil {
		m = maps.Clone(*old)
	}
	f(m)
	t.zones.Store(&m)
}

// Get gives the zone of exactly that origin; known says whether it is ours.
func (t *Table) Get(origin wire.Zone) (z *Zone, known bool) {
	m := t.zones.Load()
	if m == nil {
		return nil, false
	}
	s, known := (*m)[origin.Name()]
	return s.zone, known
}

// find gives the zone with most labels that n is in. DS records at the apex of one are in the zone above, if that is ours too.
func (t *Table) find(n *wire.Name, typ wire.Type) (s served, known bool) {
	m := t.zones.Load()
	if m == nil || len(*m) == 0 {
		return s, false
	}
	for i := 0; i <= n.Labels(); i++ {
		found, ok := (*m)[wire.Canonical(n.Suffix(i))]
		if !ok {
			continue
		}
		if s, known = found, true; i > 0 || typ != wire.TypeDS {
			return s, true
		}
	}
	return s, known
}

// Answer answers from the zone that the name is in. A zone whose records are not known is SERVFAIL.
func (t *Table) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Class != wire.ClassIN && q.Class != wire.ClassANY {
		return server.Pass
	}
	s, known := t.find(&q.Name, q.Type)
	switch {
	case !known:
		return server.Pass
	case s.zone == nil:
		r.AddEDE(server.EDENotReady, "")
		return r.Fail(nil)
	}
	return s.zone.Answer(r, q, s.fall.For(&q.Name))
}

// TransferZone gives what a transfer of a zone consists of: its serial and all records, the SOA record first and once. ok is false if it is
// not ours, or not known.
func (t *Table) TransferZone(origin wire.Zone) (all iter.Seq[server.Record], serial uint32, ok bool) {
	z, _ := t.Get(origin)
	if z == nil {
		return nil, 0, false
	}
	return z.Records(), z.Serial(), true
}

// Loader reads a zone's file into a table, again whenever the file changed.
type Loader struct {
	Table   *Table
	Origin  wire.Zone
	File    string
	ByMtime bool // a file that was changed is another version, even with the same serial
	Log     *slog.Logger
	Changed func(origin wire.Zone) // called with another version of the zone in the table; may be nil

	seen    time.Time
	size    int64
	failing bool
}

// Look reads the file if its time of change or its size is another than before. A file that is bad leaves the zone as it was. A file whose
// SOA record has the serial of the zone before is no other version of it, unless ByMtime says otherwise.
func (l *Loader) Look() {
	if err := l.look(); err != nil {
		if !l.failing {
			l.Log.Error(fmt.Sprintf("zone %s cannot be read; %s", l.Origin, l.state()), "error", err)
		}
		l.failing = true
		return
	}
	l.failing = false
}

func (l *Loader) state() string {
	if z, _ := l.Table.Get(l.Origin); z != nil {
		return fmt.Sprintf("serial %d is still served", z.Serial())
	}
	return "its names are SERVFAIL"
}

func (l *Loader) look() error {
	info, err := os.Stat(l.File)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(l.seen) && info.Size() == l.size {
		return nil
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for
		return &os.PathError{Op: "read", Path: l.File, Err: errNoFile}
	}
	f, err := os.Open(l.File)
	if err != nil {
		return err
	}
	defer f.Close()
	file, err := filepath.Abs(l.File) // what it includes is looked for from there
	if err != nil {
		return err
	}
	z, err := Parse(f, l.Origin, file)
	if err != nil {
		return err
	}
	l.seen, l.size = info.ModTime(), info.Size()
	old, _ := l.Table.Get(l.Origin)
	if old != nil && old.Serial() == z.Serial() && !l.ByMtime {
		l.Log.Debug(fmt.Sprintf("zone %s: the file changed, serial %d did not", l.Origin, z.Serial()))
		return nil
	}
	l.Table.Set(l.Origin, z)
	l.Log.Info(fmt.Sprintf("zone %s: serial %d with %d records", l.Origin, z.Serial(), z.Len()))
	if l.Changed != nil {
		l.Changed(l.Origin)
	}
	return nil
}
