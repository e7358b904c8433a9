package rate

import (
	"math"
	"sync"
	"time"
)

// bucket is a token bucket that holds a minute's worth and fills evenly: until
// when what was taken of it is paid for. take.lua has the same arithmetic.
type bucket struct{ paid time.Time }

// take takes up to n tokens (below 0: gives back) and tells how many, and in how
// long the rest, or a full bucket, will be there.
func (b *bucket) take(now time.Time, n, perMinute int) (taken int, wait time.Duration) {
	each := float64(time.Minute) / float64(perMinute)
	owed := min(max(b.paid.Sub(now), 0), time.Minute)
	taken = n
	if n > 0 {
		taken = min(n, int(math.Floor(float64(time.Minute-owed)/each+0.01)))
	}
	owed = max(0, owed+time.Duration(float64(taken)*each))
	b.paid = now.Add(owed)
	if rest := min(n-taken, perMinute); rest > 0 {
		wait = max(0, owed+time.Duration(math.Ceil(float64(rest)*each))-time.Minute)
	}
	return taken, wait
}

// maxBuckets bounds what one process counts by itself: beyond it, it lets pass.
const maxBuckets = 10_000

// local counts in this process alone.
type local struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

func (l *local) take(now time.Time, name string, n, perMinute int) (taken int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[name]
	if b == nil {
		if !l.room(now) {
			return n, 0
		}
		b = &bucket{}
		l.buckets[name] = b
	}
	return b.take(now, n, perMinute)
}

// room tells whether one more bucket may be kept. Full ones need not be.
func (l *local) room(now time.Time) bool {
	if l.buckets == nil {
		l.buckets = map[string]*bucket{}
	}
	if len(l.buckets) < maxBuckets {
		return true
	}
	for name, b := range l.buckets {
		if !b.paid.After(now) {
			delete(l.buckets, name)
		}
	}
	return len(l.buckets) < maxBuckets
}
