package cache

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
)

// Options are what a cache directive says. They are equal in the sense of reflect.DeepEqual when two directives mean the same.
type Options struct {
	Zones    []string // presentation form, lower case, fully qualified
	Success  Bounds
	Denial   Bounds
	Prefetch Prefetch
	Stale    Stale
	ServFail time.Duration // how long a failure is remembered; 0 for not at all
	// NoSuccess and NoDenial are the zones whose answers of that kind are not stored.
	NoSuccess []string
	NoDenial  []string
	KeepTTL   bool // replies show the TTL that the entry was stored with
}

// Bounds are those of one kind of answer.
type Bounds struct {
	Capacity int           // entries
	TTL      time.Duration // the longest that an answer is kept
	MinTTL   time.Duration // the shortest
}

// String is the arguments of success and denial.
func (b Bounds) String() string {
	return fmt.Sprintf("%d %d %d", b.Capacity, int(b.TTL.Seconds()), int(b.MinTTL.Seconds()))
}

// Prefetch says when a popular answer is asked for again before it expires.
type Prefetch struct {
	Amount  int           // hits that make it popular; 0 for no prefetching
	Gap     time.Duration // a longer time without a hit makes it unpopular
	Percent int           // of its TTL that is left when it is asked for again
}

// String is the arguments of the option, or "off".
func (p Prefetch) String() string {
	if p.Amount == 0 {
		return "off"
	}
	return fmt.Sprintf("%d %s %d%%", p.Amount, p.Gap, p.Percent)
}

// Stale says whether and how expired answers are used (RFC 8767).
type Stale struct {
	UpTo           time.Duration // how long after their expiry; 0 for not at all
	Verify         bool          // ask first, and use the expired answer only if that fails
	Timeout        time.Duration // how long Verify waits; 0 for as long as the client does
	TTL            time.Duration // what replies from expired answers show
	Recheck        time.Duration // the pause after a failed attempt to ask again
	PreferPositive bool          // an expired answer with data is better than a fresh denial
}

// The defaults and limits are CoreDNS's where a comment gives no other reason.
const (
	defaultCapacity = 9984
	minCapacity     = 1024 // smaller ones are raised to it, as they always were: shards of a few entries would evict at random
	// maxCapacity keeps a slip of the pen from taking all memory: ten million entries are some 4 GB.
	maxCapacity      = 10_000_000
	defaultTTL       = 3600 * time.Second
	defaultDenialTTL = 1800 * time.Second
	defaultMinTTL    = 5 * time.Second
	// maxTTL is the longest TTL that DNS knows, 2^31-1 seconds (RFC 2181 8).
	maxTTL          = 1<<31 - 1
	defaultServFail = 5 * time.Second
	maxServFail     = 5 * time.Minute // RFC 9520 3.2 allows no more
	defaultStale    = time.Hour
	maxRecheck      = 5 * time.Minute
	defaultGap      = time.Minute
	defaultPercent  = 10
	minPercent      = 10
	maxPercent      = 90
	// forever bounds durations that have no limit of their own.
	forever = 100 * 365 * 24 * time.Hour
)

func defaults() Options {
	return Options{
		Success:  Bounds{defaultCapacity, defaultTTL, defaultMinTTL},
		Denial:   Bounds{defaultCapacity, defaultDenialTTL, defaultMinTTL},
		Prefetch: Prefetch{Gap: defaultGap, Percent: defaultPercent},
		ServFail: defaultServFail,
	}
}

// Table is the table of options of the cache directive.
func Table() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "success", Usage: "CAPACITY [TTL] [MINTTL]", Min: 1, Max: 3,
			Help: "entries with data that are kept, and the bounds of their TTL in seconds",
			Set:  func(o *Options, l *directive.Line) error { return o.Success.set(l) }},
		{Name: "denial", Usage: "CAPACITY [TTL] [MINTTL]", Min: 1, Max: 3,
			Help: "entries that say there is no data, and the bounds of their TTL in seconds",
			Set:  func(o *Options, l *directive.Line) error { return o.Denial.set(l) }},
		{Name: "prefetch", Usage: "AMOUNT [DURATION [PERCENT%]]", Min: 1, Max: 3,
			Help: "ask again for what is popular before it expires", Set: setPrefetch},
		{Name: "serve_stale", Usage: "[DURATION [immediate|verify …]]", Max: 5,
			Help: "answer with expired data while there is no newer", Set: setStale},
		{Name: "serve_stale_policy", Usage: "prefer_positive", Min: 1, Max: 1,
			Help: "which of an expired answer and a newer denial is served", Set: setPolicy},
		{Name: "servfail", Usage: "DURATION", Min: 1, Max: 1,
			Help: "how long a failure is remembered", Set: setServFail},
		{Name: "disable", Usage: "success|denial [ZONES…]", Min: 1, Max: directive.Many, Repeat: true,
			Help: "zones whose answers of one kind are not kept", Set: setDisable},
		{Name: "keepttl", Help: "replies show the whole TTL, not what is left of it",
			Set: func(o *Options, _ *directive.Line) error { o.KeepTTL = true; return nil }},
	}
}

// Parse reads "cache [TTL] [ZONES…] { … }".
func Parse(in *directive.Input) (Options, error) {
	o := defaults()
	args := in.Args
	if len(args) > 0 {
		switch _, err := strconv.Atoi(args[0].Text); {
		case err == nil:
			n, err := args[0].Int(1, maxTTL)
			if err != nil {
				return o, args[0].Errorf("cache: TTL: %w", cause(err))
			}
			o.Success.TTL, o.Denial.TTL = seconds(n), seconds(n)
			args = args[1:]
		case looksLikeDuration(args[0].Text):
			warn(in, args[0], "cache: %q is taken as a zone; a TTL is a bare number of seconds", args[0].Text)
		}
	}
	zones, err := in.ZonesOf(args)
	if err != nil {
		return o, err
	}
	o.Zones = zones
	if err := directive.ParseOptions(in, &o, Table()); err != nil {
		return o, err
	}
	if o.Stale.PreferPositive && o.Stale.UpTo == 0 {
		return o, in.Name.Errorf("cache: serve_stale_policy needs serve_stale with a DURATION above 0")
	}
	return o, nil
}

func warn(in *directive.Input, at directive.Arg, format string, args ...any) {
	if in.Warn != nil {
		in.Warn(at, format, args...)
	}
}

func looksLikeDuration(s string) bool {
	_, err := time.ParseDuration(s)
	return err == nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// cause is an error without its place, for one that says the place itself.
func cause(err error) error {
	var placed *directive.Error
	if errors.As(err, &placed) {
		return placed.Err
	}
	return err
}

// set reads CAPACITY [TTL] [MINTTL].
func (b *Bounds) set(l *directive.Line) error {
	n, err := l.Args[0].Int(0, maxCapacity)
	if err != nil {
		return err
	}
	b.Capacity = max(n, minCapacity)
	if len(l.Args) > 1 {
		if n, err = l.Args[1].Int(1, maxTTL); err != nil {
			return err
		}
		b.TTL = seconds(n)
	}
	if len(l.Args) > 2 {
		if n, err = l.Args[2].Int(0, maxTTL); err != nil {
			return err
		}
		b.MinTTL = seconds(n)
	}
	return nil
}

func setPrefetch(o *Options, l *directive.Line) (err error) {
	p := &o.Prefetch
	if p.Amount, err = l.Args[0].Int(0, maxTTL); err != nil {
		return err
	}
	if len(l.Args) > 1 {
		if p.Gap, err = l.Args[1].Duration(0, forever, 0); err != nil {
			return err
		}
	}
	if len(l.Args) > 2 {
		a := l.Args[2]
		text, ok := strings.CutSuffix(a.Text, "%")
		if !ok {
			return a.Errorf("%q does not end with a percent sign", a.Text)
		}
		a.Text = text
		p.Percent, err = a.Int(minPercent, maxPercent)
	}
	return err
}

// setStale reads the two forms, which differ in what follows the mode:
// [DURATION [immediate [RESPONSE_TTL [FAILURE_RECHECK]]]] and [DURATION [verify [TIMEOUT [RESPONSE_TTL [FAILURE_RECHECK]]]]].
func setStale(o *Options, l *directive.Line) error {
	s := &o.Stale
	s.UpTo = defaultStale
	var to []durationOf
	if len(l.Args) > 1 {
		switch strings.ToLower(l.Args[1].Text) {
		case "immediate":
		case "verify":
			s.Verify = true
			to = append(to, durationOf{&s.Timeout, forever})
		default:
			return l.Args[1].Errorf("%q is not a refresh mode; known are immediate, verify", l.Args[1].Text)
		}
	}
	to = append(to, durationOf{&s.TTL, seconds(maxTTL)}, durationOf{&s.Recheck, maxRecheck})
	for i, a := range l.Args {
		switch {
		case i == 1:
			continue
		case i == 0:
			if err := (durationOf{&s.UpTo, forever}).set(a); err != nil {
				return err
			}
		case i-2 == len(to):
			return a.Errorf("takes no argument %q behind FAILURE_RECHECK", a.Text)
		default:
			if err := to[i-2].set(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// durationOf is a duration to be read, and its limit.
type durationOf struct {
	to  *time.Duration
	max time.Duration
}

func (d durationOf) set(a directive.Arg) (err error) {
	*d.to, err = a.Duration(0, d.max, zeroOnly(a))
	return err
}

// zeroOnly lets a bare 0 be a duration, as time.ParseDuration does, and no other bare number.
func zeroOnly(a directive.Arg) time.Duration {
	if a.Text == "0" {
		return time.Second
	}
	return 0
}

func setPolicy(o *Options, l *directive.Line) error {
	if !strings.EqualFold(l.Args[0].Text, "prefer_positive") {
		return l.Args[0].Errorf("%q is not a policy; known is prefer_positive", l.Args[0].Text)
	}
	o.Stale.PreferPositive = true
	return nil
}

func setServFail(o *Options, l *directive.Line) (err error) {
	return durationOf{&o.ServFail, maxServFail}.set(l.Args[0])
}

func setDisable(o *Options, l *directive.Line) error {
	to := &o.NoSuccess
	switch l.Args[0].Text {
	case "success":
	case "denial":
		to = &o.NoDenial
	default:
		return l.Args[0].Errorf("%q is not a kind of answer; known are success, denial", l.Args[0].Text)
	}
	if len(l.Args) == 1 {
		*to = append(*to, ".")
		return nil
	}
	for _, a := range l.Args[1:] {
		zones, _, err := directive.SplitZone(a.Text)
		if err != nil {
			return a.Errorf("%w", err)
		}
		*to = append(*to, zones...)
	}
	return nil
}
