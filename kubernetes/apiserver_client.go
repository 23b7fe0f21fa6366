package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	// Requests a second, and at one moment, where the options say nothing. Watches are not counted; the plain lists of a large cluster
	// are some 64 pages, which client-go's own 5 a second would draw out over 11 seconds.
	defaultQPS   = 50
	defaultBurst = 100

	// The most that is buffered of a stream, and of all streams of a connection, before it is decoded. The default of 4 MiB for each
	// stream is as much again as the records of a large cluster.
	streamBuffer     = 256 << 10
	connectionBuffer = 1 << 20

	// How long a connection may take. The dialer's usual 30 seconds are the whole time in which a lost API server is to be noticed.
	dialTimeout = 5 * time.Second

	// How long the beginning of a response may take. An API server gives up a request after a minute itself.
	responseTimeout = time.Minute
)

// connection is what the feeds share: one client for each API group, over one HTTP client.
type connection struct {
	dialer      *connrotation.Dialer
	groups      map[schema.GroupVersion]*rest.RESTClient
	host        string // of the API server, for logs and metrics
	credentials string // where the credentials come from, for messages
}

// connect makes the clients that the options ask for. It reads files, but does not speak to the API server.
func connect(o *Options, p pace) (*connection, error) {
	cfg, from, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	// A dialer of our own also keeps client-go from sharing the connection with another configuration.
	dialer := connrotation.NewDialer(p.dial)
	cfg.Dial = dialer.DialContext
	cfg.Wrap(newGate(o.MaxInflight))
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for the API server of %s: %w", from, err)
	}
	tune(hc.Transport, p)
	c := &connection{dialer: dialer, groups: map[schema.GroupVersion]*rest.RESTClient{}, host: hostOf(cfg.Host), credentials: from}
	for _, gv := range []schema.GroupVersion{corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion} {
		if c.groups[gv], err = groupClient(cfg, gv, hc); err != nil {
			return nil, fmt.Errorf("client for the API server of %s: %w", from, err)
		}
	}
	return c, nil
}

// close closes what is open; no request is under way any more. http.Client's CloseIdleConnections would do nothing: the wrappers of client-go hide the
// transport from it.
func (c *connection) close() { c.dialer.CloseAll() }

// groupClient is a client for one API group. It knows the kinds that make records and nothing else: the typed clients would more
// than double the binary.
func groupClient(base *rest.Config, gv schema.GroupVersion, hc *http.Client) (*rest.RESTClient, error) {
	cfg := rest.CopyConfig(base)
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme()).WithoutConversion()
	return rest.RESTClientForConfigAndClient(cfg, hc)
}

func scheme() *kruntime.Scheme {
	s := kruntime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Service{}, &corev1.ServiceList{}, &corev1.Pod{}, &corev1.PodList{})
	s.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	s.AddKnownTypes(metav1.SchemeGroupVersion, &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{})
	for _, gv := range []schema.GroupVersion{corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion} {
		metav1.AddToGroupVersion(s, gv)
	}
	return s
}

// restConfig is how to reach the API server, and words for where that is written.
func restConfig(o *Options) (cfg *rest.Config, from string, err error) {
	switch {
	case o.KubeconfigFile != "":
		from = "kubeconfig " + o.KubeconfigFile
		cfg, err = fromKubeconfig(o.KubeconfigFile, o.Context)
	case o.Endpoint != "":
		from = "endpoint " + o.Endpoint
		cfg = &rest.Config{Host: o.Endpoint, TLSClientConfig: rest.TLSClientConfig{CertFile: o.TLSCert, KeyFile: o.TLSKey, CAFile: o.TLSCA}}
	default:
		from = "the Pod's service account"
		cfg, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			err = errors.New("not in a cluster (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set): name one with kubeconfig or endpoint, or read files with manifests")
		}
	}
	if err != nil {
		return nil, from, fmt.Errorf("%s: %w", from, err)
	}
	cfg.UserAgent = fmt.Sprintf("clusterdns (%s/%s)", runtime.GOOS, runtime.GOARCH)
	cfg.ContentType = kruntime.ContentTypeProtobuf
	cfg.AcceptContentTypes = kruntime.ContentTypeProtobuf + "," + kruntime.ContentTypeJSON
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.QPS, cfg.Burst = defaultQPS, defaultBurst
	if o.QPS > 0 {
		cfg.QPS = o.QPS
		cfg.Burst = max(1, int(o.QPS))
	}
	if o.Burst > 0 {
		cfg.Burst = o.Burst
	}
	cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst) // one for all groups: each client would make its own
	return cfg, from, nil
}

// dialer notices a peer that is gone on connections of HTTP/1.1 as well, which have no pings.
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
}

// fromKubeconfig reads a kubeconfig; current is the context to use, "" for the file's own.
func fromKubeconfig(file, current string) (*rest.Config, error) {
	c, err := clientcmd.LoadFromFile(file)
	switch {
	case err != nil && (kruntime.IsNotRegisteredError(err) || strings.Contains(err.Error(), "Go value of type")): // of another kind, or no object
		return nil, errors.New("it is not a kubeconfig")
	case err != nil:
		return nil, err
	case len(c.Contexts) == 0:
		return nil, errors.New("it has no contexts: is it a kubeconfig?")
	}
	known := strings.Join(slices.Sorted(maps.Keys(c.Contexts)), ", ")
	if err := clientcmd.ResolveLocalPaths(c); err != nil {
		return nil, err
	}
	if current == "" {
		current = c.CurrentContext
	}
	if current == "" {
		return nil, fmt.Errorf("it has no current-context: set one, or say which context is meant; known are %s", known)
	}
	if c.Contexts[current] == nil {
		return nil, fmt.Errorf("it has no context %q; known are %s", current, known)
	}
	return clientcmd.NewNonInteractiveClientConfig(*c, current, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
}

// hostOf is the host and port of a URL, or of what stands for one in a kubeconfig, without a password: it is logged.
func hostOf(url string) string {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		rest = url
	}
	host, _, _ := strings.Cut(rest, "/")
	return host[strings.LastIndexByte(host, '@')+1:]
}

// tune sets what rest.Config has no field for.
func tune(rt http.RoundTripper, p pace) {
	for range 16 { // wrappers: credentials, user agent, the transport cache; a handful
		switch t := rt.(type) {
		case *http.Transport:
			t.ResponseHeaderTimeout, t.TLSHandshakeTimeout = responseTimeout, p.handshake
			t.HTTP2 = &http.HTTP2Config{
				SendPingTimeout:               p.idle,
				PingTimeout:                   p.ping,
				MaxReceiveBufferPerStream:     streamBuffer,
				MaxReceiveBufferPerConnection: connectionBuffer,
			}
			return
		case utilnet.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return
		}
	}
}

// gate is the innermost of what requests go through. It lets a number of them wait for the beginning of their response at one time:
// watches do not count while they stream, since there is one for each kind and they would block everything else. And it notes failures,
// because client-go shows a watch that could not be opened for a time-out as one that is over.
type gate struct {
	next http.RoundTripper
	free chan struct{} // nil for no bound
}

// failure is where a gate notes with what a request failed. It goes along in the request's context.
type failure struct{ err error }

type failureKey struct{}

func newGate(n int) func(http.RoundTripper) http.RoundTripper {
	var free chan struct{}
	if n > 0 {
		free = make(chan struct{}, n)
	}
	return func(next http.RoundTripper) http.RoundTripper { return &gate{next: next, free: free} }
}

// RoundTrip is http.RoundTripper's.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.free != nil {
		select {
		case g.free <- struct{}{}:
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
		defer func() { <-g.free }()
	}
	reply, err := g.next.RoundTrip(r)
	if f, ok := r.Context().Value(failureKey{}).(*failure); ok {
		f.err = err
	}
	return reply, err
}

// WrappedRoundTripper is utilnet.RoundTripperWrapper's.
func (g *gate) WrappedRoundTripper() http.RoundTripper { return g.next }
