package metrics

import "sync"

const (
	// maxModels, maxPools and maxResolutions are how many values such a label has at most; further ones count as "other".
	// Models and pools can be made without limit, and each would be a time series for good.
	maxModels      = 50
	maxPools       = 100
	maxResolutions = 20

	other   = "other"
	unknown = "unknown"
)

// bound limits how many values a label has.
type bound struct {
	max  int
	mu   sync.Mutex
	seen map[string]bool
}

func newBound(most int) *bound { return &bound{max: most, seen: map[string]bool{}} }

// of returns the value, or "other" if there are too many already. Nothing is "unknown".
func (b *bound) of(value string) string {
	if value == "" {
		return unknown
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.seen[value]:
		return value
	case len(b.seen) < b.max:
		b.seen[value] = true
		return value
	}
	return other
}
