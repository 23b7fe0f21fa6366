package kubernetes

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server/wire"
)

// PodMode is how names of the form 10-1-2-3.NAMESPACE.pod.ZONE are answered.
type PodMode uint8

// The modes of the pods option.
const (
	PodsDisabled PodMode = iota // they do not exist
	PodsInsecure                // the address in the name is the answer, if the namespace exists
	PodsVerified                // only if a Pod of the namespace has the address
)

// String is the word that the option takes.
func (m PodMode) String() string {
	switch m {
	case PodsInsecure:
		return "insecure"
	case PodsVerified:
		return "verified"
	}
	return "disabled"
}

// The defaults and bounds of options; they are CoreDNS's.
const (
	defaultTTL            = 5
	maxTTL                = 3600
	defaultStartupTimeout = 5 * time.Second
	maxStartupTimeout     = time.Hour
)

// Options are what a kubernetes directive says. Two that are deeply equal describe the same server.
type Options struct {
	Zones       []wire.Zone // as the directive orders them; CIDR labels are already their reverse zones
	Fallthrough []wire.Zone // where a name that does not exist goes on down the chain; nil for nowhere

	// Where the cluster is read from: Manifests, or else KubeconfigFile, or else Endpoint, or else the service account of the Pod.
	Manifests      []string // files and folders
	KubeconfigFile string
	Context        string // "" for the current one of the kubeconfig
	Endpoint       string // URL of the API server
	TLSCert        string // files for Endpoint; "" for none
	TLSKey         string
	TLSCA          string

	QPS         float32 // requests a second to the API server; 0 for the client's default
	Burst       int     // 0 for the client's default
	MaxInflight int     // requests to the API server at one time; 0 for no bound

	Snapshot string // file that keeps what the API server told for a start without it; "" for none

	Namespaces      []string // only these; nil for all
	NamespaceLabels string   // only namespaces that match the selector; "" for all
	Labels          string   // only Services and EndpointSlices (and Pods) that match the selector; "" for all

	Pods             PodMode
	EndpointPodNames bool // endpoints without hostname are named after their Pod
	TTL              uint32
	Endpoints        bool // false with noendpoints
	IgnoreEmpty      bool // ignore empty_service
	Zonal            bool

	StartupTimeout time.Duration // how long the start waits for the first sync
}

// Parse reads a kubernetes directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{TTL: defaultTTL, Endpoints: true, StartupTimeout: defaultStartupTimeout}
	errs := []error{o.parseZones(in)}
	p := parser{Options: &o, in: in}
	errs = append(errs, directive.ParseOptions(in, &p, rows), p.conflicts())
	return o, errors.Join(errs...)
}

// parser is Options being read, with what else the rows need.
type parser struct {
	*Options
	in *directive.Input
}

// conflicts are combinations that make no sense.
func (p *parser) conflicts() error {
	o := p.Options
	switch {
	case len(o.Namespaces) > 0 && o.NamespaceLabels != "":
		return p.in.Name.Errorf("kubernetes: namespaces and namespace_labels cannot both be set")
	case len(o.Manifests) > 0 && (o.KubeconfigFile != "" || o.Endpoint != ""):
		return p.in.Name.Errorf("kubernetes: manifests cannot be set together with kubeconfig or endpoint")
	case len(o.Manifests) > 0 && o.Snapshot != "":
		return p.in.Name.Errorf("kubernetes: snapshot keeps what an API server told and cannot be set together with manifests")
	}
	return nil
}

// rows are the options in the order of the documentation.
var rows = []directive.Option[parser]{
	{Name: "endpoint", Usage: "URL", Min: 1, Max: 1, Help: "the API server to read from, instead of the one of the Pod's service account", Set: setEndpoint},
	{Name: "tls", Usage: "CERT KEY CACERT", Min: 3, Max: 3, Help: "client certificate, its key, and the authority of the endpoint's certificate", Set: setTLS},
	{Name: "kubeconfig", Usage: "FILE [CONTEXT]", Min: 1, Max: 2, Help: "the kubeconfig that says which API server to read from and how", Set: setKubeconfig},
	{Name: "manifests", Usage: "PATH...", Min: 1, Max: directive.Many, Repeat: true, Help: "read the cluster from files and folders of manifests instead of an API server", Set: setManifests},
	{Name: "snapshot", Usage: "FILE", Min: 1, Max: 1, Help: "keep what the API server told in a file, and start from it where there is no API server", Set: setSnapshot},
	{Name: "apiserver_qps", Usage: "QPS", Min: 1, Max: 1, Help: "most requests a second to the API server", Set: setQPS},
	{Name: "apiserver_burst", Usage: "BURST", Min: 1, Max: 1, Help: "how many requests may exceed that for a moment", Set: setBurst},
	{Name: "apiserver_max_inflight", Usage: "MAX", Min: 1, Max: 1, Help: "most requests to the API server at one time", Set: setInflight},
	{Name: "namespaces", Usage: "NAMESPACE...", Min: 1, Max: directive.Many, Repeat: true, Help: "only these namespaces exist", Set: setNamespaces},
	{Name: "namespace_labels", Usage: "EXPRESSION", Min: 1, Max: directive.Many, Help: "only namespaces that match the label selector exist", Set: setNamespaceLabels},
	{Name: "labels", Usage: "EXPRESSION", Min: 1, Max: directive.Many, Help: "only objects that match the label selector exist", Set: setLabels},
	{Name: "pods", Usage: "disabled|insecure|verified", Min: 1, Max: 1, Help: "how names of Pod addresses are answered", Set: setPods},
	{Name: "endpoint_pod_names", Help: "name endpoints without hostname after their Pods", Set: func(p *parser, _ *directive.Line) error { p.EndpointPodNames = true; return nil }},
	{Name: "ttl", Usage: "SECONDS", Min: 1, Max: 1, Help: "TTL of the records, 0 to 3600", Set: setTTL},
	{Name: "noendpoints", Help: "do not read EndpointSlices: endpoints and headless Services do not exist", Set: func(p *parser, _ *directive.Line) error { p.Endpoints = false; return nil }},
	{Name: "fallthrough", Usage: "[ZONES...]", Max: directive.Many, Help: "pass names that do not exist on to the next directive", Set: setFallthrough},
	{Name: "ignore", Usage: "empty_service", Min: 1, Max: 1, Help: "a Service without endpoints does not exist", Set: setIgnore},
	{Name: "zonal", Help: "answer ZONE._zone.SERVICE... of headless Services with the endpoints of a topology zone", Set: func(p *parser, _ *directive.Line) error { p.Zonal = true; return nil }},
	{Name: "startup_timeout", Usage: "DURATION", Min: 1, Max: 1, Help: "how long the start waits for the first sync", Set: setStartupTimeout},
	{Name: "multicluster", Usage: "[ZONES...]", Max: directive.Many, Help: "not supported", Set: setMulticluster},
	{Name: "upstream", Usage: "[ADDRESS...]", Max: directive.Many, Repeat: true, Help: "does nothing: targets of ExternalName Services are looked up by the whole chain", Set: ignored},
	{Name: "resyncperiod", Usage: "DURATION", Max: directive.Many, Help: "does nothing: every change arrives by itself", Set: ignored},
	{Name: "transfer", Usage: "to ADDRESS...", Max: directive.Many, Repeat: true, Help: "does nothing: use the transfer directive", Set: ignored},
}

func ignored(p *parser, l *directive.Line) error {
	p.in.Warn(l.Name, "kubernetes: %s is accepted for old configurations and does nothing", l.Name.Text)
	return nil
}

func setMulticluster(_ *parser, l *directive.Line) error {
	return l.Name.Errorf("multicluster zones are not supported yet")
}

func setEndpoint(p *parser, l *directive.Line) error {
	u, err := url.Parse(l.Args[0].Text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return l.Args[0].Errorf("%q is not a URL like https://10.0.0.1:6443", l.Args[0].Text)
	}
	p.Endpoint = l.Args[0].Text
	return nil
}

func setTLS(p *parser, l *directive.Line) error {
	p.TLSCert, p.TLSKey, p.TLSCA = p.in.Path(l.Args[0].Text), p.in.Path(l.Args[1].Text), p.in.Path(l.Args[2].Text)
	return nil
}

func setKubeconfig(p *parser, l *directive.Line) error {
	file := l.Args[0].Text
	if below, ok := strings.CutPrefix(file, "~/"); ok { // as kubectl's users are used to
		home, err := os.UserHomeDir()
		if err != nil {
			return l.Args[0].Errorf("%q cannot be found: %w", file, err)
		}
		file = filepath.Join(home, below)
	}
	p.KubeconfigFile = p.in.Path(file)
	if len(l.Args) == 2 {
		p.Context = l.Args[1].Text
	}
	return nil
}

func setManifests(p *parser, l *directive.Line) error {
	for _, a := range l.Args {
		p.Manifests = append(p.Manifests, p.in.Beside(a.Text))
	}
	return nil
}

func setSnapshot(p *parser, l *directive.Line) error {
	p.Snapshot = p.in.Beside(l.Args[0].Text)
	return nil
}

func setQPS(p *parser, l *directive.Line) error {
	var v float32
	if n, err := fmt.Sscan(l.Args[0].Text, &v); n != 1 || err != nil || !(v > 0 && v <= 1e6) {
		return l.Args[0].Errorf("%q is not a number over 0", l.Args[0].Text)
	}
	p.QPS = v
	return nil
}

// The API server's own default limits are in the hundreds; these bounds only catch slips of the finger.
const maxRequests = 1_000_000

func setBurst(p *parser, l *directive.Line) (err error) {
	p.Burst, err = l.Args[0].Int(1, maxRequests)
	return err
}

func setInflight(p *parser, l *directive.Line) (err error) {
	p.MaxInflight, err = l.Args[0].Int(1, maxRequests)
	return err
}

func setNamespaces(p *parser, l *directive.Line) error {
	p.Namespaces = append(p.Namespaces, l.Texts()...)
	return nil
}

func setNamespaceLabels(p *parser, l *directive.Line) (err error) {
	p.NamespaceLabels, err = selector(l)
	return err
}

func setLabels(p *parser, l *directive.Line) (err error) {
	p.Labels, err = selector(l)
	return err
}

// selector reads a label selector that may be spread over several words, and gives its normal form.
func selector(l *directive.Line) (string, error) {
	text := strings.Join(l.Texts(), " ")
	s, err := labels.Parse(text)
	if err != nil {
		return "", l.Args[0].Errorf("%q is not a label selector: %v", text, err)
	}
	return s.String(), nil
}

func setPods(p *parser, l *directive.Line) error {
	switch l.Args[0].Text {
	case "disabled":
		p.Pods = PodsDisabled
	case "insecure":
		p.Pods = PodsInsecure
	case "verified":
		p.Pods = PodsVerified
	default:
		return l.Args[0].Errorf("%q is not one of disabled, insecure, verified", l.Args[0].Text)
	}
	return nil
}

func setTTL(p *parser, l *directive.Line) error {
	n, err := l.Args[0].Int(0, maxTTL)
	p.TTL = uint32(n)
	return err
}

func setFallthrough(p *parser, l *directive.Line) error {
	if len(l.Args) == 0 {
		p.Fallthrough = []wire.Zone{wire.NewZone(wire.Root)}
		return nil
	}
	var err error
	p.Fallthrough, err = zones(p.in, l.Args)
	return err
}

func setIgnore(p *parser, l *directive.Line) error {
	if l.Args[0].Text != "empty_service" {
		return l.Args[0].Errorf("%q is not known; the only thing to ignore is empty_service", l.Args[0].Text)
	}
	p.IgnoreEmpty = true
	return nil
}

func setStartupTimeout(p *parser, l *directive.Line) (err error) {
	p.StartupTimeout, err = l.Args[0].Duration(0, maxStartupTimeout, 0)
	return err
}
