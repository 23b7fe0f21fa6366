// Package file is the directive of that name: it answers authoritatively from zone files (RFC 1035 5).
package file

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/poll"
	"github.com/clusterdns/clusterdns/plugin/internal/zone"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// defaultReload is how often files are looked at.
const defaultReload = time.Minute

// Options are those of one file directive.
type Options struct {
	File        string
	Zones       zones.Set
	Reload      time.Duration // 0 for never
	ByMtime     bool          // another version of a file is one that was changed, whatever its serial
	Fallthrough zones.Fallthrough
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "reload", Usage: "DURATION", Min: 1, Max: 1, Help: "how often the file is looked at; 1m by default, 0 for never",
			Set: func(o *Options, l *directive.Line) (err error) {
				if l.Args[0].Text == "0" {
					o.Reload = 0
					return nil
				}
				o.Reload, err = l.Args[0].Duration(0, 1<<62, 0)
				return err
			}},
		{Name: "reload_by_mtime", Help: "takes up a file that was changed even if the serial of its SOA record was not",
			Set: func(o *Options, _ *directive.Line) error { o.ByMtime = true; return nil }},
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

// Parse reads one file directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{Reload: defaultReload}
	if len(in.Args) == 0 {
		return o, in.Name.Errorf("file: the zone file must follow")
	}
	o.File = in.Path(in.Args[0].Text)
	var err error
	if o.Zones, err = zones.Parse(in, in.Args[1:]); err != nil {
		return o, err
	}
	if err := directive.ParseOptions(in, &o, Rows()); err != nil {
		return o, err
	}
	zone.WarnOld(in)
	return o, nil
}

// File answers for the zones of all file directives of a server block.
type File struct {
	table   zone.Table
	readers []*poll.Poll // one for each directive
}

// New makes the handler. changed is called, if it is not nil, when another version of a zone is served. Run reads the files.
func New(all []Options, log *slog.Logger, changed func(origin wire.Zone)) *File {
	h := &File{}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for _, o := range all {
		var loaders []*zone.Loader
		for _, z := range o.Zones {
			h.table.Own(z, o.Fallthrough)
			loaders = append(loaders, &zone.Loader{Table: &h.table, Origin: z, File: o.File, ByMtime: o.ByMtime, Log: log, Changed: changed})
		}
		h.readers = append(h.readers, poll.New(o.Reload, func() {
			for _, l := range loaders {
				l.Look()
			}
		}))
	}
	return h
}

// Run reads the files, and again when they change, until ctx ends.
func (h *File) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, r := range h.readers {
		wg.Go(func() { _ = r.Run(ctx) })
	}
	wg.Wait()
	return nil
}

// AwaitStart waits until all files have been read once, well or not.
func (h *File) AwaitStart(ctx context.Context) {
	for _, r := range h.readers {
		r.AwaitStart(ctx)
	}
}

// Answer answers for names in the zones.
func (h *File) Answer(r *server.Reply, q *server.Query) server.Verdict {
	return h.table.Answer(r, q)
}

// TransferZone gives what a transfer of a zone consists of (see transfer).
func (h *File) TransferZone(origin wire.Zone) (all iter.Seq[server.Record], serial uint32, ok bool) {
	return h.table.TransferZone(origin)
}
