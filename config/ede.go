package config

import "github.com/clusterdns/clusterdns/config/directive"

// edeOptions are what an ede directive says.
type edeOptions struct{ EDE directive.Switch }

func parseEDE(in *directive.Input) (edeOptions, error) {
	if len(in.Args) != 1 {
		return edeOptions{}, in.Name.Errorf("ede: takes one argument, on or off")
	}
	on, err := in.Args[0].Switch()
	if err != nil {
		return edeOptions{}, err
	}
	return edeOptions{EDE: on}, in.NoBlock()
}

func buildEDE(s *site, o edeOptions) error {
	s.options.NoEDE = !bool(o.EDE)
	return nil
}
