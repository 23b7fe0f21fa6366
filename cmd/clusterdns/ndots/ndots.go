// Package ndots is the subcommand of that name: it says what search lists cost, for each value of ndots.
package ndots

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	lab "github.com/clusterdns/clusterdns/plugin/console/ndots"
	"github.com/clusterdns/clusterdns/server/wire"
)

const usage = `Usage: clusterdns ndots [flags] NAME...

Looks names up the way resolvers in Pods do, for each value of ndots, and counts what that costs.

  -server ADDR      server to ask, port 53 unless given (default: the first of /etc/resolv.conf)
  -names FILE       names to look up, one a line; - is standard input
  -resolver LIST    glibc, musl, go, separated by commas, or all (default glibc)
  -ndots LIST       values such as 5 or 1-5 (default 1-5)
  -from NAMESPACE   namespace of the Pod that asks (default "default")
  -search LIST      search list, separated by commas (default NAMESPACE.svc.ZONE,svc.ZONE,ZONE)
  -zone ZONE        cluster domain: queries outside it go upstream (default cluster.local)
  -delay DURATION   put this latency before each reply from upstream
  -rounds N         look every name up N times (default 3)
  -o FORMAT         table, json or csv (default table)
  -html FILE        write a page with bars per setting and a waterfall of each lookup as well

Exit status: 0 done, 1 it could not be done or no name was found, 2 wrong usage

Resolvers:
`

// settings are the flags of the subcommand.
type settings struct {
	server, names, from, zone, format, html string
	resolvers                               []lab.Rules
	ndots                                   []int
	search                                  []string
	delay                                   time.Duration
	rounds                                  int
}

// maxRounds keeps a slip of the finger from becoming a load test.
const maxRounds = 10_000

// Run is the subcommand: args are what stands behind its name. It gives the exit status: 0, 1 when it could not be done or no name was found, 2 for wrong usage.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, names, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(stdout)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "clusterdns ndots: %v\nTry 'clusterdns ndots -h'.\n", err)
		return 2
	}
	if err := s.run(ctx, names, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "clusterdns ndots: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string) (*settings, []string, error) {
	s := &settings{}
	fs := flag.NewFlagSet("ndots", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&s.server, "server", "", "")
	fs.StringVar(&s.names, "names", "", "")
	resolvers := fs.String("resolver", lab.Resolvers()[0].Name, "")
	values := fs.String("ndots", "1-5", "")
	fs.StringVar(&s.from, "from", "default", "")
	search := fs.String("search", "", "")
	fs.StringVar(&s.zone, "zone", "cluster.local", "")
	fs.DurationVar(&s.delay, "delay", 0, "")
	fs.IntVar(&s.rounds, "rounds", 3, "")
	fs.StringVar(&s.format, "o", "table", "")
	fs.StringVar(&s.html, "html", "", "")
	if err := fs.Parse(args); err != nil {
		return nil, nil, err
	}
	s.search = []string{s.from + ".svc." + s.zone, "svc." + s.zone, s.zone}
	if *search != "" {
		s.search = strings.Split(*search, ",")
	}
	if err := s.check(*resolvers, *values); err != nil {
		return nil, nil, err
	}
	names, err := s.read(fs.Args())
	if err == nil {
		err = checkNames(names, s.search)
	}
	return s, names, err
}

// checkNames finds names that nobody can be asked for, for which a resolver sends nothing.
func checkNames(names, search []string) error {
	for _, n := range names {
		if _, err := wire.ParseName(n); err != nil {
			return fmt.Errorf("%q cannot be a name: %w", n, err)
		}
	}
	for _, d := range search {
		if _, err := wire.ParseName(d); err != nil {
			return fmt.Errorf("-search: %q cannot be a domain: %w", d, err)
		}
	}
	return nil
}

func printUsage(to io.Writer) {
	fmt.Fprint(to, usage)
	for _, r := range lab.Resolvers() {
		fmt.Fprintf(to, "  %-6s %s\n", r.Name, r.About)
	}
}

// check reads the flags that are lists, and bounds the others.
func (s *settings) check(resolvers, values string) error {
	if resolvers == "all" {
		s.resolvers = lab.Resolvers()
	} else {
		for name := range strings.SplitSeq(resolvers, ",") {
			r, err := lab.ResolverNamed(name)
			if err != nil {
				return fmt.Errorf("-resolver: %w", err)
			}
			s.resolvers = append(s.resolvers, r)
		}
	}
	var err error
	if s.ndots, err = ndotsList(values); err != nil {
		return fmt.Errorf("-ndots: %w", err)
	}
	switch {
	case s.rounds < 1 || s.rounds > maxRounds:
		return fmt.Errorf("-rounds: %d is not within 1 and %d", s.rounds, maxRounds)
	case s.delay < 0 || s.delay > time.Minute:
		return fmt.Errorf("-delay: %s is not within 0 and 1m", s.delay)
	case s.format != "table" && s.format != "json" && s.format != "csv":
		return fmt.Errorf("-o: unknown format %q; known are table, json, csv", s.format)
	}
	return nil
}

// ndotsList reads numbers and ranges of 0 to 15, the bounds of resolv.conf(5).
func ndotsList(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || a < 0 || b > 15 || a > b {
			return nil, fmt.Errorf("%q is not a number or range within 0 and 15", part)
		}
		for n := a; n <= b; n++ {
			out = append(out, n)
		}
	}
	return out, nil
}

// read gives the names from the arguments and the file.
func (s *settings) read(args []string) ([]string, error) {
	names := args
	if s.names != "" {
		f := os.Stdin
		if s.names != "-" {
			var err error
			if f, err = os.Open(s.names); err != nil {
				return nil, err
			}
			defer f.Close()
		}
		sc := bufio.NewScanner(f)
		for sc.Scan() {
			if line, _, _ := strings.Cut(sc.Text(), "#"); strings.TrimSpace(line) != "" {
				names = append(names, strings.Fields(line)[0])
			}
		}
		if err := sc.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.names, err)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("no name to look up: name some, or a file of them with -names")
	}
	return names, nil
}

// defaultServer is the first nameserver of resolv.conf.
func defaultServer(file string) (string, error) {
	c, err := dns.ClientConfigFromFile(file)
	if err != nil || len(c.Servers) == 0 {
		return "", err
	}
	return net.JoinHostPort(c.Servers[0], c.Port), nil
}

// address completes the server with a port.
func (s *settings) address() (string, error) {
	if s.server == "" {
		a, err := defaultServer("/etc/resolv.conf")
		if err != nil || a == "" {
			return "", errors.New("no nameserver in /etc/resolv.conf: say which with -server")
		}
		return a, nil
	}
	if _, _, err := net.SplitHostPort(s.server); err == nil {
		return s.server, nil
	}
	return net.JoinHostPort(strings.Trim(s.server, "[]"), "53"), nil
}

func (s *settings) run(ctx context.Context, names []string, stdout, stderr io.Writer) error {
	server, err := s.address()
	if err != nil {
		return err
	}
	x := lab.Experiment{
		Server: server, Resolvers: s.resolvers, NDots: s.ndots, Names: names, Search: s.search, Zones: []string{s.zone},
		Delay: s.delay, Rounds: s.rounds,
	}
	p := progress{to: stderr, total: x.Lookups(), on: isTerminal(stderr)}
	x.Step = p.step
	report, err := x.Run(ctx)
	p.end()
	if err != nil {
		return err
	}
	if err := s.write(report, stdout); err != nil {
		return err
	}
	if why := report.NothingFound(); why != "" {
		return errors.New(why)
	}
	return nil
}

func (s *settings) write(r *lab.Report, stdout io.Writer) error {
	if s.html != "" {
		f, err := os.Create(s.html)
		if err != nil {
			return err
		}
		if err := errors.Join(r.HTML(f), f.Close()); err != nil {
			return err
		}
	}
	switch s.format {
	case "json":
		return r.JSON(stdout)
	case "csv":
		return r.CSV(stdout)
	}
	return r.Text(stdout)
}

// progress shows on a terminal how far the run is.
type progress struct {
	to    io.Writer
	total int
	done  int
	on    bool
	shown time.Time
}

// progressStep is how often the line changes: faster is not readable.
const progressStep = 100 * time.Millisecond

func (p *progress) step(resolver string, ndots int) {
	p.done++
	if p.on && time.Since(p.shown) > progressStep {
		p.shown = time.Now()
		fmt.Fprintf(p.to, "\r\x1b[K%s, ndots:%d: %d of %d lookups", resolver, ndots, p.done, p.total)
	}
}

func (p *progress) end() {
	if p.on {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// isTerminal says whether what is written is seen at once by a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
