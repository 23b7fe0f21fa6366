package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// kept is a Kubernetes with a snapshot, served on sockets.
type kept struct {
	*Kubernetes
	*servertest.Server
	log     *recorder
	metrics *prometheus.Registry
	stop    func()
}

// keeping starts one. The API server is given no time to deliver before the snapshot is read, and the file follows changes at once.
func keeping(t *testing.T, o Options) *kept {
	t.Helper()
	r := &kept{log: newRecorder(), metrics: prometheus.NewRegistry()}
	o.Zones = []wire.Zone{wire.NewZone(wire.MustCanonical("cluster.local"))}
	log, m := slog.New(slog.NewTextHandler(r.log, nil)), NewSourceMetrics(r.metrics)
	source := NewAPIServer(o, m, log)
	source.pace = quick()
	r.Kubernetes = New(o, source, Deps{Log: log, Metrics: m})
	r.snapshot.chance, r.snapshot.every = time.Millisecond, 10*time.Millisecond
	r.Server = servertest.Start(t, servertest.Block(".", server.Stage{Name: "kubernetes", Handler: r.Kubernetes}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	ended := false
	r.stop = func() {
		cancel()
		if !ended {
			ended = true
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(r.stop)
	return r
}

// edeOf is the code of a reply's Extended DNS Error, or -1.
func edeOf(m *dns.Msg) int {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				return int(e.InfoCode)
			}
		}
	}
	return -1
}

// expect asks with EDNS and compares rcode, the number of answers and the Extended DNS Error.
func (r *kept) expect(t *testing.T, name string, rcode, answers, ede int) {
	t.Helper()
	m := r.Ask(t, name, dns.TypeA)
	if m.Rcode != rcode || len(m.Answer) != answers || ede != edeOf(m) && (ede >= 0 || rcode == dns.RcodeSuccess) {
		t.Errorf("%s: want %s, %d answers and EDE %d, got %v", name, dns.RcodeToString[rcode], answers, ede, m)
	}
}

func withSnapshot(api *kubetest.Server, file string) Options {
	o := defaults(api.Kubeconfig("", kubetest.Token))
	o.Snapshot, o.Pods = file, PodsVerified
	return o
}

// written starts a server on an API server, and ends it once it has written its snapshot.
func written(t *testing.T, api *kubetest.Server, o Options) {
	t.Helper()
	k := keeping(t, o)
	poll(t, "the file", func() bool { _, err := os.Stat(o.Snapshot); return err == nil })
	k.stop()
}

const (
	webName  = "web.default.svc.cluster.local."
	dbName   = "db.prod.svc.cluster.local."
	lateName = "late.default.svc.cluster.local."
	podName  = "10-244-0-1.default.pod.cluster.local."
)

func TestSnapshotIsAnsweredFromWithoutAPIServer(t *testing.T) {
	t.Parallel()
	api, file := kubetest.Start(t, small()...), filepath.Join(t.TempDir(), "snapshot")
	o := withSnapshot(api, file)
	first := keeping(t, o)
	poll(t, "the file", func() bool { _, err := os.Stat(file); return err == nil })
	if first.Stale() {
		t.Error("stale although the API server was read")
	}
	before, _ := os.ReadFile(file)
	api.Put(service("default", "late", "10.96.0.30"))
	poll(t, "the file to follow", func() bool { b, _ := os.ReadFile(file); return !bytes.Equal(b, before) })
	first.expect(t, lateName, dns.RcodeSuccess, 1, -1)
	first.stop()
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v: want a file of mode 0600", info, err)
	}
	if left, _ := filepath.Glob(file + "?*"); left != nil {
		t.Errorf("left behind: %q", left)
	}

	api.Fail(http.StatusServiceUnavailable)
	api.Delete(service("default", "web", ""))
	api.Put(service("default", "new", "10.96.0.31"))
	k := keeping(t, o)
	poll(t, "readiness", k.Ready)
	k.expect(t, webName, dns.RcodeSuccess, 1, int(server.EDEStaleAnswer))
	k.expect(t, dbName, dns.RcodeSuccess, 1, int(server.EDEStaleAnswer))
	k.expect(t, lateName, dns.RcodeSuccess, 1, int(server.EDEStaleAnswer))
	k.expect(t, podName, dns.RcodeSuccess, 1, int(server.EDEStaleAnswer))
	if m := k.Exchange(t, "udp", servertest.Query(webName, dns.TypeA, 0)); m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 || len(m.Extra) != 0 {
		t.Errorf("without EDNS: %v", m)
	}
	if m := k.Ask(t, "new.default.svc.cluster.local.", dns.TypeA); m.Rcode != dns.RcodeNameError || !strings.Contains(m.String(), "EDE: 3") {
		t.Errorf("of what the snapshot does not have: %v", m)
	}
	stale := func(want string) error {
		return testutil.GatherAndCompare(k.metrics, strings.NewReader("# HELP clusterdns_kubernetes_stale 1 while answers come from a snapshot, because the API server could not be read since the start.\n"+
			"# TYPE clusterdns_kubernetes_stale gauge\nclusterdns_kubernetes_stale "+want+"\n"), "clusterdns_kubernetes_stale")
	}
	if err := stale("1"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(k.metrics, "clusterdns_kubernetes_data_age_seconds"); n != 1 || err != nil {
		t.Errorf("%d ages of the data, %v", n, err)
	}

	asked, ended, stopped := 0, make(chan struct{}), make(chan struct{})
	go func() { // what is in both is there throughout
		defer close(stopped)
		for {
			select {
			case <-ended:
				return
			default:
			}
			if m, err := dns.Exchange(servertest.Query(dbName, dns.TypeA, 0), k.Addr); err != nil || len(m.Answer) != 1 {
				t.Errorf("while the API server came back: %v %v", m, err)
				return
			}
			asked++
		}
	}()
	api.Fail(0)
	poll(t, "fresh data", func() bool { return !k.Stale() })
	close(ended)
	<-stopped
	if asked == 0 {
		t.Error("nothing was asked meanwhile")
	}
	k.expect(t, webName, dns.RcodeNameError, 0, -1)
	k.expect(t, "new.default.svc.cluster.local.", dns.RcodeSuccess, 1, -1)
	if err := stale("0"); err != nil {
		t.Error(err)
	}
	if n := strings.Count(k.log.text(), "answering from the snapshot"); n != 1 {
		t.Errorf("said %d times:\n%s", n, k.log.text())
	}
}

// text is the log.
func (r *recorder) text() (s string) {
	r.locked(func() { s = r.log.String() })
	return s
}

func TestSnapshotThatIsNoUse(t *testing.T) {
	t.Parallel()
	api := kubetest.Start(t, small()...)
	dir := t.TempDir()
	o := withSnapshot(api, filepath.Join(dir, "good"))
	written(t, api, o)
	good, err := os.ReadFile(o.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	api.Fail(http.StatusServiceUnavailable)
	end := bytes.LastIndexByte(bytes.TrimSpace(good), '\n') + 1
	flipped := slices.Clone(good)
	flipped[bytes.Index(flipped, []byte("10.96.0.20"))+9] = '1'
	for name, tt := range map[string]struct {
		content []byte
		options func(*Options)
		want    string
	}{
		"nothing":                  {[]byte{}, nil, "cut off or damaged"},
		"without its end":          {good[:end], nil, "cut off or damaged"},
		"cut off in a line":        {good[:end-10], nil, "cut off or damaged"},
		"with more behind its end": {append(slices.Clone(good), "{}\n"...), nil, "cut off or damaged"},
		"another address":          {flipped, nil, "cut off or damaged"},
		"no JSON":                  {[]byte("apiVersion: v1\n"), nil, "cut off or damaged"},
		"another file":             {[]byte("{\"a\":1}\n"), nil, "no snapshot"},
		"another format":           {bytes.Replace(good, []byte(`"Format":1`), []byte(`"Format":9`), 1), nil, "of another version"},
		"of other options":         {good, func(o *Options) { o.Labels = "a=b" }, "with other options"},
		"of another cluster":       {good, func(o *Options) { o.Context = "kubetest" }, "with other options"},
		"a folder":                 {nil, nil, "no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Snapshot = filepath.Join(t.TempDir(), "snapshot")
			if tt.content == nil {
				err = os.Mkdir(o.Snapshot, 0o700)
			} else if err := os.WriteFile(o.Snapshot, tt.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.options != nil {
				tt.options(&o)
			}
			if _, err := readSnapshot(o.Snapshot, o.scope()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want one with %q", err, tt.want)
			}
			if name == "of another cluster" {
				return // the context does not exist: Run would fail
			}
			k := keeping(t, o)
			poll(t, "the line that says so", func() bool { return strings.Contains(k.log.text(), tt.want) })
			k.expect(t, webName, dns.RcodeServerFailure, 0, int(server.EDENotReady))
			k.stop()
			if n := strings.Count(k.log.text(), "the snapshot is not used"); n != 1 || k.Ready() {
				t.Errorf("said %d times, ready %t:\n%s", n, k.Ready(), k.log.text())
			}
			if b, _ := os.ReadFile(o.Snapshot); tt.content != nil && !bytes.Equal(b, tt.content) {
				t.Error("it was written although nothing was read")
			}
		})
	}
}

// TestSnapshotThatCannotBeWritten: the failure is said once, and its end.
func TestSnapshotThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	api, dir := kubetest.Start(t, small()...), filepath.Join(t.TempDir(), "folder")
	k := keeping(t, withSnapshot(api, filepath.Join(dir, "snapshot")))
	poll(t, "the line that says so", func() bool { return strings.Contains(k.log.text(), "cannot be written") })
	k.expect(t, webName, dns.RcodeSuccess, 1, -1)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	poll(t, "the file", func() bool { return strings.Contains(k.log.text(), "can be written again") })
	if n := strings.Count(k.log.text(), "cannot be written"); n != 1 {
		t.Errorf("said %d times:\n%s", n, k.log.text())
	}
}

// TestSnapshotIsOfTheConfigurationInUse: what a configuration that a reload has replaced writes meanwhile does not stay.
func TestSnapshotIsOfTheConfigurationInUse(t *testing.T) {
	t.Parallel()
	api, dir := kubetest.Start(t, small()...), t.TempDir()
	o, before := withSnapshot(api, filepath.Join(dir, "snapshot")), withSnapshot(api, filepath.Join(dir, "before"))
	before.Labels = "!none"
	written(t, api, before)
	keeping(t, o)
	own := func() bool { _, err := readSnapshot(o.Snapshot, o.scope()); return err == nil }
	poll(t, "the file", own)
	if err := os.Rename(before.Snapshot, o.Snapshot); err != nil {
		t.Fatal(err)
	}
	poll(t, "the file to be its own again", own)
}

// TestSnapshotOfTheSameIsLeft: a file that another directive with the same options has written is not written anew while nothing changes.
func TestSnapshotOfTheSameIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Snapshot: filepath.Join(dir, "snapshot")}
	x := newIndex(&o)
	x.Apply(&Namespace{"a"})
	save := func(o Options) (*snapshotter, fs.FileInfo) {
		s := newSnapshotter(&o, x, slog.New(slog.DiscardHandler))
		s.save()
		info, err := os.Stat(o.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		return s, info
	}
	own, _ := save(o)
	same, other := o, o
	same.Snapshot, other.Snapshot, other.Labels = filepath.Join(dir, "same"), filepath.Join(dir, "other"), "!none"
	for _, by := range []Options{same, other} {
		_, written := save(by)
		if err := os.Rename(by.Snapshot, o.Snapshot); err != nil {
			t.Fatal(err)
		}
		own.save()
		info, err := os.Stat(o.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if left := os.SameFile(info, written); left != (by.Labels == o.Labels) {
			t.Errorf("%s: left %v", by.Snapshot, left)
		}
	}
}

// TestSnapshotOfTheNextStays: a configuration that a reload has replaced does not write over the file of the next at its end.
func TestSnapshotOfTheNextStays(t *testing.T) {
	t.Parallel()
	api, dir := kubetest.Start(t, small()...), t.TempDir()
	next := withSnapshot(api, filepath.Join(dir, "next"))
	next.Labels = "!none"
	written(t, api, next)
	o := withSnapshot(api, filepath.Join(dir, "snapshot"))
	x := newIndex(&o)
	s := newSnapshotter(&o, x, slog.New(slog.DiscardHandler))
	s.every = time.Hour
	for k := range numKinds {
		x.Replace(k, values(nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.run(ctx) }()
	poll(t, "the file", func() bool { _, err := readSnapshot(o.Snapshot, o.scope()); return err == nil })
	if err := os.Rename(next.Snapshot, o.Snapshot); err != nil {
		t.Fatal(err)
	}
	x.Apply(&Namespace{"changed"})
	cancel()
	<-ended
	if _, err := readSnapshot(o.Snapshot, next.scope()); err != nil {
		t.Error(err)
	}
}

func TestSnapshotTidies(t *testing.T) {
	t.Parallel()
	api, dir := kubetest.Start(t, small()...), t.TempDir()
	old, young := filepath.Join(dir, "snapshot.1.tmp"), filepath.Join(dir, "snapshot.2.tmp")
	for _, f := range []string{old, young} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-2*abandoned)); err != nil {
		t.Fatal(err)
	}
	written(t, api, withSnapshot(api, filepath.Join(dir, "snapshot")))
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); !slices.Equal(left, []string{young}) {
		t.Errorf("left: %q", left)
	}
}

func TestSnapshotIsBounded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	huge := &Service{Namespace: "a", Name: strings.Repeat("x", 1<<20)}
	_, err := writeSnapshot(file, heading{Format: snapshotFormat}, func(yield func(Object) bool) {
		for yield(huge) {
		}
	})
	if err != errSnapshotSize { //nolint:errorlint // it is that very one
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(file + "*"); left != nil {
		t.Errorf("left behind: %q", left)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(maxSnapshot + 1); err != nil {
		t.Fatal(err)
	}
	if _, err := readSnapshot(file, scope{}); err != errSnapshotSize { //nolint:errorlint // it is that very one
		t.Errorf("%v", err)
	}
	for what, line := range map[string]string{
		"many endpoints":  `{"EndpointSlice":{"Endpoints":[` + strings.Repeat(`{},`, maxLine/3) + `{}]}}` + "\n",
		"nested":          `{"EndpointSlice":{"Endpoints":` + strings.Repeat(`[`, maxLine/4) + strings.Repeat(`]`, maxLine/4) + "}}\n",
		"a line too long": `{"Namespace":{"Name":"` + strings.Repeat("x", maxLine) + `"}}` + "\n",
		"lines":           strings.Repeat("{}\n", 1<<20),
	} {
		if _, err := decodeSnapshot(bytes.NewReader(sealed(t, []byte(line))), scope{}); err != errSnapshotWhole { //nolint:errorlint // it is that very one
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSnapshotThatWouldNotBeReadBack: a Service of the 1.5 MiB that an API server takes may be more here, if it has addresses and nothing else. Such a snapshot is
// not written over a good one.
func TestSnapshotThatWouldNotBeReadBack(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	s := &Service{Namespace: "a", Name: "large"}
	of := 0
	for i := range 100_000 {
		a := netip.AddrFrom4([4]byte{203, byte(i >> 16), byte(i >> 8), byte(i)})
		s.External = append(s.External, External{Addr: a})
		of += len(a.String()) + len("\x2a\x0f") // the field number and the length, in protobuf
	}
	if of > 3<<19 {
		t.Fatalf("no API server would take these %d bytes", of)
	}
	if _, err := writeSnapshot(file, heading{Format: snapshotFormat}, values([]Object{&Namespace{"a"}})); err != nil {
		t.Fatal(err)
	}
	_, err := writeSnapshot(file, heading{Format: snapshotFormat}, values([]Object{&Namespace{"a"}, s}))
	if err == nil || !strings.Contains(err.Error(), `Service large of namespace "a"`) {
		t.Errorf("%v, want an error that names the Service", err)
	}
	if _, err := readSnapshot(file, scope{}); err != nil {
		t.Error(err)
	}
}

// TestSnapshotIsTheSameState: what is read back makes the entries that it was made of, so that the API server's objects change nothing.
func TestSnapshotIsTheSameState(t *testing.T) {
	t.Parallel()
	o := Options{Endpoints: true, Pods: PodsVerified, Zonal: true, EndpointPodNames: true}
	a, six := netip.MustParseAddr, netip.MustParseAddr("fd00::1")
	all := [numKinds][]Object{
		{&Namespace{"x"}, &Namespace{"y"}},
		{
			&Service{Namespace: "x", Name: "a", ClusterIPs: []netip.Addr{a("10.0.0.1"), six}, Ports: []Port{{"http", 80, TCP}, {"", 53, UDP}}, Selector: true, Type: LoadBalancer,
				External: []External{{Addr: a("192.0.2.1")}, {Hostname: "lb.example"}}},
			&Service{Namespace: "x", Name: "h", Headless: true, Unready: true},
			&Service{Namespace: "y", Name: "e", Type: ExternalName, ExternalName: "Www.Example.COM"},
			&Service{Namespace: "y", Name: "broken", Type: ExternalName, ExternalName: "192.0.2.1"},
		},
		{
			&EndpointSlice{Namespace: "x", Name: "h-1", Service: "h", Ports: []Port{{"http", 80, TCP}}, Endpoints: []Endpoint{
				{Addr: a("10.1.0.2"), Hostname: "h-0", Pod: "h-0", Zone: "z1", Ready: true, Serving: true},
				{Addr: a("10.1.0.1"), Pod: "h-1.a", Serving: true, Terminating: true},
				{Addr: six, Zone: "z2", Ready: true, Serving: true}}},
			&EndpointSlice{Namespace: "x", Name: "h-2", Service: "h", Endpoints: []Endpoint{}},
			&EndpointSlice{Namespace: "y", Name: "early", Service: "of-no-service", Endpoints: []Endpoint{{Addr: six, Ready: true}}},
		},
		{&Pod{"x", "p", []netip.Addr{a("10.1.0.1"), six}}},
	}
	was := newIndex(&o)
	for k := range all {
		was.Replace(Kind(k), slices.Values(all[k]))
	}
	var file bytes.Buffer
	if err := encodeSnapshot(&file, heading{snapshotFormat, time.Now(), o.scope()}, was.Objects); err != nil {
		t.Fatal(err)
	}
	state, err := decodeSnapshot(&file, o.scope())
	if err != nil {
		t.Fatal(err)
	}
	is := newIndex(&o)
	if !is.restore(&state.objects) || !is.Stale() || !is.synced.Load() {
		t.Fatal("not restored")
	}
	if a, b := dumpOf(t, was), dumpOf(t, is); a != b {
		t.Errorf("written:\n%s\nread:\n%s", a, b)
	}
	edits := is.edits.Load()
	for k := range all {
		is.Replace(Kind(k), slices.Values(all[k]))
	}
	if n := is.edits.Load() - edits; n != 1 || is.Stale() {
		t.Errorf("%d changes, stale %t: want one, that the API server was read", n, is.Stale())
	}
	late := newIndex(&o)
	late.Replace(KindService, slices.Values(all[KindService][:1]))
	late.restore(&state.objects)
	if n := len(late.ServiceNames("x")) + len(late.ServiceNames("y")); n != 1 || len(late.NamespaceNames()) != 2 {
		t.Errorf("%d Services: what the API server has told must stay", n)
	}
}

// dumpOf is all that an index holds, in order.
func dumpOf(t *testing.T, x *Index) string {
	t.Helper()
	var lines []string
	for o := range x.Objects {
		b, err := json.Marshal(lineOf(o))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// sealed is a snapshot of lines that somebody else wrote, with a heading and an end that fit them: damage that the checksum would find at once is not what
// is looked for.
func sealed(t *testing.T, lines []byte) []byte {
	t.Helper()
	first, err := json.Marshal(line{Snapshot: &heading{Format: snapshotFormat}})
	if err != nil {
		t.Fatal(err)
	}
	all := append(append(first, '\n'), lines...)
	last, err := json.Marshal(line{End: &ending{bytes.Count(lines, []byte{'\n'}), crc32.Checksum(all, crc32.MakeTable(crc32.Castagnoli))}})
	if err != nil {
		t.Fatal(err)
	}
	return append(append(all, last...), '\n')
}

// FuzzSnapshot reads any file as a snapshot, as it is and with a heading and a checksum that are right. What is read makes an index, and what that index
// writes makes the same index again.
func FuzzSnapshot(f *testing.F) {
	var file bytes.Buffer
	a := netip.MustParseAddr("10.0.0.1")
	objects := slices.Values([]Object{
		&Namespace{"x"}, &Service{Namespace: "x", Name: "a", ClusterIPs: []netip.Addr{a}, Ports: []Port{{"http", 80, TCP}}}, &Service{Namespace: "x", Name: "e", Type: ExternalName, ExternalName: "b.c"},
		&EndpointSlice{Namespace: "x", Name: "a-1", Service: "a", Ports: []Port{{"http", 80, TCP}}, Endpoints: []Endpoint{{Addr: a, Hostname: "h", Pod: "p", Zone: "z", Ready: true}}},
		&Pod{"x", "p", []netip.Addr{a}},
	})
	if err := encodeSnapshot(&file, heading{Format: snapshotFormat}, objects); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes(), false)
	lines := bytes.SplitAfter(file.Bytes(), []byte{'\n'})
	f.Add(bytes.Join(lines[1:len(lines)-2], nil), true)
	for _, l := range lines[1 : len(lines)-2] {
		f.Add(l, true)
	}
	o := Options{Endpoints: true, Pods: PodsVerified, Zonal: true, EndpointPodNames: true}
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		if whole {
			b = sealed(t, b)
		}
		s, err := decodeSnapshot(bytes.NewReader(b), scope{})
		if err != nil {
			return
		}
		was, is := newIndex(&o), newIndex(&o)
		was.restore(&s.objects)
		var again bytes.Buffer
		if err := encodeSnapshot(&again, heading{Format: snapshotFormat}, was.Objects); err != nil {
			t.Fatal(err)
		}
		if s, err = decodeSnapshot(&again, scope{}); err != nil {
			t.Fatalf("what was written of %q cannot be read: %v", b, err)
		}
		is.restore(&s.objects)
		if a, b := dumpOf(t, was), dumpOf(t, is); a != b {
			t.Errorf("written:\n%s\nread:\n%s", a, b)
		}
	})
}
