package kubernetes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// check asks the API server for the resource version that it is at, for each kind, in a list of one object without contents.
//
// One that is lower than what the watch has shown means that the control plane was put back to a backup: what came after it is gone, and
// the watch, which waits for versions to come, would be silent until they come a second time, then for other objects. Everything is
// read anew.
//
// No answer in time, to none of the checks, means that the connection is dead without having been closed. HTTP/2 finds that out by
// its pings; on HTTP/1.1 this is all there is, and the watches are opened again.
func (s *session) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.pace.checkTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var all verdicts
	for _, f := range s.feeds {
		wg.Go(func() { f.check(ctx, &all) })
	}
	wg.Wait()
	switch {
	case all.back.Load() > 0:
		for _, f := range s.feeds {
			f.relist()
		}
	case all.silent.Load() > 0 && all.answered.Load() == 0:
		s.status.silent()
		for _, f := range s.feeds {
			f.reconnect()
		}
	}
}

// verdicts counts what became of the checks of a round.
type verdicts struct{ answered, back, silent atomic.Int32 }

// check asks for one kind, unless it is being read just now.
func (f *feed) check(ctx context.Context, all *verdicts) {
	known := f.version.Load()
	if known == nil || !f.watching.Load() {
		return
	}
	now, err := f.present(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		all.silent.Add(1)
		return
	}
	all.answered.Add(1)
	if err == nil && f.confirm(*known, now) {
		all.back.Add(1)
		f.session.status.restored(f.res.name, *known, now)
	}
}

// confirm says whether the API server's version is behind the known one. If it is not, and nothing is missing of which a list will tell, what we have is right
// as of now.
func (f *feed) confirm(known, now string) (back bool) {
	if versionBehind(now, known) {
		return true
	}
	if f.watching.Load() && !f.listing.Load() {
		f.confirmed.Store(time.Now().UnixNano())
	}
	return false
}

// versionBehind says whether a resource version is lower than another of the same kind. What is no version is not.
func versionBehind(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// present is the resource version that the API server is at.
func (f *feed) present(ctx context.Context) (string, error) {
	// Without the selectors: to find one object that matches, the API server may have to look at all.
	var list metav1.PartialObjectMetadataList
	err := f.request(&metav1.ListOptions{Limit: 1}).
		SetHeader("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
		Do(ctx).Into(&list)
	return list.ResourceVersion, err
}
