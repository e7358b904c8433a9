package history

import "time"

const day = 24 * time.Hour

// span is a length of time that is recorded, and how long it is kept.
type span struct {
	length, keep time.Duration
}

// spans lists all lengths, from short to long. Each is a multiple of the one before.
var spans = []span{
	{time.Minute, 48 * time.Hour},
	{10 * time.Minute, 8 * day},
	{time.Hour, 90 * day},
	{day, 3 * 365 * day},
}

func (s span) seconds() int { return int(s.length / time.Second) }

// lengths are the lengths of all spans, in seconds.
func lengths() []int {
	all := make([]int, len(spans))
	for i, s := range spans {
		all[i] = s.seconds()
	}
	return all
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// roundUp returns the first start of a span that is not before a time.
func roundUp(at time.Time, length time.Duration) time.Time {
	down := at.UTC().Truncate(length)
	if down.Before(at) {
		return down.Add(length)
	}
	return down
}
