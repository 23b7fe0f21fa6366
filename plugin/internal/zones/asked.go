package zones

import "github.com/clusterdns/clusterdns/server"

// Asked says whether the name that the client asked is in any of the zones, whatever rewriting or CNAMEs have made of it since.
func (s Set) Asked(q *server.Query) bool {
	name := q.Question()
	name = name[:max(0, len(name)-4)]
	for _, z := range s {
		if z.Labels() == 0 || below(name, string(z.Name())) {
			return true
		}
	}
	return false
}

// below says whether a name in wire form is an apex, in lower case, or below it.
func below(name []byte, apex string) bool {
	for len(name) > len(apex) {
		name = name[1+int(name[0]):]
	}
	if len(name) != len(apex) {
		return false
	}
	for i := range name {
		c := name[i] // length bytes are below 'A' and stay as they are
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != apex[i] {
			return false
		}
	}
	return true
}
