package rewrite

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Shown is the rule as a Corefile would say all of it.
func (o Options) Shown() []directive.Value {
	if o.Field == "" {
		return []directive.Value{{Name: "rule"}}
	}
	words := []string{"stop", string(o.Field)}
	if o.Continue {
		words[0] = "continue"
	}
	return []directive.Value{{Name: "rule", Value: strings.Join(append(words, o.words()...), " ")}}
}

// words are what stands behind the field.
func (o *Options) words() []string {
	switch o.Field {
	case Name:
		words := []string{string(o.Match), o.From, o.To}
		if o.Auto && o.Match != Exact {
			words = append(words, "answer auto")
		}
		for _, a := range o.Answers {
			words = append(words, a.String())
		}
		return words
	case CNAME:
		return []string{string(o.Match), o.From, o.To}
	case TTL:
		return []string{string(o.Match), o.From, o.span()}
	case RCode:
		return []string{string(o.Match), o.From, wire.RCode(o.Old).String(), wire.RCode(o.New).String()}
	case Type:
		return []string{wire.Type(o.Old).String(), wire.Type(o.New).String()}
	case Class:
		return []string{wire.Class(o.Old).String(), wire.Class(o.New).String()}
	}
	return o.Option.words()
}

// span is the TTLs of a rule.
func (o *Options) span() string {
	switch {
	case o.MinTTL == o.MaxTTL:
		return fmt.Sprint(o.MinTTL)
	case o.MaxTTL == maxTTL:
		return fmt.Sprintf("%d-", o.MinTTL)
	}
	return fmt.Sprintf("%d-%d", o.MinTTL, o.MaxTTL)
}

// String is the option as a Corefile has it.
func (a Answer) String() string {
	kind := "name"
	if a.Value {
		kind = "value"
	}
	return "answer " + kind + " " + a.From + " " + a.To
}

func (o *Option) words() []string {
	words := o.change()
	if o.Revert {
		words = append(words, "revert")
	}
	return words
}

// change is the words but for revert.
func (o *Option) change() []string {
	words := []string{"local", o.Action}
	switch o.Code {
	case optNSID:
		return []string{"nsid", o.Action}
	case optSubnet:
		words[0] = "subnet"
		if o.Action != "unset" {
			words = append(words, fmt.Sprint(o.V4), fmt.Sprint(o.V6))
		}
		return words
	}
	words = append(words, fmt.Sprintf("0x%x", o.Code))
	switch {
	case o.Action == "unset":
	case o.Variable:
		words = append(words, "{"+o.Data+"}")
	case printable(o.Data):
		words = append(words, o.Data)
	default:
		words = append(words, "0x"+hex.EncodeToString([]byte(o.Data)))
	}
	return words
}

// printable says whether data can be written as it is.
func printable(data string) bool {
	for i := range len(data) {
		if data[i] <= ' ' || data[i] > '~' {
			return false
		}
	}
	return data != "" && !strings.HasPrefix(data, "0x") && !strings.HasPrefix(data, "{")
}
