package config

import (
	"reflect"
	"slices"

	"github.com/clusterdns/clusterdns/forward"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/auto"
	"github.com/clusterdns/clusterdns/plugin/erratic"
	"github.com/clusterdns/clusterdns/plugin/file"
	"github.com/clusterdns/clusterdns/plugin/hosts"
	k8sexternal "github.com/clusterdns/clusterdns/plugin/k8s_external"
	"github.com/clusterdns/clusterdns/plugin/secondary"
	"github.com/clusterdns/clusterdns/plugin/template"
	"github.com/clusterdns/clusterdns/plugin/whoami"
	"github.com/clusterdns/clusterdns/server/wire"
)

// wall is a zone in which a directive answers every query, so that those behind it get none.
type wall struct {
	zone wire.Zone
	use  *Use
}

// unreachable finds directives all of whose zones are behind walls.
func (l *linter) unreachable() {
	var walls []wall
	for _, u := range l.block.Uses {
		if !answers(u.Directive.Name) {
			continue
		}
		zones, all := l.reach(u)
		if w := behind(zones, walls); w != nil && !sameForward(u, w) {
			l.say(u.Input.Name, "%s can never be reached: %s at line %d answers every query before it", u.Directive.Name, w.Directive.Name, w.Input.Name.Line)
		}
		for _, z := range zones {
			if all {
				walls = append(walls, wall{z, u})
			}
		}
	}
}

// behind gives the directive whose wall the zones are behind, or nil if one of them can be reached.
func behind(zones []wire.Zone, walls []wall) (by *Use) {
	for _, z := range zones {
		i := slices.IndexFunc(walls, func(w wall) bool { return w.zone.Contains(z.Name()) })
		if i < 0 {
			return nil
		}
		by = walls[i].use
	}
	return by
}

// sameForward says whether two forward lines are for the same zones, of which parsing warns.
func sameForward(a, b *Use) bool {
	x, ok := a.Options.(forward.Options)
	y, too := b.Options.(forward.Options)
	return ok && too && reflect.DeepEqual(x.From, y.From)
}

// reach gives the zones in which a directive is asked, as far as its server block serves them, and whether it answers all that it is asked there.
func (l *linter) reach(u *Use) (zones []wire.Zone, all bool) {
	switch o := u.Options.(type) {
	case forward.Options:
		zones, all = o.From, len(o.Except) == 0 && len(o.Next) == 0 && !o.NextOnNoData
	case kubernetes.Options:
		zones, all = o.Zones, len(o.Fallthrough) == 0
	case template.Options:
		every := (o.Class == wire.ClassIN || o.Class == wire.ClassANY) && o.Type == wire.TypeANY
		zones, all = o.Zones, every && (len(o.Match) == 0 || none(o.Fallthrough))
	case whoami.Options, erratic.Options:
		zones, all = everywhere(), true
	default:
		zones, all = dataReach(o)
	}
	return l.served(zones), all
}

// dataReach is reach for directives that answer from data of their own.
func dataReach(options any) (zones []wire.Zone, all bool) {
	switch o := options.(type) {
	case file.Options:
		return o.Zones, none(o.Fallthrough)
	case secondary.Options:
		return o.Zones, none(o.Fallthrough)
	case k8sexternal.Options:
		return o.Zones, none(o.Fallthrough)
	case auto.Options:
		return o.Zones, false // what it answers is in its folder
	case hosts.Options:
		return o.Zones, false // reverse names that it does not have pass
	}
	return everywhere(), false
}

func everywhere() []wire.Zone { return []wire.Zone{wire.NewZone(wire.Root)} }

// none says whether an option was left out.
func none(option any) bool { return reflect.ValueOf(option).IsZero() }

// served are the parts of zones that the server block serves.
func (l *linter) served(zones []wire.Zone) (out []wire.Zone) {
	for _, s := range l.block.Zones {
		block := wire.NewZone(wire.MustCanonical(s.Name))
		for _, z := range zones {
			switch {
			case z.Contains(block.Name()):
				out = append(out, block)
			case block.Contains(z.Name()):
				out = append(out, z)
			}
		}
	}
	return out
}
