package config

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The pace of noticing that files changed.
const (
	settle    = 100 * time.Millisecond // writers that do not replace a file in one step are done after so long without another change
	unsettled = time.Second            // the longest wait for that, so that a change is acted upon within two seconds whatever happens
)

// Run takes up changes of the Corefile and of what it imports, while a reload directive is in use, until ctx ends. Changes are noticed
// as the system tells of them; where it does not, such as on some network file systems, they are found by looking at the directive's interval.
func (i *Instance) Run(ctx context.Context) error {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		i.shared.Logger("reload").Warn(fmt.Sprintf("files cannot be watched, so they are only read again every interval: %v", err))
		fs = &fsnotify.Watcher{} // nil channels: nothing ever comes
	} else {
		defer func() { _ = fs.Close() }()
	}
	for ctx.Err() == nil {
		i.follow(ctx, fs)
	}
	return nil
}

// follow watches by the configuration in use until that changes or ctx ends.
func (i *Instance) follow(ctx context.Context, fs *fsnotify.Watcher) {
	o := i.attend(ctx, fs)
	var poll <-chan time.Time // nothing is looked for without the directive
	if o != nil {
		t := time.NewTicker(o.Interval - o.Jitter + rand.N(2*o.Jitter+1))
		defer t.Stop()
		poll = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.kick:
			return
		case <-fs.Events:
			if o != nil {
				calm(ctx, fs)
			}
		case err := <-fs.Errors: // some events were lost: look
			i.shared.Logger("reload").Debug(fmt.Sprintf("watching files: %v", err))
		case <-poll:
		}
		i.reading.Lock()
		if o != nil && fs.Events != nil {
			i.watch(fs, i.gen.config) // folders that were not there may be now
		}
		i.look(ctx, o)
		i.reading.Unlock()
	}
}

// attend begins to watch by the configuration in use, and gives its reload directive, or nil.
func (i *Instance) attend(ctx context.Context, fs *fsnotify.Watcher) *reloadOptions {
	i.reading.Lock()
	defer i.reading.Unlock()
	if i.gen == nil || i.path == "" || i.gen.reload == nil {
		return nil
	}
	o := i.gen.reload
	if fs.Events != nil {
		i.watch(fs, i.gen.config)
	}
	i.look(ctx, o) // at what changed before it was watched
	return o
}

// look reads the Corefile again if there is a reload directive. i.reading is held.
func (i *Instance) look(ctx context.Context, o *reloadOptions) {
	if o != nil && ctx.Err() == nil {
		_ = i.reread(ctx, false) // it has been counted and logged
	}
}

// calm waits until nothing has changed for a moment.
func calm(ctx context.Context, fs *fsnotify.Watcher) {
	end := time.NewTimer(unsettled)
	defer end.Stop()
	for {
		select {
		case <-fs.Events:
		case <-time.After(settle):
			return
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// watch makes fs watch the folders of the files of a configuration, as named and as links lead to: a file that is replaced, and a ConfigMap, where a
// link to a folder is, change their folders and not themselves.
func (i *Instance) watch(fs *fsnotify.Watcher, c *Config) {
	want := map[string]bool{}
	add := func(file string) {
		want[filepath.Dir(file)] = true
		if real, err := filepath.EvalSymlinks(file); err == nil {
			want[filepath.Dir(real)] = true
		}
	}
	add(i.path)
	for _, m := range c.imports {
		add(m.pattern)
		for _, f := range m.files {
			add(f)
		}
	}
	for _, dir := range fs.WatchList() {
		if !want[dir] {
			_ = fs.Remove(dir) // it may have gone already
		}
	}
	for dir := range want {
		if err := fs.Add(dir); err != nil {
			i.shared.Logger("reload").Debug(fmt.Sprintf("cannot watch %s: %v", dir, err))
		}
	}
}
