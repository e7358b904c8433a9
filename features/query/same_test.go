package query_test

import (
	"testing"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestFoldDecisions(t *testing.T) {
	t.Parallel()

	decision := func(id int64, to int, reason, failure string) *capacity.ScalingDecision {
		return &capacity.ScalingDecision{ID: id, To: to, Reason: reason, Error: failure}
	}
	all := []*capacity.ScalingDecision{
		decision(6, 2, "limit", ""), decision(5, 2, "limit", ""), decision(4, 2, "limit", "no capacity"), decision(3, 1, "limit", ""),
		decision(2, 2, "limit", ""), decision(1, 2, "limit", ""),
	}

	folded := query.FoldDecisions(all)

	var seen [][3]int64
	for _, same := range folded {
		seen = append(seen, [3]int64{same.Newest.ID, same.Oldest.ID, int64(same.Count)})
	}
	require.Equal(t, [][3]int64{{6, 5, 2}, {4, 4, 1}, {3, 3, 1}, {2, 1, 2}}, seen)
	require.Empty(t, query.FoldDecisions(nil))
}
