package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/clusterdns/clusterdns/config"
)

// check is the subcommand of that name.
func check(env environment, args []string) int {
	set := flag.NewFlagSet("clusterdns check", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	conf := set.String("conf", "", "")
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(env.stdout, "Usage: clusterdns check [-conf FILE]\n")
		return exitOK
	case err != nil:
		fmt.Fprintf(env.stderr, "clusterdns check: %v\n", err)
		return exitUsage
	}
	src, err := loadCorefile(env, *conf)
	if err != nil {
		return fail(env, err)
	}
	c, err := config.Parse(src, config.DefaultPort)
	for _, w := range c.Warnings {
		fmt.Fprintln(env.stdout, "warning: "+w.Error())
	}
	if err != nil {
		return fail(env, err)
	}
	return exitOK
}
