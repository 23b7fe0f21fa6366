package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/plugin/admin"
	"github.com/clusterdns/clusterdns/plugin/ready"
)

const readyUsage = `Asks a running server whether it is ready, and prints what it says. It is for probes that run a program, where one over HTTP could
reach another server: see docs/nodelocal.md.

Usage: clusterdns ready [FLAGS] [ADDRESS]

ADDRESS is that of the ready directive: host:port, or unix:PATH (default ` + ready.DefaultAddress + ` on this host).

Flags:
  -timeout DURATION  how long to wait for the answer (default 1s)

Exit codes: 0 ready, 1 not ready or no answer, 2 wrong arguments.
`

// maxReadyText is far over what a server that is not ready waits for.
const maxReadyText = 4 << 10

// askReady is the command ready.
func askReady(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	set := flag.NewFlagSet("clusterdns ready", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	timeout := set.Duration("timeout", time.Second, "")
	err := set.Parse(args)
	addr := ready.DefaultAddress
	switch {
	case errors.Is(err, flag.ErrHelp):
		say(stdout, "%s", readyUsage)
		return exitOK
	case err == nil && set.NArg() > 1:
		err = fmt.Errorf("unexpected argument %q", set.Arg(1))
	case err == nil && set.NArg() == 1:
		addr = set.Arg(0)
	}
	if err != nil {
		say(stderr, "clusterdns: ready: %v; -h says more\n", err)
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	ok, text, err := isReady(ctx, addr)
	switch {
	case err != nil:
		say(stderr, "clusterdns: ready: %v\n", err)
		return exitError
	case !ok:
		say(stdout, "not ready: %s\n", text)
		return exitError
	}
	say(stdout, "%s\n", text)
	return exitOK
}

// isReady asks the ready directive at an address.
func isReady(ctx context.Context, addr string) (ok bool, text string, err error) {
	transport := &http.Transport{Proxy: nil} // never through a proxy that the environment names
	defer transport.CloseIdleConnections()
	host := admin.Reachable(addr)
	if path, unix := admin.UnixPath(addr); unix {
		host = "localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+ready.Path, nil)
	if err != nil {
		return false, "", err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return false, "", fmt.Errorf("no answer at %s: %w", addr, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReadyText))
	return resp.StatusCode == http.StatusOK, strings.TrimSpace(string(b)), err
}
