package loadbalance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/clusterdns/clusterdns/plugin/internal/poll"
	"github.com/clusterdns/clusterdns/server/wire"
)

// maxWeight is CoreDNS's limit.
const maxWeight = 255

// Load reads the file of weights, for configurations to be judged before they are used. Without one it does nothing. An error leaves the
// weights that there are.
func (b *Balance) Load() error {
	if b.opts.File == "" {
		return nil
	}
	text, err := os.ReadFile(b.opts.File)
	if err != nil {
		return fmt.Errorf("loadbalance: weights: %w", err)
	}
	if b.weights.Load() != nil && bytes.Equal(text, b.loaded) {
		return nil
	}
	w, err := parse(b.opts.File, string(text))
	if err != nil {
		return fmt.Errorf("loadbalance: weights: %w", err)
	}
	b.loaded = text
	b.weights.Store(&w)
	return nil
}

// Run reads the file of weights, and again every so often, until ctx ends. While it is bad or gone the last good weights stay, and the log says
// so once.
func (b *Balance) Run(ctx context.Context) error {
	said := ""
	look := func() {
		err := b.Load()
		switch {
		case err != nil && err.Error() != said:
			said = err.Error()
			b.log.Warn(said)
		case err == nil && said != "":
			said = ""
			b.log.Info("loadbalance: weights are good again", "file", b.opts.File)
		}
	}
	return poll.New(b.opts.Reload, look).Run(ctx)
}

// parse reads a file of weights: a line with a name, and below it lines of an address and its weight. What follows # is a comment.
func parse(file, text string) (weights, error) {
	out := weights{}
	var of map[netip.Addr]int
	var errs []error
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, i+1, fmt.Errorf(format, args...)))
		}
		switch len(words) {
		case 0:
		case 1:
			name, err := parseName(words[0])
			if err != nil {
				bad("%w", err)
				continue
			}
			if of = out[name]; of == nil {
				of = map[netip.Addr]int{}
				out[name] = of
			}
		case 2:
			addr, weight, err := parseWeight(words)
			switch {
			case err != nil:
				bad("%w", err)
			case of == nil:
				bad("a weight stands above the first name")
			default:
				of[addr] = weight
			}
		default:
			bad("%q is neither a name nor an address with its weight", strings.Join(words, " "))
		}
	}
	return out, errors.Join(errs...)
}

func parseName(s string) (wire.Canonical, error) {
	if _, err := netip.ParseAddr(s); err == nil {
		return "", fmt.Errorf("%q has no weight", s)
	}
	return wire.ParseCanonical(s)
}

func parseWeight(words []string) (addr netip.Addr, weight int, err error) {
	if addr, err = netip.ParseAddr(words[0]); err != nil || addr.Zone() != "" {
		return addr, 0, fmt.Errorf("%q is not an address", words[0])
	}
	if weight, err = strconv.Atoi(words[1]); err != nil || weight < 1 || weight > maxWeight {
		return addr, 0, fmt.Errorf("%q is not a weight within 1 and %d", words[1], maxWeight)
	}
	return addr.Unmap(), weight, nil
}
