package config

import "github.com/clusterdns/clusterdns/config/directive"

// edeOptions are what an ede directive says.
type edeOptions struct{ Off bool }

func parseEDE(in *directive.Input) (edeOptions, error) {
	if len(in.Args) != 1 || in.Args[0].Text != "on" && in.Args[0].Text != "off" {
		return edeOptions{}, in.Name.Errorf("ede: takes one argument, on or off")
	}
	return edeOptions{Off: in.Args[0].Text == "off"}, in.NoBlock()
}

func buildEDE(s *site, o edeOptions) error {
	s.options.NoEDE = o.Off
	return nil
}
