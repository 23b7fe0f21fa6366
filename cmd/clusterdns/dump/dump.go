// Package dump is the subcommand of that name: it writes what a cluster's DNS server knows as manifests that the option manifests reads back.
package dump

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/snapshot"
)

const usage = `Usage: clusterdns dump [flags] > cluster.yaml

Writes Namespaces, Services, EndpointSlices and Pods, reduced to what DNS and explain need, as
manifests that 'kubernetes { manifests cluster.yaml }' and 'clusterdns explain -manifests cluster.yaml' read.

  -anonymize        replace names and addresses, the same by the same, so that it can be handed to others
  -zone ZONE        cluster domain (default cluster.local, or what the Corefile says)

Where the cluster is read; without any, the cluster of the Pod, of $KUBECONFIG or of ~/.kube/config:
` + snapshot.Usage + `  -admin ADDR       what a running server has in memory at this moment: ADDR is that of its directive console,
                    port 8053 unless given

Exit status: 0 done, 1 the cluster could not be read whole, 2 wrong usage
`

// settings are the flags of the subcommand.
type settings struct {
	source      snapshot.Flags
	anonymize   bool
	zone, admin string
}

// Run is the subcommand: args are what stands behind its name. It gives the exit status.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "clusterdns dump: %v\nTry 'clusterdns dump -h'.\n", err)
		return 2
	}
	s.source.Log = snapshot.Remarks(stderr, "dump")
	if err := s.dump(ctx, stdout); err != nil {
		snapshot.Complain(stderr, "dump", err)
		return 1
	}
	return 0
}

func parse(args []string) (*settings, error) {
	s := &settings{}
	fs := flag.NewFlagSet("dump", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.BoolVar(&s.anonymize, "anonymize", false, "")
	fs.StringVar(&s.zone, "zone", "", "")
	fs.StringVar(&s.admin, "admin", "", "")
	s.source.Register(fs)
	err := fs.Parse(args)
	switch {
	case err != nil:
		return nil, err
	case fs.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case s.admin != "" && (s.source.Given() || s.zone != ""):
		return nil, errors.New("-admin: the server knows what it has read: none of -manifests, -kubeconfig, -conf and -zone goes with it")
	case s.admin != "":
		s.admin, err = adminAddress(s.admin)
		return s, err
	}
	return s, s.source.Check()
}

func (s *settings) dump(ctx context.Context, to io.Writer) error {
	if s.admin != "" {
		return fetch(ctx, s.admin, s.anonymize, to)
	}
	snap, err := s.source.Read(ctx, s.zone)
	if err != nil {
		return err
	}
	from := "the default cluster"
	if s.source.Given() {
		from = strings.Join(s.source.Words(), " ")
	}
	out := bufio.NewWriter(to)
	fmt.Fprint(out, header(time.Now(), from, s.anonymize))
	w := &writer{to: out, encode: yaml.Marshal, names: renaming(s.anonymize, snap.Zones())}
	for _, v := range snap.Inventories() {
		if !v.PodsKnown {
			fmt.Fprintln(out, "# Pods are missing: the API server does not let them be listed, or the manifests have none.")
		}
		w.inventory(v)
	}
	return errors.Join(w.err, out.Flush())
}

// header is the comment that a dump begins with. Of an anonymized one it does not name files and contexts, which may be telling.
func header(now time.Time, from string, anonymize bool) string {
	names := "not anonymized: names and addresses are those of the cluster"
	switch {
	case anonymize:
		from, names = "a cluster", "anonymized: names and addresses are made up, but for those that every cluster has"
	case strings.ContainsFunc(from, unicode.IsControl): // such as the end of the comment's line
		from = strconv.Quote(from)
	}
	return fmt.Sprintf("# Written by clusterdns dump on %s from %s.\n# It is %s.\n", now.UTC().Format(time.RFC3339), from, names)
}

// renaming says what becomes of the names of clusters with these zones.
func renaming(anonymize bool, zones []string) renamer {
	if anonymize {
		return newAnonymizer(zones)
	}
	return asIs{}
}
