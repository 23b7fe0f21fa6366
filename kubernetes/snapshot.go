package kubernetes

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// The pace of snapshots.
const (
	// firstChance is how long a start waits for the API server before the snapshot is read: one that is there delivers a large cluster in
	// that time, and its answers are right, while those of a snapshot may not be.
	firstChance = 500 * time.Millisecond
	// snapshotEvery bounds how often the file is written while the cluster changes. To encode 75,000 endpoints takes some tenths of a second.
	snapshotEvery = 10 * time.Second
	// abandoned is the age at which a half-written file is taken for one that a killed process left behind.
	abandoned = time.Minute
)

// snapshotter keeps the file of the option snapshot: it writes what the API server has told, and reads it back where there is no API server.
type snapshotter struct {
	file    string
	index   *Index
	scope   scope
	log     *slog.Logger
	chance  time.Duration
	every   time.Duration
	saved   uint64       // the edits of the index that the file shows
	own     fs.FileInfo  // of the file as it was written last; nil before
	failed  bool         // the last attempt to write it, which was logged
	written atomic.Int64 // when the data of the file were current, in Unix nanoseconds; 0 for never
}

func newSnapshotter(o *Options, x *Index, log *slog.Logger) *snapshotter {
	return &snapshotter{file: o.Snapshot, index: x, scope: o.scope(), log: log.With("file", o.Snapshot), chance: firstChance, every: snapshotEvery}
}

// run returns when ctx has ended and the file is up to date.
func (s *snapshotter) run(ctx context.Context) {
	late := time.NewTimer(s.chance)
	defer late.Stop()
	select {
	case <-s.index.current:
	case <-late.C:
		s.restore()
	case <-ctx.Done():
	}
	select {
	case <-s.index.current:
	case <-ctx.Done():
		return // the file knows as much as we do
	}
	s.tidy()
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		s.save()
		select {
		case <-tick.C:
		case <-ctx.Done():
			if !s.taken() { // else whoever comes after this one keeps it
				s.save()
			}
			return
		}
	}
}

// restore fills the index from the file. What the API server has told already stays.
func (s *snapshotter) restore() {
	state, err := readSnapshot(s.file, s.scope)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.log.Info("kubernetes: there is no snapshot yet; names are SERVFAIL until the API server can be read")
		return
	case err != nil:
		s.log.Warn("kubernetes: the snapshot is not used; names are SERVFAIL until the API server can be read", "err", err)
		return
	}
	s.written.Store(state.Written.UnixNano())
	if s.index.restore(&state.objects) {
		s.log.Warn("kubernetes: answering from the snapshot until the API server can be read",
			"age", time.Since(state.Written).Round(time.Second), "objects", state.count)
	}
	debug.FreeOSMemory() // decoding leaves several times the objects' size behind
}

// taken says whether another has written the file since: after a reload that changes what is read, the configuration before works on for some seconds.
func (s *snapshotter) taken() bool {
	info, err := os.Stat(s.file)
	if err != nil || s.own == nil {
		return false
	}
	// A file system gives what is new the number of what was removed, so the number alone does not tell.
	return !os.SameFile(info, s.own) || info.Size() != s.own.Size() || !info.ModTime().Equal(s.own.ModTime())
}

// save writes the file if the index has changed, or if it was taken for something else: of the same, another's is as good, and two directives with one file
// would write in turn for ever. A failure is logged when it begins, and again when it ends.
func (s *snapshotter) save() {
	edits := s.index.edits.Load()
	if edits == s.saved && (!s.taken() || isSnapshotOf(s.file, s.scope)) {
		return
	}
	now := time.Now()
	own, err := writeSnapshot(s.file, heading{snapshotFormat, now.UTC(), s.scope}, s.index.Objects)
	switch {
	case err != nil && !s.failed:
		s.log.Warn("kubernetes: the snapshot cannot be written; what was written before stays", "err", err)
	case err == nil && s.failed:
		s.log.Info("kubernetes: the snapshot can be written again")
	}
	s.failed = err != nil
	if err == nil {
		s.saved, s.own = edits, own
		s.written.Store(now.UnixNano())
	}
}

// tidy removes what processes that were killed while they wrote left behind.
func (s *snapshotter) tidy() {
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(s.file), temporary(s.file)))
	for _, f := range left {
		if info, err := os.Lstat(f); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(f) // in the worst case it stays
		}
	}
}

// age is that of the data, as long as answers come from the file.
func (s *snapshotter) age() (time.Duration, bool) {
	return time.Since(time.Unix(0, s.written.Load())), s.index.stale.Load()
}

// restore makes objects all there is of each kind that the source has not delivered, and says whether there was any.
func (x *Index) restore(objects *[numKinds][]Object) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	used := false
	for k := range numKinds {
		if !x.needs[k] || x.fresh[k] {
			continue
		}
		used = true
		x.stale.Store(true) // before the first answer
		x.replace(k, slices.Values(objects[k]))
	}
	x.settle()
	return used
}

// Stale says whether answers come, in part at least, from a snapshot.
func (x *Index) Stale() bool { return x.stale.Load() }

// Staleness is why answers may not be current, for clients, or "" if they are.
func (x *Index) Staleness() string {
	if x.stale.Load() {
		return staleText
	}
	return ""
}

// snapshotBatch is how many objects are copied while the index cannot change: well under a millisecond's worth.
const snapshotBatch = 64

// Objects gives every object that the index holds, by kinds and within them always in the same order, in a form that makes the same again: what it was
// reduced to. It copies a few at a time, so that changes and queries go on; what changes meanwhile may or may not be seen. Beside the copies it takes 16 bytes
// for each object of a kind. It is an iter.Seq, and may be called concurrently.
func (x *Index) Objects(yield func(Object) bool) {
	for k := range numKinds {
		keys := x.keys(k)
		slices.Sort(keys)
		for keys := range slices.Chunk(keys, snapshotBatch) {
			for _, o := range x.copies(k, keys) {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// keys are those of a kind.
func (x *Index) keys(k Kind) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch k {
	case KindNamespace:
		return keysOf(x.known)
	case KindService:
		return keysOf(x.cells)
	case KindEndpointSlice:
		return keysOf(x.slices)
	}
	return keysOf(x.pods)
}

func keysOf[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

// copies are the objects of some keys, without those that have gone.
func (x *Index) copies(k Kind, keys []string) (out []Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range keys {
		if o := x.copyOf(k, key); o != nil {
			out = append(out, o)
		}
	}
	return out
}

func (x *Index) copyOf(k Kind, key string) Object {
	switch k {
	case KindNamespace:
		if s := x.known[key]; s != nil && s.exists.Load() {
			return &Namespace{Name: dotted(key)}
		}
	case KindService:
		if c := x.cells[key]; c != nil && c.svc != nil {
			return c.svc.object(splitKey(key))
		}
	case KindEndpointSlice:
		if s := x.slices[key]; s != nil {
			namespace, service := splitKey(s.cell.key)
			o := s.object(namespace, service)
			_, o.Name, _ = strings.Cut(key, "/")
			return &o
		}
	case KindPod:
		if p := x.pods[key]; p != nil {
			o := &Pod{Namespace: p.namespace.Value(), Name: p.name}
			p.each(func(a *[16]byte) { o.IPs = append(o.IPs, netip.AddrFrom16(*a).Unmap()) })
			return o
		}
	}
	return nil
}

// staleText tells clients why an answer is marked.
const staleText = "from a snapshot: the API server could not be read since the start"
