// Package config turns a Corefile into a running server: it reads and validates the text, builds what the directives ask for, and swaps
// it in under the live sockets.
//
// # Adding a directive
//
// The table in this file is the one list of directives, in the order in which a query meets them. A directive is one row:
//
//	row(Directive{Name: "nsid", Usage: "[DATA]", Help: "adds the server's identity"}, nsid.Parse, buildNSID)
//
// where nsid.Parse has the form func(*directive.Input) (nsid.Options, error), and the last argument puts what was parsed into the
// server block being built, in build_*.go:
//
//	func buildNSID(s *site, o nsid.Options) error {
//		s.handle(nsid.New(o))
//		return nil
//	}
//
// It is called once for each occurrence; a directive whose occurrences make one thing together uses group instead of row, and its build function
// gets all of them. A handler stands in the chain where its row stands in the table; handleBefore puts one elsewhere. A site also takes observers, metadata providers, HTTP routes, parts that ready waits for, and
// options of the block itself; see there. A part that costs something to make, or has state, is made through keep, so that a reload that
// does not change the directive's options goes on with it; if it has a Run method, that is called.
// Repeat says that a server block may have the directive more than once.
// Again, OneLine and Swallows are leeway that CoreDNS gives; see there.
package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/cache"
	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/forward"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/acl"
	anytype "github.com/clusterdns/clusterdns/plugin/any"
	"github.com/clusterdns/clusterdns/plugin/auto"
	"github.com/clusterdns/clusterdns/plugin/autopath"
	"github.com/clusterdns/clusterdns/plugin/bufsize"
	"github.com/clusterdns/clusterdns/plugin/cancel"
	"github.com/clusterdns/clusterdns/plugin/chaos"
	"github.com/clusterdns/clusterdns/plugin/console"
	"github.com/clusterdns/clusterdns/plugin/dns64"
	"github.com/clusterdns/clusterdns/plugin/erratic"
	errorlog "github.com/clusterdns/clusterdns/plugin/errors"
	"github.com/clusterdns/clusterdns/plugin/file"
	"github.com/clusterdns/clusterdns/plugin/header"
	"github.com/clusterdns/clusterdns/plugin/health"
	"github.com/clusterdns/clusterdns/plugin/hosts"
	k8sexternal "github.com/clusterdns/clusterdns/plugin/k8s_external"
	"github.com/clusterdns/clusterdns/plugin/loadbalance"
	"github.com/clusterdns/clusterdns/plugin/local"
	querylog "github.com/clusterdns/clusterdns/plugin/log"
	"github.com/clusterdns/clusterdns/plugin/loop"
	"github.com/clusterdns/clusterdns/plugin/metadata"
	"github.com/clusterdns/clusterdns/plugin/minimal"
	"github.com/clusterdns/clusterdns/plugin/nsid"
	"github.com/clusterdns/clusterdns/plugin/pprof"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/plugin/ratelimit"
	"github.com/clusterdns/clusterdns/plugin/ready"
	"github.com/clusterdns/clusterdns/plugin/rewrite"
	"github.com/clusterdns/clusterdns/plugin/secondary"
	"github.com/clusterdns/clusterdns/plugin/template"
	tlsconf "github.com/clusterdns/clusterdns/plugin/tls"
	"github.com/clusterdns/clusterdns/plugin/transfer"
	"github.com/clusterdns/clusterdns/plugin/view"
	"github.com/clusterdns/clusterdns/plugin/whoami"
)

// Directive is one row of the table.
type Directive struct {
	Name     string
	Usage    string   // its arguments as documentation writes them
	Help     string   // one line
	Repeat   bool     // may stand more than once in a server block
	Again    Again    // what becomes of a further occurrence that Repeat does not allow
	OneLine  []string // options behind which the closing brace may stand on the same line
	Swallows []string // options behind which CoreDNS takes that brace for one more argument, and goes on

	parse func(u *Use) error
	build func(s *site, uses []*Use) error
}

// row completes a Directive by its two functions; build is called for each occurrence.
func row[O any](d Directive, parse func(*directive.Input) (O, error), build func(*site, O) error) Directive {
	d.parse = parser(parse)
	d.build = func(s *site, uses []*Use) error {
		var errs []error
		for _, u := range uses {
			s.use, s.made = u, 0
			errs = appendError(errs, s.at(build(s, u.Options.(O))))
		}
		return errors.Join(errs...)
	}
	return d
}

// group is row for a directive whose occurrences in a server block make one thing together.
func group[O any](d Directive, parse func(*directive.Input) (O, error), build func(*site, []O) error) Directive {
	d.Repeat = true
	d.parse = parser(parse)
	d.build = func(s *site, uses []*Use) error {
		all := make([]O, len(uses))
		for i, u := range uses {
			all[i] = u.Options.(O)
		}
		s.use, s.made = uses[0], 0
		return s.at(build(s, all))
	}
	return d
}

func parser[O any](parse func(*directive.Input) (O, error)) func(u *Use) error {
	return func(u *Use) error {
		o, err := parse(u.Input)
		u.Options = o
		return named(u.Directive.Name, err)
	}
}

// named puts the directive's name before errors that do not say it.
func named(name string, err error) error {
	var errs []error
	for _, e := range Errors(err) {
		var placed *directive.Error
		if errors.As(e, &placed) && !strings.HasPrefix(placed.Err.Error(), name+":") {
			e = &directive.Error{File: placed.File, Line: placed.Line, Column: placed.Column, Err: fmt.Errorf("%s: %w", name, placed.Err)}
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// Directives is the table of directives in the order of the chain. That is CoreDNS's, but for two: cache stands where
// waiting begins, and dns64 behind kubernetes, whose answers are not for it.
func Directives() []Directive {
	return slices.Concat(settings(), onlookers(), changers(), answerers())
}

// settings are the directives that set something.
func settings() []Directive {
	return []Directive{
		row(Directive{Name: "root", Usage: "PATH", Help: "folder that relative paths of the server block begin in", Again: againMerge},
			parseRoot, nothing[rootOptions]),
		row(Directive{Name: "metadata", Usage: "[ZONES…]", Help: "lets facts about queries be had by label"},
			metadata.Parse, buildMetadata),
		group(Directive{Name: "view", Usage: "NAME", Help: "takes only queries for which expressions are true"},
			view.Parse, buildView),
		row(Directive{Name: "cancel", Usage: "[TIMEOUT]", Help: "bounds how long a query may wait", Again: againMerge},
			cancel.Parse, buildCancel),
		row(Directive{Name: "tls", Usage: "CERT KEY [CA]", Help: "the certificate of tls:// and https:// server blocks", Again: againMerge},
			tlsconf.Parse, buildTLS),
		row(Directive{Name: "timeouts", Help: "how long clients of TCP, TLS and HTTPS may take", Again: againMerge},
			parseTimeouts, buildTimeouts),
		row(Directive{Name: "multisocket", Usage: "[NUMBER]", Help: "how many UDP sockets share a port"},
			parseMultisocket, buildMultisocket),
		row(Directive{Name: "reload", Usage: "[INTERVAL] [JITTER]", Help: "takes up changes of the Corefile while running", Again: againFirst},
			parseReload, buildReload),
		row(Directive{Name: "nsid", Usage: "[DATA]", Help: "tells clients that ask which server answered"},
			nsid.Parse, buildNSID),
		row(Directive{Name: "ede", Usage: "on|off", Help: "says in replies why there is no answer, or does not"},
			parseEDE, buildEDE),
		row(Directive{Name: "bufsize", Usage: "[SIZE]", Help: "bounds the size of replies over UDP", Again: againMerge},
			bufsize.Parse, buildBufsize),
		row(Directive{Name: "bind", Usage: "ADDRESS|INTERFACE…", Help: "listens on these addresses instead of all", Repeat: true},
			parseBind, buildBind),
		row(Directive{Name: "debug", Help: "logs at level debug, and lets a panic end the process", Again: againMerge},
			parseDebug, buildDebug),
	}
}

// onlookers are the directives that tell of what happens.
func onlookers() []Directive {
	return []Directive{
		row(Directive{Name: "ready", Usage: "[ADDRESS|unix:PATH]", Help: "says over HTTP whether queries can be answered"},
			ready.Parse, buildReady),
		row(Directive{Name: "health", Usage: "[ADDRESS]", Help: "says over HTTP that the process lives", Again: againMerge},
			health.Parse, buildHealth),
		row(Directive{Name: "pprof", Usage: "[ADDRESS]", Help: "profiles over HTTP"},
			pprof.Parse, buildPprof),
		row(Directive{Name: "prometheus", Usage: "[ADDRESS]", Help: "metrics over HTTP"},
			prometheus.Parse, buildPrometheus),
		row(Directive{Name: "console", Usage: "[ADDRESS]", Help: "a page over HTTP that shows what goes on, and why"},
			console.Parse, buildConsole),
		row(Directive{Name: "errors", Help: "logs what kept queries from being answered", Swallows: []string{"stacktrace"}},
			errorlog.Parse, buildErrors),
		group(Directive{Name: "log", Usage: "[NAMES…] [FORMAT]", Help: "logs queries"},
			querylog.Parse, buildLog),
	}
}

// changers are the directives that stand before those that answer, and change queries or replies or turn queries away.
func changers() []Directive {
	return []Directive{
		row(Directive{Name: "ratelimit", Usage: "RATE", Help: "bounds the queries per second of each client"},
			ratelimit.Parse, buildRatelimit),
		row(Directive{Name: "local", Help: "answers names that mean the machine itself", Again: againMerge},
			local.Parse, buildLocal),
		group(Directive{Name: "acl", Usage: "[ZONES…]", Help: "decides by the client's address whether a query is answered"},
			acl.Parse, buildACL),
		row(Directive{Name: "any", Help: "answers questions of type ANY with little", Again: againFirst},
			anytype.Parse, buildAny),
		row(Directive{Name: "chaos", Usage: "[VERSION] [AUTHORS…]", Help: "tells who the server is", Again: againFirst},
			chaos.Parse, buildChaos),
		row(Directive{Name: "loadbalance", Usage: "[round_robin|weighted FILE]", Help: "decides which of several addresses comes first", Again: againMerge},
			loadbalance.Parse, buildLoadbalance),
		group(Directive{Name: "rewrite", Usage: "[continue|stop] FIELD …", Help: "changes what is looked for, and answers back", Swallows: []string{"*"}},
			rewrite.Parse, buildRewrite),
		row(Directive{Name: "header", Help: "sets and clears flags of queries and replies", Repeat: true},
			header.Parse, buildHeader),
		row(Directive{Name: "autopath", Usage: "[ZONES…] FILE|@kubernetes", Help: "goes through a client's search list for it", Again: againMerge},
			autopath.Parse, buildAutopath),
		row(Directive{Name: "minimal", Help: "leaves out what an answer does not need", Again: againFirst},
			minimal.Parse, buildMinimal),
	}
}

// answerers are the directives that answer most of what they are asked. import is last because it has no place at all.
func answerers() []Directive {
	return []Directive{
		row(Directive{Name: "template", Usage: "CLASS TYPE [ZONES…]", Help: "answers from templates of records", Repeat: true, OneLine: []string{"rcode"}, Swallows: []string{"match", "answer", "additional", "authority", "ederror 1", "fallthrough", "upstream"}},
			template.Parse, buildTemplate),
		group(Directive{Name: "transfer", Usage: "[ZONES…]", Help: "gives zones to other servers"},
			transfer.Parse, buildTransfer),
		row(Directive{Name: "hosts", Usage: "[FILE [ZONES…]]", Help: "answers from a file of hosts", OneLine: []string{"ttl", "no_reverse"}, Swallows: []string{"*"}},
			hosts.Parse, buildHosts),
		row(Directive{Name: "k8s_external", Usage: "[ZONES…]", Help: "answers for Services by their addresses outside the cluster", OneLine: []string{"apex", "ttl", "headless"}, Again: againMerge, Swallows: []string{"fallthrough"}},
			k8sexternal.Parse, buildExternal),
		row(Directive{Name: "kubernetes", Usage: "[ZONES…]", Help: "answers the names of a cluster", OneLine: []string{"ttl"}, Swallows: []string{"endpoint", "namespaces", "fallthrough", "ignore", "startup_timeout", "kubeconfig 1"}},
			kubernetes.Parse, buildKubernetes),
		row(Directive{Name: "dns64", Usage: "[PREFIX]", Help: "makes AAAA records of A records", OneLine: []string{"prefix", "translate_all", "allow_ipv4"}, Again: againMerge},
			dns64.Parse, buildDNS64),
		group(Directive{Name: "file", Usage: "FILE [ZONES…]", Help: "answers from a zone file", Swallows: []string{"reload", "reload_by_mtime", "fallthrough", "upstream"}},
			file.Parse, buildFile),
		row(Directive{Name: "auto", Usage: "[ZONES…]", Help: "answers from the zone files of a folder", Repeat: true, Swallows: []string{"reload", "upstream"}},
			auto.Parse, buildAuto),
		group(Directive{Name: "secondary", Usage: "[ZONES…]", Help: "answers from zones of other servers"},
			secondary.Parse, buildSecondary),
		row(Directive{Name: "cache", Usage: "[TTL] [ZONES…]", Help: "keeps answers that had to be waited for", Swallows: []string{"success 3", "denial 3", "disable 1", "disable 2"}},
			cache.Parse, buildCache),
		row(Directive{Name: "loop", Help: "finds upstream servers that lead back here, and cuts them off"},
			loop.Parse, buildLoop),
		group(Directive{Name: "forward", Usage: "FROM TO…", Help: "asks upstream servers", OneLine: []string{
			"expire", "max_age", "max_concurrent", "max_connect_attempts", "max_fails", "max_idle_conns", "policy", "read_timeout", "tls_servername",
		}, Swallows: []string{"except", "source_address"}}, forward.Parse, buildForward),
		row(Directive{Name: "erratic", Help: "drops, delays and truncates replies, to test clients with", Again: againMerge, Swallows: []string{"large"}},
			erratic.Parse, buildErratic),
		row(Directive{Name: "whoami", Help: "answers with the client's address, port and transport", Again: againFirst},
			whoami.Parse, buildWhoami),
		row(Directive{Name: "import", Usage: "FILE|PATTERN|SNIPPET", Help: "stands for the content of files or of a snippet", Repeat: true},
			parseImport, nothing[importOptions]),
	}
}

func nothing[O any](*site, O) error { return nil }

// lookup finds a row, or nil.
func lookup(table []Directive, name string) *Directive {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// foreign says whether a directive is one of CoreDNS, or of its common builds, that is not served; hint is what to do.
func foreign(name string) (hint string, ok bool) {
	switch name {
	case "etcd", "route53", "azure", "clouddns", "nomad", "geoip", "tsig", "dnssec", "sign", "on", "proxyproto":
		return "", true
	case "https", "https3", "quic", "grpc_server":
		return ": the limits of connections are not set by a directive here", true
	case "grpc":
		return ": forward speaks DNS over UDP, TCP and TLS", true
	case "fanout", "alternate":
		return ": forward asks several upstream servers", true
	}
	return "", false
}

// unknown is the error for a directive that is not in the table.
func unknown(table []Directive, name directive.Arg) error {
	if hint, ok := foreign(name.Text); ok {
		return name.Errorf("the directive %q is not supported%s", name.Text, hint)
	}
	known := make([]string, len(table))
	for i := range table {
		known[i] = table[i].Name
	}
	if n := directive.Nearest(name.Text, known); n != "" {
		return name.Errorf("unknown directive %q; did you mean %q?", name.Text, n)
	}
	slices.Sort(known)
	return name.Errorf("unknown directive %q; known are %s", name.Text, strings.Join(known, ", "))
}
