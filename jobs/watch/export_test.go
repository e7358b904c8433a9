package watch

// Feeds is how many jobs' events are followed in this process.
func Feeds(w *Watcher) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == nil {
		return 0
	}
	return len(w.events.feeds)
}

// MaxChanges bounds the changes that are held for those who are slow.
const MaxChanges = maxChanges

// MaxRing bounds a Ring.
const MaxRing = maxEvents

// Ring is a ring of its items' own numbers.
type Ring struct{ inside *ring[int] }

// NewRing makes an empty ring.
func NewRing() Ring { return Ring{newRing(MaxRing, func(n int) int { return n })} }

func (r Ring) Add(n int) { r.inside.add(n) }

func (r Ring) Age() { r.inside.age() }

// Wait waits, under some name, until there is something after n.
func (r Ring) Wait(who any, n int) {
	more := make(chan struct{})
	r.inside.wake(who, n, func() { close(more) })
	<-more
}

func (r Ring) After(n int) (held []int, behind bool) {
	h := r.inside.after(n)
	return h.items, h.behind
}

// ChangeFollowers is how many follow changes in this process, and are told of
// those to come.
func ChangeFollowers(w *Watcher) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changes == nil || !w.changes.hasBegun() {
		return 0
	}
	return w.changes.followers
}
