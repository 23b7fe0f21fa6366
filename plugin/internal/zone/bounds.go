package zone

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/clusterdns/clusterdns/server"
)

// What a zone may be, so that a mistake in a file or a primary server that has gone mad does not take the memory of a server that answers
// for others as well. A line of $GENERATE is 65,536 records, and a file may include itself.
const (
	// MaxRecords is ten times as many as the largest cluster has endpoints, at some 350 bytes each.
	MaxRecords = 1_000_000
	// maxBytes is for the text of a file with all that it includes, and for the records of a zone: ten times the text of MaxRecords addresses
	// would be more, and is nobody's zone.
	maxBytes = 256 << 20
	// maxFiles is for files that include each other: they may stand seven deep.
	maxFiles = 1000
	// maxSet is the records of one name and type, or of their signatures: a reply of 65,535 bytes cannot hold more, as each takes 12 at least.
	maxSet = 65_535 / 12
)

var (
	errSet    = fmt.Errorf("it has more than %d records, which no reply can hold", maxSet)
	errNoFile = errors.New("it is no regular file")
)

// bounds are what is left of those limits.
type bounds struct {
	records, files int
	bytes          int64
}

func whole() bounds { return bounds{MaxRecords, maxFiles, maxBytes} }

// List gathers the records of a zone within the limits.
type List struct {
	all  []server.Record
	left bounds
}

// NewList is a list without records, for at most so many.
func NewList(most int) *List {
	l := &List{left: whole()}
	l.left.records = most
	return l
}

// Add takes a record, or says which limit it is over.
func (l *List) Add(rr server.Record) error {
	if len(l.all) >= l.left.records {
		return fmt.Errorf("the zone has more than %d records", l.left.records)
	}
	if l.left.bytes -= int64(len(rr.Owner) + len(rr.Data)); l.left.bytes < 0 {
		return errBytes()
	}
	l.all = append(l.all, rr)
	return nil
}

func errBytes() error { return fmt.Errorf("the zone is larger than %d MiB", maxBytes>>20) }

// Records are those that were added.
func (l *List) Records() []server.Record { return l.all }

// includes opens the files that a zone file names, and reads no more of all of them than a zone may have. It is an fs.FS only because that is what the
// parser asks: names are paths of the system, without the slash in front.
type includes struct{ left bounds }

// Open is fs.FS's.
func (i *includes) Open(name string) (fs.File, error) {
	path := filepath.FromSlash(name)
	if !filepath.IsAbs(path) {
		path = string(filepath.Separator) + path
	}
	if i.left.files--; i.left.files < 0 {
		return nil, errors.New("too many files are included; do they include each other?")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNoFile}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return included{f, i.meter(f)}, nil
}

// included is a file of which each byte counts.
type included struct {
	*os.File
	metered io.Reader
}

// Read is io.Reader's.
func (f included) Read(b []byte) (int, error) { return f.metered.Read(b) }

// meter makes reading fail when all that is read is over the limit.
func (i *includes) meter(r io.Reader) io.Reader { return &meter{r, i} }

type meter struct {
	r  io.Reader
	of *includes
}

// Read is io.Reader's.
func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	if m.of.left.bytes -= int64(n); m.of.left.bytes < 0 {
		return 0, errBytes()
	}
	return n, err
}
