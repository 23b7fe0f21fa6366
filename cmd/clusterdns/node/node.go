// Package node is what a server on every node needs of the node: the command node-address.
package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
)

const usage = `Makes addresses those of this node, for a server on every node that listens on the same address everywhere.

Usage: clusterdns node-address [FLAGS] ADDRESS…

The addresses are put on the loopback interface, where nothing but this node is reached by them. That they are there already is fine. They
stay when the server ends: what is sent to them then is refused at once, and not lost. It needs Linux and NET_ADMIN in the node's network.

Flags:
  -remove          remove the addresses
`

// Exit codes, as those of the other commands.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// flags are the command line.
type flags struct {
	remove bool
	addrs  []netip.Addr
}

// Run is the command node-address.
func Run(_ context.Context, args []string, stdout, stderr io.Writer) int {
	r, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(stdout, usage)
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "clusterdns: node-address: %v\n", err)
		return exitUsage
	}
	do := add
	if r.remove {
		do = remove
	}
	for _, a := range r.addrs {
		if err := do(a); err != nil {
			_, _ = fmt.Fprintf(stderr, "clusterdns: node-address: %v\n", err)
			return exitError
		}
	}
	return exitOK
}

func parse(args []string) (*flags, error) {
	r := &flags{}
	set := flag.NewFlagSet("clusterdns node-address", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.BoolVar(&r.remove, "remove", false, "")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() == 0 {
		return nil, errors.New("no address; -h says more")
	}
	for _, text := range set.Args() {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("%q is not an address", text)
		}
		if a = a.Unmap(); a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
			return nil, fmt.Errorf("%s can be no node's own address", a)
		}
		r.addrs = append(r.addrs, a)
	}
	return r, nil
}
