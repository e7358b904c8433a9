package rate

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs/submit"
)

// bucket is a token bucket that holds one minute's tokens and refills evenly. paid is when the
// taken tokens are refilled; held says when each idempotency key took its token. take.lua and
// give.lua do the same arithmetic.
type bucket struct {
	paid     time.Time
	reserved map[string]time.Time
}

// take takes a token for each key that holds none, and returns how long it takes until there
// are as many as were refused, or a full bucket.
func (b *bucket) take(now time.Time, keys []string, perMinute int) (tokens []submit.Token, wait time.Duration) {
	each := float64(time.Minute) / float64(perMinute)
	owed := min(max(b.paid.Sub(now), 0), time.Minute)
	left, refused := int(math.Floor(float64(time.Minute-owed)/each+0.01)), 0
	maps.DeleteFunc(b.reserved, func(_ string, since time.Time) bool { return now.Sub(since) >= reserveFor })
	for _, key := range keys {
		_, held := b.reserved[key]
		switch {
		case key != "" && held:
			tokens = append(tokens, submit.TokenPending)
		case left > 0:
			tokens, left, owed = append(tokens, submit.TokenTaken), left-1, owed+time.Duration(each)
			b.reserve(key, now)
		default:
			tokens, refused = append(tokens, submit.TokenRefused), refused+1
		}
	}
	b.paid = now.Add(owed)
	if rest := min(refused, perMinute); rest > 0 {
		wait = max(0, owed+time.Duration(math.Ceil(float64(rest)*each))-time.Minute)
	}
	return tokens, wait
}

func (b *bucket) reserve(key string, now time.Time) {
	if key == "" {
		return
	}
	if b.reserved == nil {
		b.reserved = map[string]time.Time{}
	}
	b.reserved[key] = now
}

// give returns the tokens of the keys.
func (b *bucket) give(now time.Time, keys []string, perMinute int) {
	each := float64(time.Minute) / float64(perMinute)
	owed := min(max(b.paid.Sub(now), 0), time.Minute)
	b.paid = now.Add(max(0, owed-time.Duration(float64(len(keys))*each)))
	for _, key := range keys {
		delete(b.reserved, key)
	}
}

// maxBuckets bounds the buckets of one process. Beyond it, submits pass.
const maxBuckets = 10_000

// local counts in this process alone.
type local struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

func (l *local) take(now time.Time, name string, keys []string, perMinute int) (tokens []submit.Token, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[name]
	if b == nil {
		b = &bucket{}
		if l.room(now) {
			l.buckets[name] = b
		}
	}
	return b.take(now, keys, perMinute)
}

func (l *local) give(now time.Time, name string, keys []string, perMinute int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.buckets[name]; b != nil {
		b.give(now, keys, perMinute)
	}
}

// room reports whether there is room for one more bucket. Full buckets are dropped.
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
