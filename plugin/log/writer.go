package log

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// delay is how long a line may wait for others to be written with it. Nobody who reads along notices it.
	delay = 50 * time.Millisecond
	// batch is when lines are written without waiting. Measured over a pipe, lines cost half as much by 16 KiB as by 64: that stays in the
	// processor's cache, and fits into the pipe without waiting for its reader.
	batch = 16 << 10
	// bound is how much may wait on each worker: some 16,000 lines, 100 ms at the highest rates.
	bound = 2 << 20
	// backpressure is how long a worker with that much waits for the output to take a batch. An output that is that slow is taken to
	// have stalled.
	backpressure = 20 * time.Millisecond
)

// Writer is the output of the process: lines are buffered where they are made and written together by one goroutine, so that logging
// waits for nothing. There is one in a process; it outlives configurations.
//
// No line is lost while the output moves: a worker that is ahead of it waits for it. If it stalls (a pipe that nobody reads), answering
// queries comes first: after one short wait further lines are dropped, counted, and the number of them is said once the output moves again.
type Writer struct {
	out    io.Writer
	shards []shard // the last one is for messages of the process
	wake   chan struct{}
	full   chan struct{}
	lost   atomic.Uint64
	stalls atomic.Bool   // the output does not move
	writes atomic.Uint64 // how often it did

	mu   sync.Mutex // held while writing
	said uint64     // how many of the lost lines the output knows of
}

// shard is the buffer of one worker. Its lock is contended only by the goroutine that writes.
type shard struct {
	mu     sync.Mutex
	buf    []byte // lines that are not yet written
	spare  []byte // what was written last, to be filled again
	before int    // length of buf when it was locked
	seen   uint32 // lines that could have been written, for sampling
	entry  entry
	w      *Writer
	taken  chan struct{} // says that buf has been emptied
	_      [64]byte      // no two shards share a cache line
}

// NewWriter makes a writer to out, which nobody else writes to. Lines are kept until Run or Flush writes them.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{
		out:    out,
		shards: make([]shard, runtime.GOMAXPROCS(0)+2), // a worker per processor, TCP, and the process itself
		wake:   make(chan struct{}, 1),
		full:   make(chan struct{}, 1),
	}
	for i := range w.shards {
		w.shards[i].w, w.shards[i].taken = w, make(chan struct{}, 1)
	}
	return w
}

// shard gives the buffer of a worker. Workers beyond the number of shards share one, which only costs waiting.
func (w *Writer) shard(i int) *shard { return &w.shards[uint(i)%uint(len(w.shards)-1)] }

// lock takes the shard to append a line, and says whether there is room for one; if not, the line is counted as lost. The shard is locked
// either way.
func (s *shard) lock() (room bool) {
	s.mu.Lock()
	if len(s.buf) >= bound && !s.w.stalls.Load() {
		s.mu.Unlock()
		s.wait()
		s.mu.Lock()
	}
	if s.before = len(s.buf); s.before < bound {
		return true
	}
	s.w.lost.Add(1)
	return false
}

// wait waits for the buffer to be emptied, and says that the output has stalled if it did not move meanwhile.
func (s *shard) wait() {
	select {
	case <-s.taken: // an old word
	default:
	}
	before := s.w.writes.Load()
	signal(s.w.full)
	t := time.NewTimer(backpressure)
	defer t.Stop()
	select {
	case <-s.taken:
	case <-t.C:
		if s.w.writes.Load() == before {
			s.w.stalls.Store(true)
		}
	}
}

// unlock lets go of the shard after a line was appended, and sees that it will be written: the first line of a buffer and the one that makes
// it a batch say so.
func (s *shard) unlock() {
	before, n := s.before, len(s.buf)
	s.mu.Unlock()
	switch {
	case before < batch && n >= batch:
		signal(s.w.full)
	case before == 0 && n > 0:
		signal(s.w.wake)
	}
}

// signal leaves word for a goroutine that may be busy.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Write takes whole lines of the process's own log. It never fails.
func (w *Writer) Write(p []byte) (int, error) {
	s := &w.shards[len(w.shards)-1]
	defer s.unlock()
	if s.lock() {
		s.buf = append(s.buf, p...)
	}
	return len(p), nil
}

// Run writes lines until ctx ends, and then what is left.
func (w *Writer) Run(ctx context.Context) error {
	t := time.NewTimer(delay)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			w.Flush()
			return nil
		case <-w.full:
		case <-w.wake:
			t.Reset(delay)
			select {
			case <-t.C:
			case <-w.full:
			case <-ctx.Done():
			}
		}
		w.Flush()
	}
}

// Flush writes what is there. It may be called at any time, also without Run.
func (w *Writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		b := s.buf
		s.buf, s.spare = s.spare[:0], nil
		s.mu.Unlock()
		if len(b) > 0 {
			signal(s.taken)
			// Where standard output fails there is nobody left to tell.
			_, _ = w.out.Write(b)
			w.writes.Add(1)
			w.stalls.Store(false)
		}
		s.mu.Lock()
		s.spare = b
		s.mu.Unlock()
	}
	if n := w.lost.Load(); n != w.said {
		_, _ = fmt.Fprintf(w.out, "[WARNING] plugin/log: %d lines lost: the output took them too slowly\n", n-w.said)
		w.said = n
	}
}

// Lost is how many lines could not be kept since the start, for metrics.
func (w *Writer) Lost() uint64 { return w.lost.Load() }
