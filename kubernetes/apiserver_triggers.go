package kubernetes

import "hash/maphash"

// triggers tells which versions of a slice show a change that no earlier version showed: the controllers leave the time of the last
// change as it is when they touch a slice for another reason, and that must not be measured again. Slices are told apart by hash,
// which takes a fifth of what their names would; two that collide make one measurement too many or too few.
type triggers struct {
	seed  maphash.Seed
	nanos map[uint64]int64 // time of the last change, in Unix nanoseconds
}

func (t *triggers) key(namespace, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	_, _ = h.WriteString(namespace) // a hash does not fail
	_ = h.WriteByte('/')
	_, _ = h.WriteString(name)
	return h.Sum64()
}

// replace notes all slices that there are.
func (t *triggers) replace(all []Object) {
	t.seed, t.nanos = maphash.MakeSeed(), map[uint64]int64{}
	for _, o := range all {
		if s, ok := o.(*EndpointSlice); ok {
			t.note(s)
		}
	}
}

// note says whether s shows a change that it has not shown before.
func (t *triggers) note(s *EndpointSlice) bool {
	if s.Trigger.IsZero() || t.nanos == nil {
		return false
	}
	k, at := t.key(s.Namespace, s.Name), s.Trigger.UnixNano()
	old, known := t.nanos[k]
	t.nanos[k] = at
	return !known || old != at
}

func (t *triggers) forget(namespace, name string) {
	if t.nanos != nil {
		delete(t.nanos, t.key(namespace, name))
	}
}
