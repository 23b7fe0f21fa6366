package tls_test

import (
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/tls"
)

func words(line int, texts ...string) (out []directive.Arg) {
	for _, t := range texts {
		out = append(out, directive.Arg{Text: t, File: "Corefile", Line: line})
	}
	return out
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, option []string
		want         tls.Options
		err          string
	}{
		{args: []string{"c", "/k"}, want: tls.Options{Cert: "etc/c", Key: "/k", ClientAuth: tls.NoCert}},
		{args: []string{"c", "k", "ca"}, option: []string{"client_auth", "require_and_verify"}, want: tls.Options{Cert: "etc/c", Key: "etc/k", CA: "etc/ca", ClientAuth: tls.RequireAndVerify}},
		{args: []string{"c", "k"}, option: []string{"keylog", "log"}, want: tls.Options{Cert: "etc/c", Key: "etc/k", ClientAuth: tls.NoCert, KeyLog: "etc/log"}},
		{args: []string{"c"}, err: "takes the files"},
		{option: []string{"acme", "dns.example.org"}, err: "acme is not supported: have the certificate put into files"},
		{args: []string{"c", "k", "ca", "x"}, err: "takes the files"},
		{args: []string{"c", "k"}, option: []string{"client_auth", "please"}, err: `unknown word "please"`},
		{args: []string{"c", "k"}, option: []string{"client_auth"}, err: "needs more arguments"},
		{args: []string{"c", "k"}, option: []string{"cipher", "x"}, err: "known are client_auth, keylog"},
	} {
		in := &directive.Input{Root: "etc", Warn: func(directive.Arg, string, ...any) {}}
		in.Name, in.Args = words(1, "tls")[0], words(1, c.args...)
		if c.option != nil {
			o := words(2, c.option...)
			in.HasBlock, in.Lines = true, []directive.Line{{Name: o[0], Args: o[1:]}}
		}
		got, err := tls.Parse(in)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%v %v: %+v, %v; want %+v", c.args, c.option, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%v %v: error %v, want one with %q", c.args, c.option, err, c.err)
		}
	}
}
