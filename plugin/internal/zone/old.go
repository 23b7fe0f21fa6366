package zone

import "github.com/clusterdns/clusterdns/config/directive"

// instead is what to write for options that older versions of file and auto had.
var instead = map[string]string{
	"upstream":  "does nothing any more; CNAMEs are always followed here",
	"no_reload": "is now: reload 0",
	"transfer":  "does nothing any more; write a transfer directive beside this one",
}

// WarnOld says of each old option of a directive what to write instead.
func WarnOld(in *directive.Input) {
	if in.Warn == nil {
		return
	}
	for _, l := range in.Lines {
		if hint := instead[l.Name.Text]; hint != "" {
			in.Warn(l.Name, "%s: %s %s", in.Name.Text, l.Name.Text, hint)
		}
	}
}
