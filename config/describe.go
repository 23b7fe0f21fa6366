package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/clusterdns/clusterdns/config/directive"
)

// Setting is one option of a directive as it is in effect.
type Setting struct {
	Name  string // as the Corefile has it, where it can be set there
	Value string
	From  string // where it was set, "Corefile:5"; "" for a default

	dump    bool   // the value has parts, of which the Corefile does not know the names
	full    string // the dump that was there before written
	written bool   // the value is what the Corefile says, no dump any more
}

// maxTraced bounds the lines of one directive whose settings are traced to them: only lists of hosts are longer, and those are one setting.
const maxTraced = 100

// Settings are the options in effect of one occurrence of a directive, in the order of their declaration. Where a value comes from is
// found by parsing the directive without one line after the other.
func (u *Use) Settings() []Setting {
	out := u.settings(u.Options)
	for i, l := range u.Input.Lines {
		if len(u.Input.Lines) > maxTraced {
			break
		}
		in := *u.Input
		in.Lines = slices.Delete(slices.Clone(in.Lines), i, i+1)
		if values, ok := u.reparse(in); ok {
			quoteLine(out, values, &l)
			trace(out, values, l.Name)
		} else {
			traceWords(out, u.zero(), &l)
		}
	}
	in := *u.Input
	in.Args = nil
	if values, ok := u.reparse(in); ok || len(u.Input.Args) == 0 {
		trace(out, values, u.Input.Name)
		return out
	}
	found := false
	for i, a := range u.Input.Args {
		without := u.exchanged(i)
		found = found || without != nil
		trace(out, without, a)
	}
	if !found {
		trace(out, u.zero(), u.Input.Name)
	}
	return out
}

// quoteLine puts what a line says in the place of values that have parts and would be others without it.
func quoteLine(out, without []Setting, l *directive.Line) {
	for i := range without {
		s := &out[i]
		if !s.dump || without[i].Value == s.Value && !s.written {
			continue
		}
		switch {
		case !s.written:
			s.full, s.Value, s.written = s.Value, s.words(l), true
		case without[i].Value != s.full:
			s.Value += "; " + s.words(l)
		}
	}
}

// words are what a line says of a setting: without the name if that is the setting's.
func (s *Setting) words(l *directive.Line) string {
	var words []string
	if plain(s.Name) != plain(l.Name.Text) {
		words = append(words, quote(l.Name.Text))
	}
	for _, a := range l.Args {
		words = append(words, quote(a.Text))
	}
	if len(words) == 0 {
		return "on"
	}
	return strings.Join(words, " ")
}

// trace notes a place for the settings that would have other values without what stands there.
func trace(out, without []Setting, at directive.Arg) {
	for i := range without {
		value := out[i].Value
		if out[i].written {
			value = out[i].full
		}
		if out[i].From != "" || without[i].Value == value {
			continue
		}
		out[i].From = fmt.Sprintf("%s:%d", at.File, at.Line)
		if plain(out[i].Name) == plain(at.Text) {
			out[i].Name = at.Text
		}
	}
}

// traceWords notes the place of a line without which the directive cannot be, for the settings of its name or with a word of it.
func traceWords(out, zero []Setting, l *directive.Line) {
	for i := range out {
		found := strings.HasPrefix(plain(out[i].Name), plain(l.Name.Text))
		for _, a := range l.Args {
			found = found || strings.Contains(out[i].Value, a.Text)
		}
		if found && out[i].From == "" && out[i].Value != zero[i].Value {
			out[i].From = fmt.Sprintf("%s:%d", l.Name.File, l.Name.Line)
			if out[i].dump {
				out[i].Value = out[i].words(l)
			}
		}
	}
}

// zero gives the settings of options that say nothing.
func (u *Use) zero() []Setting {
	return u.settings(reflect.Zero(reflect.TypeOf(u.Options)).Interface())
}

// exchanged gives the settings with one argument replaced by another word, for directives that cannot be without arguments: what changes
// is what that argument sets.
func (u *Use) exchanged(i int) []Setting {
	for _, word := range []string{"other.example.", "192.0.2.99", "ANY", "A", "CH", "7", "on", "off"} {
		in := *u.Input
		in.Args = slices.Clone(in.Args)
		if in.Args[i].Text == word {
			continue
		}
		in.Args[i].Text = word
		if values, ok := u.reparse(in); ok {
			return values
		}
	}
	return nil
}

// reparse gives the settings of the directive with another input.
func (u *Use) reparse(in directive.Input) (out []Setting, ok bool) {
	in.Warn = func(directive.Arg, string, ...any) {}
	other := &Use{Directive: u.Directive, Input: &in}
	if u.Directive.parse(other) != nil {
		return nil, false
	}
	return u.settings(other.Options), true
}

// settings are what options of the directive say, in the words of a Corefile.
func (u *Use) settings(options any) []Setting {
	if s, ok := options.(directive.Shown); ok {
		var out []Setting
		for _, v := range s.Shown() {
			if v.Value == "" {
				v.Value = "-"
			}
			out = append(out, Setting{Name: v.Name, Value: v.Value})
		}
		return out
	}
	return spell(u.Directive.Name, settingsOf(options))
}

// settingsOf are the exported fields of options.
func settingsOf(options any) []Setting {
	v := reflect.ValueOf(options)
	if v.Kind() != reflect.Struct {
		return nil
	}
	var out []Setting
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Type.Kind() != reflect.Func {
			out = append(out, Setting{Name: snake(f.Name), Value: show(v.Field(i), 0), dump: hasParts(f.Type)})
		}
	}
	return out
}

// hasParts says whether values of a type are shown by their fields.
func hasParts(t reflect.Type) bool {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && !t.Implements(reflect.TypeFor[fmt.Stringer]())
}

// String is the configuration in effect, a server block after the other, directives in the order of the chain, with the options that
// are not left to their defaults.
func (c *Config) String() string {
	var b strings.Builder
	for _, blk := range c.Blocks {
		for i, z := range blk.Zones {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(z.String())
		}
		fmt.Fprintf(&b, "  # %s:%d\n", blk.At.File, blk.At.Line)
		for _, u := range blk.Uses {
			fmt.Fprintf(&b, "    %s  # %s:%d\n", u.Directive.Name, u.Input.Name.File, u.Input.Name.Line)
			for _, s := range u.Settings() {
				if s.From != "" {
					fmt.Fprintf(&b, "        %s: %s  # %s\n", s.Name, s.Value, s.From)
				}
			}
		}
	}
	return b.String()
}

// plain is a name without underscores, which fields and options do not have in the same places.
func plain(s string) string { return strings.ReplaceAll(s, "_", "") }

// snake turns the name of a field into that of an option: "StartupTimeout" to "startup_timeout", "TLSCert" to "tls_cert".
func snake(s string) string {
	var b strings.Builder
	r := []rune(s)
	for i, c := range r {
		lowerBefore := i > 0 && !unicode.IsUpper(r[i-1])
		lowerBehind := i > 0 && i+1 < len(r) && unicode.IsLower(r[i+1]) && unicode.IsUpper(r[i-1])
		if unicode.IsUpper(c) && (lowerBefore || lowerBehind) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return strings.NewReplacer("i_pv", "ipv", "r_code", "rcode").Replace(b.String())
}

// maxShown bounds how deep values are shown; options are shallow.
const maxShown = 6

// show is a value in one line.
func show(v reflect.Value, depth int) string {
	if depth > maxShown {
		return "…"
	}
	if empty(v) {
		return "-"
	}
	if s, ok := stringer(v); ok {
		return s.String()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return show(v.Elem(), depth+1)
	case reflect.String:
		return quote(v.String())
	case reflect.Slice, reflect.Array:
		return showList(v, depth)
	case reflect.Map:
		return showMap(v, depth)
	case reflect.Struct:
		return showStruct(v, depth)
	}
	return fmt.Sprint(v)
}

// empty says whether a value is nothing at all.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Func, reflect.Chan:
		return v.IsNil()
	case reflect.Struct: // an address or a zone that there is none of
		_, ok := stringer(v)
		return ok && v.IsZero()
	}
	return false
}

func stringer(v reflect.Value) (fmt.Stringer, bool) {
	if !v.CanInterface() {
		return nil, false
	}
	s, ok := v.Interface().(fmt.Stringer)
	return s, ok
}

func showMap(v reflect.Value, depth int) string {
	var out []string
	for _, k := range v.MapKeys() {
		out = append(out, show(k, depth+1)+"="+show(v.MapIndex(k), depth+1))
	}
	slices.Sort(out)
	return "{" + strings.Join(out, " ") + "}"
}

func showList(v reflect.Value, depth int) string {
	if v.Len() == 0 {
		return "-"
	}
	out := make([]string, v.Len())
	for i := range out {
		out[i] = show(v.Index(i), depth+1)
	}
	return strings.Join(out, " ")
}

func showStruct(v reflect.Value, depth int) string {
	var out []string
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Type.Kind() != reflect.Func && !v.Field(i).IsZero() {
			out = append(out, snake(f.Name)+"="+show(v.Field(i), depth+1))
		}
	}
	if len(out) == 0 {
		return "-"
	}
	if depth == 0 {
		return strings.Join(out, " ")
	}
	return "{" + strings.Join(out, " ") + "}"
}
