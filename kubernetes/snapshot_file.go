package kubernetes

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"
)

// A snapshot is a file of JSON, a line an object: a heading, the reduced objects of a cluster, and an end by which a file that was
// cut off or changed is told from a whole one.
const (
	snapshotFormat = 1
	// maxSnapshot bounds the file. 75,000 endpoints take about 5 MiB; the folder may well be in memory, and counted to the Pod.
	maxSnapshot = 64 << 20
	// maxLine bounds a line. The API server takes no object over 1.5 MiB, and what is left of one is less, but for one that consists of addresses; a line
	// of empty endpoints would take fifty times its length in memory.
	maxLine = 2 << 20
)

// line is one line of a snapshot: one of its fields is set.
type line struct {
	Snapshot      *heading       `json:",omitempty"`
	Namespace     *Namespace     `json:",omitempty"`
	Service       *Service       `json:",omitempty"`
	EndpointSlice *EndpointSlice `json:",omitempty"`
	Pod           *Pod           `json:",omitempty"`
	End           *ending        `json:",omitempty"`
}

// heading is the first line.
type heading struct {
	Format  int
	Written time.Time
	Scope   scope
}

// ending is the last line.
type ending struct {
	Objects int
	CRC32C  uint32 // of all lines before
}

// scope is what decides which objects are read, and in how much detail. A snapshot serves only a server with the same.
type scope struct {
	Kubeconfig, Context, Endpoint string // which API server
	Namespaces                    []string
	NamespaceLabels, Labels       string
	Slices, Pods                  bool
	PodNames, Zones               bool
}

func (o *Options) scope() scope {
	return scope{
		Kubeconfig: o.KubeconfigFile, Context: o.Context, Endpoint: o.Endpoint,
		Namespaces: o.Namespaces, NamespaceLabels: o.NamespaceLabels, Labels: o.Labels,
		Slices: o.Needed(KindEndpointSlice), Pods: o.Needed(KindPod), PodNames: o.EndpointPodNames, Zones: o.Zonal,
	}
}

// same compares as the file would: nil and empty lists are alike.
func (s scope) same(o scope) bool {
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

var (
	errSnapshotSize  = fmt.Errorf("it is larger than %d MiB", maxSnapshot>>20)
	errSnapshotLine  = fmt.Errorf("it takes more than %d MiB, which would not be read back", maxLine>>20)
	errSnapshotWhole = errors.New("it is cut off or damaged")
)

// writeSnapshot takes the file's place in one step, so that whoever reads it finds the old one or the new one, and gives what the system knows the new one by.
// Only the user of the server may read it: it lists all that is in the cluster.
func writeSnapshot(file string, h heading, objects iter.Seq[Object]) (own fs.FileInfo, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), temporary(file)) // its mode is 0600
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err = encodeSnapshot(tmp, h, objects); err != nil {
		return nil, err
	}
	if err = tmp.Sync(); err != nil { // or a crash of the node could leave an empty file under the new name
		return nil, err
	}
	if own, err = tmp.Stat(); err != nil {
		return nil, err
	}
	if err = tmp.Close(); err != nil {
		return nil, err
	}
	return own, os.Rename(tmp.Name(), file)
}

// temporary is the pattern of the names of files that become a snapshot.
func temporary(file string) string { return filepath.Base(file) + ".*.tmp" }

func encodeSnapshot(to io.Writer, h heading, objects iter.Seq[Object]) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	buf := bufio.NewWriter(&bounded{to: to, left: maxSnapshot})
	enc := json.NewEncoder(io.MultiWriter(lineLimit{}, buf, sum))
	if err := enc.Encode(line{Snapshot: &h}); err != nil {
		return err
	}
	n := 0
	for o := range objects {
		if err := enc.Encode(lineOf(o)); errors.Is(err, errSnapshotLine) {
			namespace, name := o.Key()
			return fmt.Errorf("%s %s of namespace %q: %w", o.Kind(), name, namespace, err)
		} else if err != nil {
			return err
		}
		n++
	}
	if err := json.NewEncoder(buf).Encode(line{End: &ending{n, sum.Sum32()}}); err != nil {
		return err
	}
	return buf.Flush()
}

func lineOf(o Object) (l line) {
	switch o := o.(type) {
	case *Namespace:
		l.Namespace = o
	case *Service:
		l.Service = o
	case *EndpointSlice:
		l.EndpointSlice = o
	case *Pod:
		l.Pod = o
	}
	return l
}

// object is the line's object, or nil if it has none that makes sense.
func (l *line) object() Object {
	switch {
	case l.Namespace != nil:
		return l.Namespace
	case l.Service != nil && l.Service.sound():
		return l.Service
	case l.EndpointSlice != nil && l.EndpointSlice.sound():
		return l.EndpointSlice
	case l.Pod != nil && l.Pod.sound():
		return l.Pod
	}
	return nil
}

func (s *Service) sound() bool {
	ok := s.Type <= ExternalName && soundPorts(s.Ports)
	for _, a := range s.ClusterIPs {
		ok = ok && a.IsValid()
	}
	return ok
}

func (s *EndpointSlice) sound() bool {
	ok := soundPorts(s.Ports)
	for i := range s.Endpoints {
		ok = ok && s.Endpoints[i].Addr.IsValid()
	}
	return ok
}

func (p *Pod) sound() bool {
	ok := true
	for _, a := range p.IPs {
		ok = ok && a.IsValid()
	}
	return ok
}

func soundPorts(ports []Port) bool {
	ok := true
	for _, p := range ports {
		ok = ok && p.Protocol <= SCTP
	}
	return ok
}

// lineLimit fails to write a line that is too long to be read back. A json.Encoder writes a line at once.
type lineLimit struct{}

// Write is io.Writer's.
func (lineLimit) Write(p []byte) (int, error) {
	if len(p) > maxLine {
		return 0, errSnapshotLine
	}
	return len(p), nil
}

// bounded fails to write more than is left.
type bounded struct {
	to   io.Writer
	left int
}

// Write is io.Writer's.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errSnapshotSize
	}
	return b.to.Write(p)
}

// snapshotState is the objects of a snapshot by kind.
type snapshotState struct {
	heading
	objects [numKinds][]Object
	count   int
}

// readSnapshot reads a whole file, or nothing of it.
func readSnapshot(file string, of scope) (*snapshotState, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > maxSnapshot:
		return nil, errSnapshotSize
	}
	return decodeSnapshot(io.LimitReader(f, maxSnapshot), of)
}

func decodeSnapshot(from io.Reader, of scope) (*snapshotState, error) {
	in := bufio.NewReaderSize(from, maxLine)
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	s := &snapshotState{}
	for first := true; ; first = false {
		text, err := in.ReadSlice('\n')
		if err != nil { // every line ends, the last one too, and none is longer than an object can be
			return nil, errSnapshotWhole
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, errSnapshotWhole
		}
		switch {
		case first:
			if err := s.begin(&l, of); err != nil {
				return nil, err
			}
		case l.End != nil:
			if _, err := in.ReadByte(); err != io.EOF || l.End.CRC32C != sum.Sum32() || l.End.Objects != s.count {
				return nil, errSnapshotWhole
			}
			return s, nil
		default:
			o := l.object()
			if o == nil {
				return nil, errSnapshotWhole
			}
			s.objects[o.Kind()] = append(s.objects[o.Kind()], o)
			s.count++
		}
		_, _ = sum.Write(text) // a hash does not fail
	}
}

// isSnapshotOf says whether a file begins as one that is written with these options does.
func isSnapshotOf(file string, of scope) bool {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() { // opening others may wait
		return false
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := bufio.NewReader(io.LimitReader(f, maxLine)).ReadBytes('\n')
	if err != nil {
		return false
	}
	var l line
	return json.Unmarshal(text, &l) == nil && new(snapshotState).begin(&l, of) == nil
}

// begin judges the heading.
func (s *snapshotState) begin(l *line, of scope) error {
	switch {
	case l.Snapshot == nil:
		return errors.New("it is no snapshot")
	case l.Snapshot.Format != snapshotFormat:
		return fmt.Errorf("it has the format %d of another version", l.Snapshot.Format)
	case !l.Snapshot.Scope.same(of):
		return errors.New("it was written with other options of kubernetes")
	}
	s.heading = *l.Snapshot
	return nil
}
