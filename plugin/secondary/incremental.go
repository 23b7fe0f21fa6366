package secondary

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/zone"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// The ways in which an incremental transfer does not fit the zone that it is for.
var (
	errNotOurs = errors.New("the differences do not begin at the serial that is served")
	errMissing = errors.New("a record that is to be removed is not there")
)

// incremental gets what changed since a version of a zone (IXFR, RFC 1995). Whatever does not fit is an error, after which the whole zone is worth
// asking for.
func incremental(ctx context.Context, old *zone.Zone, primary netip.AddrPort) (*zone.Zone, error) {
	origin := old.Origin()
	m := new(dns.Msg)
	m.SetIxfr(origin.String(), old.Serial(), ".", ".")
	all, err := exchange(ctx, m, primary, changePatience, zone.NewList(zone.MaxRecords))
	if err != nil {
		return nil, err
	}
	if len(all) < 2 {
		return nil, errCut // it says that nothing changed, and said otherwise when it was asked for the serial
	}
	if _, ok := serialOf(&all[1]); !ok || len(all) == 2 {
		return zone.New(origin, all) // the whole zone, which is as good an answer (RFC 1995 4)
	}
	return apply(old, all)
}

// serialOf is that of an SOA record; ok is false for other records.
func serialOf(rr *server.Record) (serial uint32, ok bool) {
	if rr.Type != wire.TypeSOA || len(rr.Data) < 22 {
		return 0, false
	}
	return binary.BigEndian.Uint32(rr.Data[len(rr.Data)-20:]), true
}

// apply makes the newest version of a zone: the SOA record of that, differences, and the same SOA record again. A difference is the SOA record of
// the version before, what is removed, the SOA record of the version behind, and what is added.
func apply(old *zone.Zone, all []server.Record) (*zone.Zone, error) {
	rest, last := all[1:len(all)-1], &all[len(all)-1]
	have := map[string]server.Record{}
	for rr := range old.Records() {
		if rr.Type != wire.TypeSOA {
			have[key(&rr)] = rr
		}
	}
	at := old.Serial()
	for len(rest) > 0 {
		from, ok := serialOf(&rest[0])
		if !ok || from != at {
			return nil, errNotOurs
		}
		removed := upToSOA(rest[1:])
		rest = rest[1+len(removed):]
		if err := remove(have, removed, old.Origin()); err != nil {
			return nil, err
		}
		if len(rest) == 0 {
			return nil, errCut
		}
		at, _ = serialOf(&rest[0])
		added := upToSOA(rest[1:])
		rest = rest[1+len(added):]
		for i := range added {
			have[key(&added[i])] = added[i]
		}
	}
	if newest, ok := serialOf(last); !ok || newest != at {
		return nil, errCut
	}
	return zone.New(old.Origin(), slices.AppendSeq([]server.Record{*last}, maps.Values(have)))
}

// upToSOA is what stands before the next SOA record.
func upToSOA(all []server.Record) []server.Record {
	i := slices.IndexFunc(all, func(rr server.Record) bool { return rr.Type == wire.TypeSOA })
	if i < 0 {
		return all
	}
	return all[:i]
}

func remove(have map[string]server.Record, removed []server.Record, origin wire.Zone) error {
	for i := range removed {
		k := key(&removed[i])
		if _, ok := have[k]; !ok && kept(&removed[i], origin) {
			return fmt.Errorf("%w: type %s", errMissing, removed[i].Type)
		}
		delete(have, k)
	}
	return nil
}

// kept says whether a zone would have a record at all.
func kept(rr *server.Record, origin wire.Zone) bool {
	return origin.Contains(wire.Canonical(folded(rr.Owner))) && rr.Type != wire.TypeNSEC3 && rr.Class == wire.ClassIN
}

// key tells the records of a zone apart: by all but the TTL.
func key(rr *server.Record) string {
	owner := folded(rr.Owner)
	k := binary.BigEndian.AppendUint16(owner, uint16(rr.Type))
	return string(append(k, rr.Data...))
}

func folded(name []byte) []byte {
	b := bytes.Clone(name)
	wire.Fold(b)
	return b
}
