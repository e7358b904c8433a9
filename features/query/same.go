package query

import "github.com/reelay/reelay/models/capacity"

// Same is a row of a list, and those after it that say the same.
type Same[R any] struct {
	// Newest is the first of them in a list that is newest first, Oldest the last.
	Newest, Oldest R
	Count          int
}

// FoldSame makes neighbours with equal keys one. The list is newest first.
func FoldSame[R any, K comparable](rows []R, key func(R) K) []Same[R] {
	var folded []Same[R]
	for _, row := range rows {
		if n := len(folded); n > 0 && key(folded[n-1].Newest) == key(row) {
			folded[n-1].Oldest = row
			folded[n-1].Count++
			continue
		}
		folded = append(folded, Same[R]{Newest: row, Oldest: row, Count: 1})
	}
	return folded
}

// FoldDecisions makes decisions of the scaler one that follow each other, with the same numbers of
// workers, reason and error. The history itself stays as it is.
func FoldDecisions(decisions []*capacity.ScalingDecision) []Same[*capacity.ScalingDecision] {
	type decided struct {
		from, to      int
		reason, error string
	}
	return FoldSame(decisions, func(d *capacity.ScalingDecision) decided { return decided{d.From, d.To, d.Reason, d.Error} })
}
