package prometheus

import "sync"

// maxNames bounds how many directives are told apart; there are some fifty.
const maxNames = 120

// names numbers directives. Numbers stay what they are.
type names struct {
	mu   sync.Mutex
	list []string
}

// add gives the number of a name, a new one if need be. Beyond the bound all have the number of "".
func (n *names) add(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addLocked(name)
}

func (n *names) addLocked(name string) int {
	for i, s := range n.list {
		if s == name {
			return i
		}
	}
	if len(n.list) == maxNames {
		return 0
	}
	n.list = append(n.list, name)
	return len(n.list) - 1
}

// at gives the name of a number.
func (n *names) at(i int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list[i]
}

// with numbers further names and gives all as they are then, for looking up without a lock.
func (n *names) with(more []string) *numbers {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range more {
		n.addLocked(s)
	}
	t := new(numbers)
	for i, s := range n.list {
		k := place(s)
		for t[k].used {
			k = (k + 1) % len(t)
		}
		t[k] = numbered{name: s, number: uint8(i), used: true}
	}
	return t
}

// numbers finds the number of a name. It is a hash table with twice as many places as there may be names, and immutable.
type numbers [2 * maxNames]numbered

type numbered struct {
	name   string
	number uint8
	used   bool
}

// place is where the search for a name begins: length, first and last letter tell directives apart well.
func place(s string) int {
	if s == "" {
		return 0
	}
	return (len(s)*89 + int(s[0])*7 + int(s[len(s)-1])*31) % len(numbers{})
}

func (t *numbers) of(s string) (number int, ok bool) {
	for k := place(s); t[k].used; k = (k + 1) % len(t) {
		if t[k].name == s {
			return int(t[k].number), true
		}
	}
	return 0, false
}
