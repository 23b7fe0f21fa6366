package log

import (
	"strings"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
)

// Class is a set of kinds of replies.
type Class uint8

// The classes, and all of them.
const (
	Success Class = 1 << iota // an answer, or a referral to other name servers
	Denial                    // NXDOMAIN and NODATA
	Failure                   // every other rcode, and no reply at all
	All     = Success | Denial | Failure
)

// String is the words of the class option.
func (c Class) String() string {
	if c == All {
		return "all"
	}
	var words []string
	for i, word := range []string{"success", "denial", "error"} {
		if c&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// The formats that have a name.
const (
	Common   = `{remote}:{port} - {>id} "{type} {class} {name} {proto} {size} {>do} {>bufsize}" {rcode} {>rflags} {rsize} {duration}`
	Combined = `{remote}:{port} - {>id} "{type} {class} {name} {proto} {size} {>do} {>bufsize}" {rcode} {>rflags} {rsize} {duration} {>opcode}`
	// withReason is what the failures option puts behind whatever format there is.
	withReason = ` {plugin} "{reason}"`
)

const (
	// maxSample is one line in so many at the least; over it nobody would see one.
	maxSample = 1_000_000
	// maxSlow is over the time that any query may wait.
	maxSlow = time.Minute
)

// Options are what one occurrence of the directive says.
type Options struct {
	Zones   zones.Set // names to log, with those below; never empty
	Format  string    // with {common} and {combined} written out; "" for JSON
	Classes Class
	JSON    bool
	Labels  []string      // labels of metadata for JSON
	Sample  int           // one in so many lines is written; 0 and 1 for all. Failures are always written.
	Slow    time.Duration // what takes as long is logged whatever its class; 0 for nothing
	reason  bool
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{
			Name: "class", Usage: "CLASSES...", Min: 1, Max: directive.Many, Repeat: true,
			Help: "log only replies of these classes: success, denial, error, all",
			Set:  setClass,
		}, {
			Name: "json", Usage: "[LABELS...]", Max: directive.Many,
			Help: "write JSON, with these labels of metadata",
			Set: func(o *Options, l *directive.Line) error {
				o.JSON, o.Labels = true, nil
				for _, a := range l.Args {
					if !strings.Contains(a.Text, "/") {
						return a.Errorf("%q is no label of metadata; they look like kubernetes/client-namespace", a.Text)
					}
					o.Labels = append(o.Labels, strings.TrimPrefix(a.Text, "/"))
				}
				return nil
			},
		}, {
			Name: "sample", Usage: "N", Min: 1, Max: 1,
			Help: "write one in N lines; failures are always written",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.Sample, err = l.Args[0].Int(1, maxSample)
				return err
			},
		}, {
			Name: "slow", Usage: "DURATION", Min: 1, Max: 1,
			Help: "log what takes this long whatever its class",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.Slow, err = l.Args[0].Duration(time.Nanosecond, maxSlow, 0)
				return err
			},
		}, {
			Name: "failures",
			Help: "log only failures, each with the directive that failed and the reason",
			Set: func(o *Options, _ *directive.Line) error {
				o.Classes |= Failure
				o.reason = true
				return nil
			},
		},
	}
}

func setClass(o *Options, l *directive.Line) error {
	for _, a := range l.Args {
		switch a.Text {
		case "success":
			o.Classes |= Success
		case "denial":
			o.Classes |= Denial
		case "error":
			o.Classes |= Failure
		case "all":
			o.Classes |= All
		default:
			return a.Errorf("unknown class %q; known are success, denial, error, all", a.Text)
		}
	}
	return nil
}

// Parse reads one occurrence of the directive. It may occur more than once in a server block.
func Parse(in *directive.Input) (Options, error) {
	o := Options{Format: Common, Zones: zones.New([]string{"."})}
	names := in.Args
	if n := len(names); n > 0 && strings.Contains(names[n-1].Text, "{") {
		o.Format = expand(names[n-1].Text)
		for _, w := range unknown(o.Format) {
			warn(in, names[n-1], w)
		}
		names = names[:n-1]
	}
	for _, n := range names {
		if n.Text == "stdout" && in.Warn != nil {
			in.Warn(n, "log: stdout is read as a name to log; leave it out, all lines go there")
		}
	}
	if len(names) > 0 {
		var err error
		if o.Zones, err = zones.Parse(in, names); err != nil {
			return Options{}, err
		}
	}
	if err := directive.ParseOptions(in, &o, Rows()); err != nil {
		return Options{}, err
	}
	o.settle()
	return o, nil
}

// settle makes what options say together what New reads.
func (o *Options) settle() {
	if o.Classes == 0 {
		o.Classes = All
	}
	switch {
	case o.JSON:
		o.Format = ""
	case o.reason:
		o.Format += withReason
	}
	o.reason = false // said by Format and JSON, so that equal options are equal
}

// expand writes the named formats out.
func expand(format string) string {
	return strings.NewReplacer("{common}", Common, "{combined}", Combined).Replace(format)
}

func warn(in *directive.Input, at directive.Arg, placeholder string) {
	if in.Warn != nil {
		in.Warn(at, "%s: %s is no placeholder and stays as it is", in.Name.Text, placeholder)
	}
}
