package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/clusterdns/clusterdns/config"
)

const migrateUsage = `Makes a Corefile of the ConfigMap that kube-dns had: stub domains and upstream servers, within the Corefile of a new cluster.

Usage: clusterdns migrate [FLAGS] FILE

FILE is the ConfigMap as YAML or JSON, "-" for standard input:

  kubectl -n kube-system get configmap kube-dns -o yaml | clusterdns migrate - > Corefile

Flags:
  -domain NAME   the cluster domain (default cluster.local)
`

// alreadyCorefile says what to do with the ConfigMap of CoreDNS: a Corefile made of what else is in it would lose all that it says.
const alreadyCorefile = "this ConfigMap is CoreDNS's and has a Corefile, which needs no migration: " +
	"kubectl -n kube-system get configmap coredns -o jsonpath='{.data.Corefile}' > Corefile"

// kubeDNS is the ConfigMap of kube-dns. Its values are JSON.
type kubeDNS struct {
	Kind string            `json:"kind"`
	Data map[string]string `json:"data"`
}

// migrate is the subcommand of that name.
func migrate(env environment, args []string) int {
	set := flag.NewFlagSet("clusterdns migrate", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	domain := set.String("domain", "cluster.local", "")
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		say(env.stdout, "%s", migrateUsage)
		return exitOK
	case err == nil && set.NArg() != 1:
		err = errors.New("takes one argument, the file of the ConfigMap")
	case err == nil && !isDomain(*domain):
		err = fmt.Errorf("-domain: %q is not the name of a domain", *domain)
	}
	if err != nil {
		say(env.stderr, "clusterdns migrate: %v; -h lists what there is\n", err)
		return exitUsage
	}
	text, err := readConfigMap(env, set.Arg(0))
	if err != nil {
		return fail(env, err)
	}
	corefile, remarks, err := corefileOf(text, *domain)
	for _, r := range remarks {
		say(env.stderr, "%s\n", "warning: "+r)
	}
	if err != nil {
		return fail(env, err)
	}
	say(env.stdout, "%s", corefile)
	return exitOK
}

func readConfigMap(env environment, file string) (text []byte, err error) {
	if file == "-" {
		text, err = io.ReadAll(env.stdin)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the ConfigMap: %w", err)
	}
	return text, nil
}

// corefileOf makes the Corefile, and remarks on what is not in it.
func corefileOf(text []byte, domain string) (corefile string, remarks []string, err error) {
	m, err := configMapOf(text)
	if err != nil {
		return "", nil, err
	}
	stubs := map[string][]string{}
	var upstreams []string
	for _, key := range sortedKeys(m.Data) {
		value := []byte(m.Data[key])
		var err error
		switch key {
		case "stubDomains":
			err = json.Unmarshal(value, &stubs)
		case "upstreamNameservers":
			err = json.Unmarshal(value, &upstreams)
		case "federations":
			remarks = append(remarks, "federations are left out: federated clusters do not exist any more")
		default:
			remarks = append(remarks, fmt.Sprintf("%s is left out: kube-dns has no such key", key))
		}
		if err != nil {
			return "", remarks, fmt.Errorf("%s of the ConfigMap: %w; %s, is expected", key, jsonError(err), expectedOf(key))
		}
	}
	corefile, named, err := writeCorefile(domain, stubs, upstreams)
	remarks = append(remarks, named...)
	if err != nil {
		return "", remarks, err
	}
	if _, err := config.Parse(config.Source{Name: "Corefile", Text: []byte(corefile)}, config.DefaultPort); err != nil {
		return "", remarks, fmt.Errorf("the Corefile that came of it is not valid: %w", err)
	}
	return corefile, remarks, nil
}

// configMapOf reads what may be kube-dns's ConfigMap.
func configMapOf(text []byte) (m kubeDNS, err error) {
	err = yaml.Unmarshal(text, &m)
	switch {
	case err != nil && isCorefile(text):
		return m, errors.New("a ConfigMap is expected, and this is a Corefile, which needs no migration: clusterdns check reads it")
	case err != nil:
		return m, fmt.Errorf("a ConfigMap as YAML or JSON is expected: %w", yamlError(err))
	case m.Kind != "ConfigMap":
		return m, fmt.Errorf("a ConfigMap is expected, and this is of kind %q", m.Kind)
	}
	if _, found := m.Data["Corefile"]; found {
		return m, errors.New(alreadyCorefile)
	}
	return m, nil
}

// isCorefile says whether text is what the program would serve.
func isCorefile(text []byte) bool {
	_, err := config.Parse(config.Source{Name: "Corefile", Text: text}, config.DefaultPort)
	return err == nil && bytes.ContainsRune(text, '{') // without braces, a file of hosts may pass for one
}

// expectedOf shows what the value of a key has to be like.
func expectedOf(key string) string {
	if key == "stubDomains" {
		return `a JSON object of lists of addresses, such as {"example.org": ["10.0.0.1"]}`
	}
	return `a JSON list of addresses, such as ["10.0.0.1"]`
}

// jsonError says where a value is not what it should be, without the names of Go's types.
func jsonError(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("a JSON %s does not belong at byte %d", kind.Value, kind.Offset)
	}
	return err
}

// yamlError says what is wrong with the file, without the names of Go's types.
func yamlError(err error) error {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	if kind.Field == "" {
		return fmt.Errorf("this is of the kind %q", kind.Value)
	}
	return fmt.Errorf("%s cannot be of the kind %q", kind.Field, kind.Value)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// writeCorefile writes the Corefile, and remarks on servers that are names.
func writeCorefile(domain string, stubs map[string][]string, upstreams []string) (corefile string, remarks []string, err error) {
	forward := "/etc/resolv.conf"
	if len(upstreams) > 0 {
		names, err := namesAmong("upstreamNameservers", upstreams)
		if err == nil && len(names) > 0 { // kube-dns takes none here
			err = fmt.Errorf("upstreamNameservers: %q is not an address", names[0])
		}
		if err != nil {
			return "", nil, err
		}
		forward = strings.Join(upstreams, " ")
	}
	var b strings.Builder
	fmt.Fprintf(&b, `.:53 {
    errors
    health {
        lameduck 5s
    }
    ready
    kubernetes %s in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus :9153
    forward . %s {
        max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
`, domain, forward)
	for _, stub := range sortedKeys(stubs) {
		servers := stubs[stub]
		switch {
		case !isDomain(stub):
			return "", nil, fmt.Errorf("stubDomains: %q is not the name of a domain", stub)
		case canonical(stub) == canonical(domain):
			return "", nil, fmt.Errorf("stubDomains: %s is the cluster domain, whose names are the cluster's own", stub)
		}
		names, err := namesAmong("stubDomains: "+stub, servers)
		if err != nil {
			return "", nil, err
		}
		for _, n := range names {
			remarks = append(remarks, fmt.Sprintf("stubDomains: %s: the address of %s is asked of the servers in /etc/resolv.conf: write it instead if they do not know it", stub, n))
		}
		fmt.Fprintf(&b, "\n%s:53 {\n    errors\n    cache 30\n    forward . %s\n}\n", stub, strings.Join(servers, " "))
	}
	return b.String(), remarks, nil
}

// namesAmong checks servers, which for kube-dns are addresses, with or without a port, or names, without one, and gives the names.
func namesAmong(what string, servers []string) (names []string, err error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s: there is no server", what)
	}
	for _, s := range servers {
		_, err := netip.ParseAddr(s)
		_, perr := netip.ParseAddrPort(s)
		switch {
		case err == nil || perr == nil:
		case isDomain(s):
			names = append(names, s)
		default:
			return nil, fmt.Errorf("%s: %q is neither an address nor a name", what, s)
		}
	}
	return names, nil
}

// isDomain says whether a text is a name of letters, digits and hyphens (RFC 1123 2.1), as kube-dns has it, and no address gone wrong. Anything else would be
// more than one word of a Corefile, or another.
func isDomain(s string) bool {
	last := s[strings.LastIndexByte(canonical(s), '.')+1:]
	if strings.Trim(last, "0123456789.") == "" {
		return false
	}
	for label := range strings.SplitSeq(canonical(s), ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.Trim(label, "-") != label {
			return false
		}
	}
	return true
}

func canonical(domain string) string { return strings.TrimSuffix(strings.ToLower(domain), ".") }
