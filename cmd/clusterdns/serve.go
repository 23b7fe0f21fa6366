package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/dump"
	"github.com/clusterdns/clusterdns/cmd/clusterdns/explain"
	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/kubernetes"
)

// flags are the command line of the server: CoreDNS's.
type flags struct {
	conf    string
	port    string
	pidfile string
	plugins bool
	quiet   bool
	share   bool
	version bool
}

// defaultCorefile is the file that is read when -conf is absent.
const defaultCorefile = "Corefile"

func parseFlags(env environment, args []string) (*flags, error) {
	f := &flags{port: config.DefaultPort}
	set := flag.NewFlagSet("clusterdns", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.conf, "conf", "", "")
	set.StringVar(&f.port, "dns.port", f.port, "")
	set.StringVar(&f.port, "p", f.port, "")
	set.StringVar(&f.pidfile, "pidfile", "", "")
	set.BoolVar(&f.plugins, "plugins", false, "")
	set.BoolVar(&f.quiet, "quiet", false, "")
	set.BoolVar(&f.share, "takeover", false, "")
	set.BoolVar(&f.version, "version", false, "")
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(env.stdout)
		return nil, err
	case err != nil:
		return nil, err
	case set.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q: a Corefile is named with -conf FILE", set.Arg(0))
	}
	return f, checkPort(f.port)
}

// checkPort judges the flag -dns.port.
func checkPort(port string) error {
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("-dns.port %s is not a port", port)
	}
	return nil
}

// usage is the help text. It fits a screen.
func usage(w io.Writer) {
	say(w, `clusterdns answers DNS for a Kubernetes cluster, from a Corefile.

Usage: clusterdns [FLAGS]            serve
       clusterdns COMMAND [FLAGS]    do something else; COMMAND -h says more

Flags:
  -conf FILE       the Corefile; "-" reads standard input (default ./Corefile)
  -dns.port PORT   port of server blocks that name none (default 53); 0 for any free one; -p PORT is the same
  -pidfile FILE    write the process id to FILE
  -plugins         list the directives, in the order in which a query meets them
  -quiet           do not say at start what is served
  -takeover        start beside a server that has the same addresses, and take over from it when it ends (Linux)
  -version         say which version this is

Commands:
`)
	for _, c := range commands() {
		say(w, "  %-16s %s\n", c.name, c.help)
	}
	say(w, `
Signals: TERM and INT stop it once all is answered, a second one at once; USR1 reads the Corefile again.
`)
}

// serve is the server's life.
func serve(env environment, args []string) int {
	f, err := parseFlags(env, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		say(env.stderr, "clusterdns: %v; -h lists what there is\n", err)
		return exitUsage
	case f.version:
		say(env.stdout, "%s", versionText())
		return exitOK
	case f.plugins:
		for _, d := range config.Directives() {
			say(env.stdout, "%s\n", d.Name)
		}
		return exitOK
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(reloadSignals(), os.Interrupt, syscall.SIGTERM)...)
	signal.Ignore(syscall.SIGHUP) // it comes when a terminal closes, whatever the user meant
	defer signal.Stop(signals)
	return live(env, f, signals)
}

// live starts the server, follows signals, and stops it.
func live(env environment, f *flags, signals <-chan os.Signal) int {
	limit := limitOwnMemory()
	shared := config.NewShared(env.stdout, build())
	shared.Explain, shared.Dump = explain.Served, dump.Served
	if f.share {
		shared.TakeOver()
	}
	kubernetes.LogClient(shared.Logger("kubernetes"))
	kubernetes.RegisterClientMetrics(shared.Registry())
	instance := config.NewInstance(shared, f.port)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan error, 1)
	go func() {
		src, err := loadCorefile(env, f.conf)
		if err == nil {
			err = instance.Start(ctx, src)
		}
		started <- err
	}()
	switch err := await(started, signals, cancel); {
	case errors.Is(err, errBusy):
		return exitOK
	case errors.Is(err, errInterrupted):
		_ = stop(instance, signals)
		return exitOK
	case err != nil:
		code := fail(env, err)
		_ = stop(instance, signals)
		return code
	}
	shared.Logger("runtime").Debug(fmt.Sprintf("%s; threads that run Go: %d", limit, runtime.GOMAXPROCS(0)))
	if err := writePID(f.pidfile); err != nil {
		code := fail(env, err)
		_ = stop(instance, signals)
		return code
	}
	if !f.quiet {
		say(env.stdout, "%s", instance.Banner()+versionText())
	}
	go func() { _ = instance.Run(ctx) }()
	for s := range signals {
		if isReload(s) {
			go func() { _ = instance.Reload(ctx) }() // it has been logged
			continue
		}
		break
	}
	cancel()
	code := end(env, instance, signals)
	if f.pidfile != "" {
		_ = os.Remove(f.pidfile) // a stale one does less harm than a failure at the very end
	}
	return code
}

// abandoned is how long a start that was interrupted is waited for. Reading a Corefile cannot be interrupted: one that is large, full of regular
// expressions, or a pipe into which nobody writes takes its time. Nothing is served by then, so there is nothing to bring to an end.
const abandoned = time.Second

// Why a server does not serve although nothing is wrong.
var (
	errInterrupted = errors.New("interrupted")
	errBusy        = errors.New("interrupted, and still busy with the start")
)

// await waits until the server serves, or gives why it does not.
func await(started <-chan error, signals <-chan os.Signal, cancel func()) error {
	var late <-chan time.Time
	for {
		select {
		case err := <-started:
			if late != nil {
				return errInterrupted
			}
			return err
		case <-late:
			return errBusy
		case s := <-signals:
			switch {
			case isReload(s): // it is reading the Corefile at this moment
			case late != nil:
				return errBusy
			default:
				late = time.After(abandoned)
				cancel()
			}
		}
	}
}

// stop stops the server; a signal to end that comes meanwhile cuts it short.
func stop(instance *config.Instance, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for {
			select {
			case s := <-signals:
				if !isReload(s) {
					cancel()
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return instance.Stop(ctx)
}

// end stops the server and says if queries were left.
func end(env environment, instance *config.Instance, signals <-chan os.Signal) int {
	err := stop(instance, signals)
	switch {
	case errors.Is(err, context.Canceled):
		return fail(env, errors.New("a second signal ended it before all queries were answered"))
	case err != nil:
		return fail(env, fmt.Errorf("not all queries could be answered before the end: %w", err))
	}
	return exitOK
}

// loadCorefile reads the Corefile that the command line asks for.
func loadCorefile(env environment, conf string) (config.Source, error) {
	switch conf {
	case "stdin", "-":
		text, err := io.ReadAll(env.stdin)
		if err != nil {
			return config.Source{}, fmt.Errorf("cannot read the Corefile from standard input: %w", err)
		}
		return config.Source{Name: "stdin", Text: text}, nil
	case "":
		src, err := config.ReadSource(defaultCorefile)
		if errors.Is(err, fs.ErrNotExist) {
			return src, fmt.Errorf("there is no file ./%s; say where the Corefile is with -conf FILE", defaultCorefile)
		}
		return src, err
	}
	return config.ReadSource(conf)
}

// fail says what is wrong, one line an error.
func fail(env environment, err error) int {
	for _, e := range config.Errors(err) {
		say(env.stderr, "%s\n", "clusterdns: "+strings.TrimSpace(e.Error()))
	}
	return exitError
}

func writePID(path string) error {
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil { //nolint:gosec // others are meant to read it
		return fmt.Errorf("cannot write the process id: %w", err)
	}
	return nil
}
