package poll

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPoll(t *testing.T) {
	t.Parallel()
	for every, want := range map[time.Duration]int{0: 1, time.Minute: 11, 10 * time.Minute: 2} {
		synctest.Test(t, func(t *testing.T) {
			looks := 0
			p := New(every, func() { looks++ })
			ctx, cancel := context.WithCancel(t.Context())
			ended, end := context.WithCancel(t.Context())
			end()
			p.AwaitStart(ended) // does not wait for what is not wanted any more
			done := make(chan struct{})
			go func() { defer close(done); _ = p.Run(ctx) }()
			p.AwaitStart(ctx)
			<-time.After(10*time.Minute + time.Second)
			synctest.Wait()
			cancel()
			<-done
			if looks != want {
				t.Errorf("every %s: %d looks in ten minutes, want %d", every, looks, want)
			}
		})
	}
}
