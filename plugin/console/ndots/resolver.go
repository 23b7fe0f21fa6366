package ndots

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Outcome is what a resolver makes of the answers for one candidate name.
type Outcome string

// The outcomes. A candidate with addresses of either family is Found.
const (
	Found    Outcome = "found"
	NXDomain Outcome = "nxdomain"
	NoData   Outcome = "nodata"
	Failed   Outcome = "failed"  // SERVFAIL or another error
	Lame     Outcome = "lame"    // NODATA of a server that seems to know nothing: neither AA nor RA, nor additional records
	Silent   Outcome = "timeout" // no reply in time
)

// Rules are how a resolver of a C library or language searches (resolv.conf(5) leaves much open).
type Rules struct {
	Name string
	// SearchAfter says whether a name with enough dots that does not exist as it is, is looked for in the search list as well.
	SearchAfter bool
	// SearchesRoot says whether the root among the search domains, which Kubernetes allows in dnsConfig, is the name as it is, tried in its place and not
	// once more later. Otherwise it is passed over.
	SearchesRoot bool
	// LongEnds says whether a search domain that makes the name too long ends the search list. Otherwise it is passed over.
	LongEnds bool
	// Stops are the outcomes, besides Found, after which no further candidate is tried.
	Stops []Outcome
	// Skips are the outcomes after which the rest of the search list is skipped, but the name as it is still tried.
	Skips []Outcome
	// Timeout is how long one attempt waits, Attempts how many there are for each candidate.
	Timeout  time.Duration
	Attempts int
	// Again are the outcomes of a reply, besides none at all, after which there is a further attempt.
	Again []Outcome
	// Burst is how many questions for a candidate are sent again at once, in each attempt, when the reply is SERVFAIL. With it such a reply is none: the attempt lasts
	// for its whole Timeout. 0 for resolvers that take SERVFAIL for an answer.
	Burst int
	// About says in one line what is special, for -h and reports.
	About string
}

// Resolvers are the known rules; the first is the default.
func Resolvers() []Rules {
	return []Rules{
		{
			Name: "glibc", SearchAfter: true, SearchesRoot: true, LongEnds: true, Skips: []Outcome{Lame, Silent}, Timeout: 5 * time.Second, Attempts: 2, Again: []Outcome{Failed, Lame},
			About: "A and AAAA at once from one socket; goes on after NODATA and SERVFAIL, silence ends the search list",
		},
		{
			Name: "musl", Stops: []Outcome{NoData, Lame, Failed, Silent}, Timeout: 2500 * time.Millisecond, Attempts: 2, Again: []Outcome{Failed}, Burst: 4,
			About: "A and AAAA at once; stops at NODATA, and at SERVFAIL after 5 s of asking again; never searches a name with enough dots",
		},
		{
			Name: "go", SearchAfter: true, Timeout: 5 * time.Second, Attempts: 2, Again: []Outcome{Failed, Lame},
			About: "A and AAAA at once from two sockets; goes on after NODATA and SERVFAIL",
		},
	}
}

// ResolverNamed finds rules by name.
func ResolverNamed(name string) (Rules, error) {
	var known []string
	for _, r := range Resolvers() {
		if r.Name == name {
			return r, nil
		}
		known = append(known, r.Name)
	}
	return Rules{}, fmt.Errorf("unknown resolver %q; known are %s", name, strings.Join(known, ", "))
}

// maxCandidate is the length of the longest name, the dot at its end counted (RFC 1035 3.1).
const maxCandidate = 254

// Candidates are the fully qualified names that are tried for name, in order.
func (r *Rules) Candidates(name string, ndots int, search []string) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	asIs := name + "."
	enough := strings.Count(name, ".") >= ndots
	if enough && !r.SearchAfter {
		return []string{asIs}
	}
	var out []string
	if enough {
		out = append(out, asIs)
	}
	out = append(out, r.searched(name, search)...)
	if !slices.Contains(out, asIs) {
		out = append(out, asIs)
	}
	return out
}

// searched are the names that the search list makes of one.
func (r *Rules) searched(name string, search []string) (out []string) {
	for _, s := range search {
		s = strings.Trim(s, ".")
		c := name + "." + s + "."
		if s == "" {
			c = name + "."
		}
		if len(c) > maxCandidate && r.LongEnds {
			break
		}
		if len(c) <= maxCandidate && (s != "" || r.SearchesRoot) {
			out = append(out, c)
		}
	}
	return out
}

// Next gives the index of the candidate that is tried after number i of n came out so, or n for none. The name as it is stands first if
// asIsFirst, and last otherwise.
func (r *Rules) Next(o Outcome, i, n int, asIsFirst bool) int {
	switch {
	case o == Found || slices.Contains(r.Stops, o):
		return n
	case !slices.Contains(r.Skips, o) || asIsFirst && i == 0:
		return i + 1
	case asIsFirst:
		return n
	}
	return max(i+1, n-1)
}

// combine makes one outcome of the two for A and AAAA.
func combine(a, aaaa Outcome) Outcome {
	for _, o := range []Outcome{Found, Silent, Failed, Lame, NoData} {
		if a == o || aaaa == o {
			return o
		}
	}
	return NXDomain
}
