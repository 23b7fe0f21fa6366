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

	"github.com/clusterdns/clusterdns/cmd/clusterdns/snapshot"
)

const usage = `Usage: clusterdns dump [flags] > cluster.yaml

Writes Namespaces, Services, EndpointSlices and Pods, reduced to what DNS and explain need, as
manifests that 'kubernetes { manifests cluster.yaml }' and 'clusterdns explain -manifests cluster.yaml' read.

  -anonymize        replace names and addresses, the same by the same, so that it can be handed to others
  -zone ZONE        cluster domain (default cluster.local, or what the Corefile says)

Where the cluster is read; without any, the cluster of the Pod, of $KUBECONFIG or of ~/.kube/config:
` + snapshot.Usage + `
Exit status: 0 done, 1 the cluster could not be read, 2 wrong usage
`

// Run is the subcommand: args are what stands behind its name. It gives the exit status.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var source snapshot.Flags
	fs := flag.NewFlagSet("dump", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	anonymize := fs.Bool("anonymize", false, "")
	zone := fs.String("zone", "", "")
	source.Register(fs)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case err == nil:
		err = source.Check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "clusterdns dump: %v\nTry 'clusterdns dump -h'.\n", err)
		return 2
	}
	snap, err := source.Read(ctx, *zone)
	if err == nil {
		err = write(stdout, header(time.Now(), &source, *anonymize), snap, *anonymize)
	}
	if err != nil {
		snapshot.Complain(stderr, "dump", err)
		return 1
	}
	return 0
}

// header is the comment that a dump begins with. Of an anonymized one it does not name files and contexts, which may be telling.
func header(now time.Time, source *snapshot.Flags, anonymize bool) string {
	from, names := "the default cluster", "not anonymized: names and addresses are those of the cluster"
	if anonymize {
		from, names = "a cluster", "anonymized: names and addresses are made up, but for those that every cluster has"
	} else if source.Given() {
		from = strings.Join(source.Words(), " ")
		if strings.ContainsFunc(from, unicode.IsControl) { // such as the end of the comment's line
			from = strconv.Quote(from)
		}
	}
	return fmt.Sprintf("# Written by clusterdns dump on %s from %s.\n# It is %s.\n", now.UTC().Format(time.RFC3339), from, names)
}

func write(to io.Writer, header string, snap *snapshot.Snapshot, anonymize bool) error {
	w := bufio.NewWriter(to)
	fmt.Fprint(w, header)
	var names renamer = asIs{}
	if anonymize {
		names = newAnonymizer(snap.Zones())
	}
	for _, v := range snap.Inventories() {
		if !v.PodsKnown {
			fmt.Fprintln(w, "# The API server does not let Pods be listed: they are missing here.")
		}
		if err := writeInventory(w, v, names); err != nil {
			return err
		}
	}
	return w.Flush()
}
