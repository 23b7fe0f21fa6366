package kubernetes

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The times of following files.
const (
	// settleTime is how long after a change files are read: an editor that writes in several steps has finished by then, and a change
	// still shows well within a second.
	settleTime = 100 * time.Millisecond
	// maxSettle bounds that for files that never come to rest.
	maxSettle = 500 * time.Millisecond
	// rescanTime is how often files are looked at even if no change was announced: network file systems announce none.
	rescanTime = time.Second
)

// Manifests is the Source that reads a cluster from files of Kubernetes objects in YAML or JSON: single ones, several documents in one file, and lists,
// such as kubectl get -o yaml writes. It follows changes of the files. A file that turns bad keeps its last good state.
//
// Of a folder, the files directly in it that end in .yaml, .yml or .json are read, hidden ones not.
type Manifests struct {
	opts    Options
	metrics *SourceMetrics // nil for none
	log     *slog.Logger
	files   map[string]*manifestFile // by path
	empty   map[string]bool          // of the paths of the options, those without an object, which has been said
	running bool                     // the start is over: what is wrong is logged, and no error any more
	bad     int                      // how many files the metric has been told of
}

// manifestFile is a file as it was read last.
type manifestFile struct {
	info fs.FileInfo
	sum  [sha256.Size]byte
	good *manifest // the last that could be read; nil if none could
	err  error     // why the newest could not
}

// NewManifests is a source for Options.Manifests. metrics and log may be nil.
func NewManifests(o Options, metrics *SourceMetrics, log *slog.Logger) *Manifests {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Manifests{opts: o, metrics: metrics, log: log, files: map[string]*manifestFile{}, empty: map[string]bool{}}
}

// Run implements Source. It fails if a file cannot be read at the start.
func (m *Manifests) Run(ctx context.Context, to Sink) error {
	dec, err := newDecoder(&m.opts, m.warn)
	if err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		m.log.Warn("changes of manifests are noticed by looking at the files only", "error", err)
		w = &fsnotify.Watcher{} // its channels are nil: nothing ever comes
	} else {
		defer func() { _ = w.Close() }()
	}
	defer func() { m.count(0) }() // a source that has ended has no files
	m.watch(w)                    // before reading, so that no change is missed in between
	if _, err := m.scan(dec, true); err != nil {
		return err
	}
	m.running = true
	m.deliver(to)
	m.follow(ctx, w, dec, to)
	return nil
}

// follow reads files again as they change, until ctx ends.
func (m *Manifests) follow(ctx context.Context, w *fsnotify.Watcher, dec *decoder, to Sink) {
	rescan := time.NewTicker(rescanTime)
	defer rescan.Stop()
	var settle <-chan time.Time
	var first time.Time
	for {
		var changed bool
		select {
		case <-ctx.Done():
			return
		case <-w.Events:
			if settle == nil {
				first = time.Now()
			}
			settle = time.After(max(0, min(settleTime, maxSettle-time.Since(first))))
			continue
		case err := <-w.Errors:
			m.log.Warn("watching manifests", "error", err)
			continue
		case <-settle:
			settle = nil
			changed, _ = m.scan(dec, true)
		case <-rescan.C:
			changed, _ = m.scan(dec, false)
		}
		if changed {
			m.watch(w)
			m.deliver(to)
		}
	}
}

// watch makes sure that the folders of all files are watched, and those that symbolic links lead to: files are replaced by renaming,
// and mounted ConfigMaps by swapping a link. Watching a folder twice does no harm.
func (m *Manifests) watch(w *fsnotify.Watcher) {
	if w.Events == nil {
		return
	}
	dirs := map[string]bool{}
	note := func(p string) {
		dirs[filepath.Dir(p)] = true
		if real, err := filepath.EvalSymlinks(p); err == nil {
			dirs[filepath.Dir(real)] = true
			if st, err := os.Stat(real); err == nil && st.IsDir() {
				dirs[real] = true
			}
		}
	}
	for _, p := range m.opts.Manifests {
		note(p)
	}
	for p := range m.files {
		note(p)
	}
	for d := range dirs {
		if err := w.Add(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.log.Warn("folder of manifests cannot be watched", "folder", d, "error", err)
		}
	}
}

// list gives the files to read. A path that is not there is one of them, and what was read from it stays.
func (m *Manifests) list() (files []string, err error) {
	var errs []error
	for _, p := range m.opts.Manifests {
		st, err := os.Stat(p)
		switch {
		case err != nil:
			files = append(files, p)
			for f := range m.files {
				if filepath.Dir(f) == filepath.Clean(p) {
					files = append(files, f)
				}
			}
			continue
		case !st.IsDir():
			files = append(files, p)
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("manifests: %w", err))
		}
		for _, e := range entries {
			if isManifest(e.Name()) {
				files = append(files, filepath.Join(p, e.Name()))
			}
		}
	}
	return files, errors.Join(errs...)
}

func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !strings.HasPrefix(name, ".")
	}
	return false
}

// scan reads the files that have changed and says whether what there is to serve has. Without all, only those whose size, time or
// identity differs are read. The error joins one for each object that is not as it should be; once running, each is logged once.
func (m *Manifests) scan(dec *decoder, all bool) (changed bool, err error) {
	paths, err := m.list()
	errs := []error{err}
	for p := range m.files {
		if !slices.Contains(paths, p) {
			delete(m.files, p)
			changed = true
		}
	}
	bad := 0
	for _, p := range paths {
		f := m.files[p]
		if f == nil {
			f = new(manifestFile)
			m.files[p] = f
		}
		before := f.err
		c, err := f.read(p, dec, all)
		if c && m.running {
			m.tell(p, f, before)
		}
		if err != nil {
			bad++
			errs = append(errs, prefixed(err))
		}
		changed = changed || c
	}
	m.count(bad)
	m.tellEmpty()
	return changed, errors.Join(errs...)
}

// prefixed names the option before each of the errors of a file.
func prefixed(err error) error {
	each := faults(err)
	for i := range each {
		each[i] = fmt.Errorf("manifests: %w", each[i])
	}
	return errors.Join(each...)
}

// faults are the single errors that were joined.
func faults(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) // only what is joined here is taken apart
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, faults(e)...)
	}
	return out
}

// tell logs what has become of a file that has changed.
func (m *Manifests) tell(path string, f *manifestFile, before error) {
	switch {
	case f.err == nil && before != nil:
		m.log.Info("manifest can be used again", "file", path)
	case f.err != nil:
		text := "manifest cannot be used"
		if f.good != nil {
			text += "; its last good state stays"
		}
		for _, e := range faults(f.err) {
			m.log.Error(text, "file", path, "error", e)
		}
	}
}

// count tells the metric how many files cannot be used.
func (m *Manifests) count(bad int) {
	if m.metrics != nil && bad != m.bad {
		m.metrics.badManifests.Add(float64(bad - m.bad))
	}
	m.bad = bad
}

// tellEmpty warns of paths from which nothing comes, once for as long as that lasts: a mistyped folder would look like an empty cluster.
func (m *Manifests) tellEmpty() {
	for _, p := range m.opts.Manifests {
		files, objects := 0, 0
		for path, f := range m.files {
			if path != p && filepath.Dir(path) != filepath.Clean(p) {
				continue
			}
			files++
			if f.good != nil {
				objects += f.good.read
			}
			if f.err != nil {
				objects++ // there may be some, and the error is told
			}
		}
		if objects == 0 && !m.empty[p] {
			m.log.Warn(emptyText(p, files))
		}
		m.empty[p] = objects == 0
	}
}

func emptyText(path string, files int) string {
	st, err := os.Stat(path)
	switch folder := err == nil && st.IsDir(); {
	case folder && files == 0:
		return fmt.Sprintf("no objects in %s/ (only .yaml, .yml and .json are read)", strings.TrimSuffix(path, "/"))
	case folder:
		path = strings.TrimSuffix(path, "/") + "/"
	}
	return fmt.Sprintf("no objects in %s of a kind that is read: Namespace, Service, EndpointSlice, Endpoints, and Pod for pods verified", path)
}

// warn tells of what is most likely not meant in a file.
func (m *Manifests) warn(place, what string) { m.log.Warn(place + ": " + what) }

// read reads a file if it has changed since, and says whether it has. The error is that of its newest state.
func (f *manifestFile) read(path string, dec *decoder, all bool) (changed bool, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return f.lost(err)
	}
	if !all && f.same(st) {
		return false, f.err
	}
	if err := readable(path, st); err != nil {
		return f.lost(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return f.lost(err)
	}
	f.info = st
	sum := sha256.Sum256(data)
	if sum == f.sum {
		return false, f.err
	}
	f.sum = sum
	good, err := dec.decode(path, data)
	f.err = err
	if err == nil {
		f.good = good
	}
	return true, err
}

// maxManifest bounds a file of manifests: the objects of 10,000 Services with 100,000 endpoints, as kubectl writes them, are 100 MiB. To read YAML takes
// twenty times the memory of its text.
const maxManifest = 256 << 20

// readable says why a file is none that is read.
func readable(path string, st fs.FileInfo) error {
	switch {
	case !st.Mode().IsRegular(): // a pipe would be waited for
		return &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no regular file")}
	case st.Size() > maxManifest:
		return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d MiB", maxManifest>>20)}
	}
	return nil
}

// lost notes that the file cannot be read.
func (f *manifestFile) lost(err error) (changed bool, _ error) {
	again := f.info == nil && f.err != nil // it is logged once
	f.info, f.err, f.sum = nil, err, [sha256.Size]byte{}
	return !again, err
}

// same says whether the file looks as it did when it was read.
func (f *manifestFile) same(st fs.FileInfo) bool {
	return f.info != nil && os.SameFile(st, f.info) && st.Size() == f.info.Size() && st.ModTime().Equal(f.info.ModTime())
}

// deliver gives the sink everything. Of objects that stand in several files the last counts, in the order of their paths.
func (m *Manifests) deliver(to Sink) {
	good := m.good()
	var kinds [numKinds][]Object
	services := map[string]*Service{}
	implied := map[string]bool{}
	for _, f := range good {
		for _, o := range f.objects {
			kinds[o.Kind()] = append(kinds[o.Kind()], o)
			if s, ok := o.(*Service); ok {
				services[objectKey(s.Key())] = s
			}
		}
		maps.Copy(implied, f.namespaces)
	}
	if m.opts.NamespaceLabels == "" {
		for ns := range implied {
			kinds[KindNamespace] = append(kinds[KindNamespace], &Namespace{Name: ns})
		}
	}
	for _, f := range good {
		kinds[KindEndpointSlice] = append(kinds[KindEndpointSlice], f.mirrored(services)...)
	}
	for k := range numKinds {
		if m.opts.Needed(k) {
			to.Replace(k, slices.Values(kinds[k]))
		}
	}
}

// good are the last good states of the files in the order of their paths.
func (m *Manifests) good() (out []*manifest) {
	for _, p := range slices.Sorted(maps.Keys(m.files)) {
		if f := m.files[p].good; f != nil {
			out = append(out, f)
		}
	}
	return out
}

// mirrored are the slices of a file's Endpoints objects whose Services have no selector.
func (m *manifest) mirrored(services map[string]*Service) (out []Object) {
	for _, e := range m.endpoints {
		if s := services[objectKey(e.Namespace, e.Name)]; s == nil || s.Selector {
			continue
		}
		for _, s := range mirror(e) {
			out = append(out, s)
		}
	}
	return out
}
