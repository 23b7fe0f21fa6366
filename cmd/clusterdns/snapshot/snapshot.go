// Package snapshot opens a cluster, from wherever the flags that subcommands share say, as it is at one moment: to be asked in process and looked
// into.
package snapshot

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
)

// Usage is the help of the flags.
const Usage = `  -manifests PATH   files and folders of Kubernetes YAML or JSON; may be given more than once
  -kubeconfig FILE  the cluster of a kubeconfig; -context NAME for another than its current one
  -conf FILE        what the directive kubernetes of a Corefile reads, and its other directives answer
`

// Flags are the flags that say which cluster.
type Flags struct {
	manifests                 []string
	kubeconfig, context, conf string

	// Log takes remarks on what is read, such as an object of a kind that does not exist; nil for nowhere.
	Log *slog.Logger
}

// Register adds the flags to a set.
func (f *Flags) Register(fs *flag.FlagSet) {
	fs.Func("manifests", "", func(path string) error {
		f.manifests = append(f.manifests, path)
		return nil
	})
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "")
	fs.StringVar(&f.context, "context", "", "")
	fs.StringVar(&f.conf, "conf", "", "")
}

// Given says whether any of the flags was.
func (f *Flags) Given() bool {
	return len(f.manifests) > 0 || f.kubeconfig != "" || f.conf != "" || f.context != ""
}

// Words are the flags as they were given, for a command that sees the same cluster.
func (f *Flags) Words() (out []string) {
	for _, p := range f.manifests {
		out = append(out, "-manifests", p)
	}
	return append(out, pairs("-kubeconfig", f.kubeconfig, "-context", f.context, "-conf", f.conf)...)
}

// Kubectl are the flags of kubectl for the same cluster.
func (f *Flags) Kubectl() []string {
	return pairs("--kubeconfig", f.kubeconfig, "--context", f.context)
}

// pairs are those flags, each before its value, that have one.
func pairs(flagsAndValues ...string) (out []string) {
	for i := 0; i+1 < len(flagsAndValues); i += 2 {
		if flagsAndValues[i+1] != "" {
			out = append(out, flagsAndValues[i:i+2]...)
		}
	}
	return out
}

// Configured says whether there is a configuration, and not only a cluster.
func (f *Flags) Configured() bool { return f.conf != "" }

// Check finds flags that do not go together.
func (f *Flags) Check() error {
	n := 0
	for _, given := range []bool{len(f.manifests) > 0, f.kubeconfig != "", f.conf != ""} {
		if given {
			n++
		}
	}
	if n > 1 {
		return errors.New("only one of -manifests, -kubeconfig and -conf can be given")
	}
	return nil
}

// Snapshot is a cluster as it was when it was opened, and a configuration that answers its names in process.
type Snapshot struct {
	*config.Offline
	inventories []inventory
}

type inventory struct {
	options kubernetes.Options
	*kubernetes.Inventory
}

// Open reads the cluster. zone is its domain, "" for cluster.local; a Corefile says so itself.
func (f *Flags) Open(ctx context.Context, zone string) (*Snapshot, error) {
	s, c, err := f.read(ctx, zone)
	if err != nil {
		return nil, err
	}
	s.Offline, err = config.NewOffline(ctx, c, func(o kubernetes.Options) kubernetes.Source { return s.find(o).Source(o) })
	return s, err
}

// Read is Open for those who only look: nothing can be asked, and nothing need be closed.
func (f *Flags) Read(ctx context.Context, zone string) (*Snapshot, error) {
	s, _, err := f.read(ctx, zone)
	return s, err
}

func (f *Flags) read(ctx context.Context, zone string) (*Snapshot, *config.Config, error) {
	src, err := f.corefile(zone)
	if err != nil {
		return nil, nil, err
	}
	c, err := config.Parse(src, config.DefaultPort)
	if err != nil {
		return nil, nil, err
	}
	s := &Snapshot{}
	for _, b := range c.Blocks {
		for _, u := range b.Uses {
			o, ok := u.Options.(kubernetes.Options)
			if !ok || s.find(o) != nil {
				continue
			}
			v, err := kubernetes.ReadInventory(ctx, o, f.Log)
			if err != nil {
				return nil, nil, err
			}
			if len(f.manifests) > 0 && len(v.Namespaces)+len(v.Services) == 0 { // and not because options hide them
				return nil, nil, fmt.Errorf("-manifests: there is no object of a cluster in %s: neither a Namespace nor a Service", strings.Join(f.manifests, ", "))
			}
			s.inventories = append(s.inventories, inventory{o, v})
		}
	}
	if len(s.inventories) == 0 {
		return nil, nil, fmt.Errorf("%s has no directive kubernetes: there is no cluster to look at", src.Name)
	}
	return s, c, nil
}

func (s *Snapshot) find(o kubernetes.Options) *kubernetes.Inventory {
	for i := range s.inventories {
		if reflect.DeepEqual(s.inventories[i].options, o) {
			return s.inventories[i].Inventory
		}
	}
	return nil
}

// Inspector is what a kubernetes directive with these options was fed from.
func (s *Snapshot) Inspector(o kubernetes.Options) kubernetes.Inspector {
	if v := s.find(o); v != nil {
		return v
	}
	return nil
}

// Inventories are all clusters, in the order of the Corefile.
func (s *Snapshot) Inventories() (out []*kubernetes.Inventory) {
	for i := range s.inventories {
		out = append(out, s.inventories[i].Inventory)
	}
	return out
}

// Handlers are the handlers of a type in the chains of blocks, each once, in their order.
func Handlers[T comparable](blocks []*server.Block) (out []T) {
	for _, b := range blocks {
		for _, st := range b.Chain {
			if h, ok := st.Handler.(T); ok && !slices.Contains(out, h) {
				out = append(out, h)
			}
		}
	}
	return out
}

// Zones are the domains of all clusters, with a dot at the end, without reverse zones.
func (s *Snapshot) Zones() (out []string) {
	for i := range s.inventories {
		for _, z := range s.inventories[i].options.Zones {
			if name := z.String(); !strings.HasSuffix(name, ".arpa.") {
				out = append(out, name)
			}
		}
	}
	return out
}

// corefile is the configuration to answer by: the one that is named, or else the smallest for the cluster.
func (f *Flags) corefile(zone string) (config.Source, error) {
	if f.conf != "" {
		return config.ReadSource(f.conf)
	}
	if zone == "" {
		zone = "cluster.local"
	}
	from, err := f.from()
	if err != nil {
		return config.Source{}, err
	}
	text := fmt.Sprintf(".:53 {\n kubernetes %s in-addr.arpa ip6.arpa {\n  %s\n  fallthrough in-addr.arpa ip6.arpa\n }\n}\n", word(zone), from)
	return config.Source{Name: "the command line", Text: []byte(text)}, nil
}

// from is the line of the directive that says where it reads.
func (f *Flags) from() (string, error) {
	if len(f.manifests) > 0 {
		line := "manifests"
		for _, p := range f.manifests {
			abs, err := filepath.Abs(p)
			if err != nil {
				return "", err
			}
			line += " " + word(abs)
		}
		return line + "\n  pods verified", nil
	}
	file := f.kubeconfig
	if file == "" {
		if os.Getenv("KUBERNETES_SERVICE_HOST") != "" && f.context == "" {
			return "pods insecure", nil // the Pod's own cluster
		}
		var looked []string
		if file, looked = usualKubeconfig(); file == "" {
			return "", fmt.Errorf("there is no kubeconfig (looked for: %s): say where the cluster is with -kubeconfig, -manifests or -conf", strings.Join(looked, ", "))
		}
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	line := "kubeconfig " + word(abs)
	if f.context != "" {
		line += " " + word(f.context)
	}
	return line + "\n  pods insecure", nil
}

// word makes text one word of a Corefile.
func word(text string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, "\n", " ").Replace(text) + `"`
}

// usualKubeconfig is the file that kubectl would take: the first of $KUBECONFIG that exists, or ~/.kube/config, or "" if neither does.
func usualKubeconfig() (found string, looked []string) {
	files := filepath.SplitList(os.Getenv("KUBECONFIG"))
	if home, err := os.UserHomeDir(); err == nil && len(files) == 0 {
		files = []string{filepath.Join(home, ".kube", "config")}
	}
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return file, files
		}
	}
	return "", files
}

// Complain writes an error, a line for each of those that were joined. What an earlier line says already is left out.
func Complain(w io.Writer, command string, err error) {
	said := ""
	for _, e := range config.Errors(err) {
		for line := range strings.SplitSeq(e.Error(), "\n") {
			if !strings.Contains(said, line) {
				fmt.Fprintf(w, "clusterdns %s: %s\n", command, line)
				said += line + "\n"
			}
		}
	}
}
