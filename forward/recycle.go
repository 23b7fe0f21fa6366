package forward

// take takes an exchange that nobody else knows.
func (g *group) take() *exchange {
	x, _ := g.exchanges.Get().(*exchange)
	if x == nil {
		x = &exchange{group: g}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gen++
	return x
}

// put recycles an exchange with which nothing is registered. Its timer may still fire.
func (g *group) put(x *exchange) {
	x.mu.Lock()
	for _, a := range x.atts[:x.n] {
		g.recycle(a.msg)
		*a = attempt{}
	}
	g.recycle(x.best)
	g.recycle(x.msg)
	x.progress = progress{}
	x.gen++
	x.key = key{}
	clear(x.waiters)
	x.waiters = x.waiters[:0]
	x.mu.Unlock()
	g.exchanges.Put(x)
}

// release notes that one of the things is over that kept x from being used again.
func (x *exchange) release() {
	x.mu.Lock()
	x.leaving--
	last := x.leaving == 0
	x.mu.Unlock()
	if last {
		x.group.put(x)
	}
}
