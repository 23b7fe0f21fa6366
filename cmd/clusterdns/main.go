// Command clusterdns is a DNS server for Kubernetes clusters. It takes CoreDNS's command line and Corefile.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/dump"
	"github.com/clusterdns/clusterdns/cmd/clusterdns/explain"
	"github.com/clusterdns/clusterdns/cmd/clusterdns/ndots"
	"github.com/clusterdns/clusterdns/cmd/clusterdns/node"
	"github.com/clusterdns/clusterdns/config/directive"
)

// The exit codes.
const (
	exitOK    = 0
	exitError = 1 // it could not do what it was asked to
	exitUsage = 2 // what it was asked to makes no sense; with check -strict also that there are warnings
)

// environment is what a command has of the world.
type environment struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

// command is a subcommand: what it does, in a line, and the function that does it with the arguments behind its name.
type command struct {
	name string
	help string
	run  func(env environment, args []string) (exit int)
}

// commands are the subcommands. Without one, the server runs.
func commands() []command {
	return []command{
		{"check", "reads a Corefile and says what is wrong with it", check},
		{"migrate", "makes a Corefile of the ConfigMap of kube-dns", migrate},
		{"explain", "says what a name resolves to and whether connecting will work", interruptible(explain.Run)},
		{"dump", "writes a cluster as manifests, on demand without its names and addresses", interruptible(dump.Run)},
		{"ready", "asks the server whether it is ready, for probes that run it", interruptible(askReady)},
		{"node-address", "makes addresses those of this node, for a server on every node", interruptible(node.Run)},
		{"ndots", "measures what search lists cost, for each value of ndots", interruptible(ndots.Run)},
	}
}

// interruptible makes a command of a function that ends with its context: by the signal of Ctrl-C.
func interruptible(f func(ctx context.Context, args []string, stdout, stderr io.Writer) int) func(environment, []string) int {
	return func(env environment, args []string) int {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		return f(ctx, args, env.stdout, env.stderr)
	}
}

func main() {
	os.Exit(run(environment{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:]))
}

func run(env environment, args []string) int {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return serve(env, args)
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(env, args[1:])
		}
	}
	if args[0] != "help" {
		say(env.stderr, "clusterdns: %s -h lists what there is\n", unknownCommand(args[0]))
		return exitUsage
	}
	if len(args) == 2 {
		return run(env, []string{args[1], "-h"})
	}
	usage(env.stdout)
	return exitOK
}

// unknownCommand says what may have been meant by a word that is no command.
func unknownCommand(word string) string {
	var known []string
	for _, c := range commands() {
		known = append(known, c.name)
	}
	near := directive.Nearest(word, known)
	switch {
	case slices.Contains([]string{"serve", "server", "run", "start"}, word):
		return fmt.Sprintf("there is no command %q: without a command it serves;", word)
	case word == "version":
		return fmt.Sprintf("there is no command %q; did you mean -version?", word)
	case near != "":
		return fmt.Sprintf("there is no command %q; did you mean %q?", word, near)
	}
	return fmt.Sprintf("unexpected argument %q: a Corefile is named with -conf FILE;", word)
}

// say writes to a terminal or a file of output; if that is gone there is nobody to tell.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
