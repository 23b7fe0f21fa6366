// Package auto is the directive of that name: it answers from the zone files of a folder, which come and go while it runs.
package auto

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/match"
	"github.com/clusterdns/clusterdns/plugin/internal/poll"
	"github.com/clusterdns/clusterdns/plugin/internal/zone"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are those of an auto directive.
type Options struct {
	Zones       zones.Set // names outside are never answered
	Dir         string
	Pattern     string // of file names
	Origin      string // the zone's name, with {1} for what the first group of the pattern matched
	Reload      time.Duration
	Fallthrough zones.Fallthrough
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "directory", Usage: "DIR [REGEXP ORIGIN [SECONDS]]", Min: 1, Max: 4, Help: "folder whose zone files are served; db.ZONE by default", Set: setDirectory},
		{Name: "reload", Usage: "DURATION", Min: 1, Max: 1, Help: "how often the folder and the files are looked at; 1m by default, 0 for never", Set: setReload},
		{Name: "fallthrough", Usage: "[ZONE...]", Max: directive.Many, Help: "passes names on that do not exist",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.Fallthrough, err = zones.ParseFallthrough(l)
				return err
			}},
		{Name: "upstream", Usage: "[ADDRESS...]", Max: directive.Many, Help: "does nothing any more: CNAMEs are always followed here", Set: old},
		{Name: "no_reload", Help: "the old way to write reload 0", Set: func(o *Options, _ *directive.Line) error { o.Reload = 0; return nil }},
		{Name: "transfer", Usage: "to|from ADDRESS...", Max: directive.Many, Repeat: true, Help: "does nothing any more: see the transfer directive", Set: old},
	}
}

// old is the Set of an option that older versions had.
func old(*Options, *directive.Line) error { return nil }

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{Dir: ".", Pattern: `db\.(.*)`, Origin: "{1}", Reload: time.Minute}
	var err error
	if o.Zones, err = zones.Parse(in, in.Args); err != nil {
		return o, err
	}
	if err := directive.ParseOptions(in, &o, Rows()); err != nil {
		return o, err
	}
	o.Dir = in.Path(o.Dir)
	zone.WarnOld(in)
	return o, nil
}

func setDirectory(o *Options, l *directive.Line) error {
	o.Dir = l.Args[0].Text
	switch len(l.Args) {
	case 1:
		return nil
	case 2:
		return l.Args[1].Errorf("a template of the zone's name must follow %q", l.Args[1].Text)
	}
	re, err := match.Compile(l.Args[1].Text)
	if err != nil {
		return l.Args[1].Errorf("%q is not a regular expression: %w", l.Args[1].Text, err)
	}
	for i := re.NumSubexp() + 1; i < 100; i++ {
		if g := "{" + strconv.Itoa(i) + "}"; strings.Contains(l.Args[2].Text, g) {
			return l.Args[2].Errorf("%q uses %s, but %q has only %d groups", l.Args[2].Text, g, l.Args[1].Text, re.NumSubexp())
		}
	}
	o.Pattern, o.Origin = l.Args[1].Text, l.Args[2].Text
	if len(l.Args) == 4 {
		n, err := l.Args[3].Int(1, 1<<30)
		o.Reload = time.Duration(n) * time.Second
		return err
	}
	return nil
}

func setReload(o *Options, l *directive.Line) (err error) {
	if l.Args[0].Text == "0" {
		o.Reload = 0
		return nil
	}
	o.Reload, err = l.Args[0].Duration(0, 1<<62, 0)
	return err
}

// Auto answers for the zones of a folder.
type Auto struct {
	*poll.Poll
	o       Options
	pattern *regexp.Regexp
	log     *slog.Logger
	changed func(origin wire.Zone)
	table   zone.Table
	loaders map[wire.Zone]*zone.Loader // only touched by Run
	failing bool
}

// New makes the handler. changed is called, if it is not nil, when another version of a zone is served. Run reads the files.
func New(o Options, log *slog.Logger, changed func(origin wire.Zone)) *Auto {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Auto{o: o, pattern: regexp.MustCompile(o.Pattern), log: log, changed: changed, loaders: map[wire.Zone]*zone.Loader{}}
	h.Poll = poll.New(o.Reload, h.look)
	return h
}

// look takes up files that are new, reads those that changed, and forgets the zones of those that are gone. While the folder
// cannot be read everything stays.
func (h *Auto) look() {
	files, err := h.files()
	if err != nil {
		if !h.failing {
			h.log.Error("the folder of zone files cannot be read; its zones stay as they are", "error", err)
		}
		h.failing = true
		return
	}
	h.failing = false
	for origin := range h.loaders {
		if files[origin] == "" {
			h.log.Info(fmt.Sprintf("zone %s is gone", origin))
			h.table.Delete(origin)
			delete(h.loaders, origin)
		}
	}
	for origin, file := range files {
		l := h.loaders[origin]
		if l == nil || l.File != file {
			l = &zone.Loader{Table: &h.table, Origin: origin, File: file, Log: h.log, Changed: h.changed}
			h.loaders[origin] = l
			h.table.Own(origin, h.o.Fallthrough)
		}
		l.Look()
	}
}

// files are the zone files of the folder and of those below. Of two for one zone the first in the order of their paths counts. Folders that
// begin with ".." are the versions that a ConfigMap's volume keeps behind the names in front.
func (h *Auto) files() (map[wire.Zone]string, error) {
	out := map[wire.Zone]string{}
	err := filepath.WalkDir(h.o.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil && path != h.o.Dir && errors.Is(err, fs.ErrNotExist) {
			err = nil // gone between two looks
			d = nil
		}
		switch {
		case err != nil || d == nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "..") && path != h.o.Dir:
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if origin, ok := h.origin(d.Name()); ok && out[origin] == "" {
			out[origin] = path
		}
		return nil
	})
	return out, err
}

// origin is the zone that a file is for by its name.
func (h *Auto) origin(file string) (wire.Zone, bool) {
	match := h.pattern.FindStringSubmatch(file)
	if match == nil {
		return wire.Zone{}, false
	}
	name := h.o.Origin
	for i, m := range match {
		name = strings.ReplaceAll(name, "{"+strconv.Itoa(i)+"}", m)
	}
	c, err := wire.ParseCanonical(name)
	if err != nil {
		h.log.Warn(fmt.Sprintf("%s: %q is not a zone's name", file, name), "error", err)
		return wire.Zone{}, false
	}
	return wire.NewZone(c), true
}

// Answer answers for names in the zones of the folder.
func (h *Auto) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if !h.o.Zones.Contains(&q.Name) {
		return server.Pass
	}
	return h.table.Answer(r, q)
}

// TransferZone gives what a transfer of a zone consists of (see transfer).
func (h *Auto) TransferZone(origin wire.Zone) (all iter.Seq[server.Record], serial uint32, ok bool) {
	return h.table.TransferZone(origin)
}
