package fairqueue_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	own      = models.Line{Lane: models.TierPro}
	promoted = models.Line{Lane: models.TierPro, Promoted: true}
	above    = models.Line{Lane: models.TierEnterprise}
)

func TestTurns(t *testing.T) {
	t.Parallel()

	t.Run("PutHigherLanesFirst", func(t *testing.T) {
		t.Parallel()

		turns := fairqueue.Turns{models.TierPro: models.PromotedEvery - 1}

		require.Negative(t, turns.CompareLines(above, promoted))
		require.Positive(t, turns.CompareLines(own, above))
	})

	t.Run("GiveOneStartInTenToPromotedJobs", func(t *testing.T) {
		t.Parallel()

		turns := fairqueue.Turns{}
		var starts []bool
		for range 20 {
			next := slices.MinFunc([]models.Line{own, promoted}, turns.CompareLines)
			turns.Start(next)
			starts = append(starts, next.Promoted)
		}

		require.Equal(t, 2, len(slices.DeleteFunc(slices.Clone(starts), func(p bool) bool { return !p })))
		require.True(t, starts[9])
		require.True(t, starts[19])
	})

	t.Run("CountTheRestOfATurn", func(t *testing.T) {
		t.Parallel()

		turns := fairqueue.Turns{models.TierPro: 7}
		require.Equal(t, 2, turns.Left(own))
		require.Zero(t, turns.Left(promoted))

		turns[models.TierPro] = 9
		require.Zero(t, turns.Left(own))
		require.Equal(t, 1, turns.Left(promoted))
	})

	t.Run("OrderAccountsByVirtualTime", func(t *testing.T) {
		t.Parallel()

		first, second := fairqueue.Place{Line: own, VirtualTime: 1, Order: 9}, fairqueue.Place{Line: own, VirtualTime: 2, Order: 1}
		require.Negative(t, fairqueue.Turns{}.Compare(first, second))

		second.VirtualTime = 1
		require.Positive(t, fairqueue.Turns{}.Compare(first, second), "their jobs' orders decide")
	})
}

func TestMerge(t *testing.T) {
	t.Parallel()

	t.Run("FollowsTheTurns", func(t *testing.T) {
		t.Parallel()

		require.Equal(t, []int{1, -1, 2, -2, -3}, fairqueue.Merge([]int{1, 2}, []int{-1, -2, -3}, 8))
		require.Equal(t, []int{-1, 1, 2}, fairqueue.Merge([]int{1, 2}, []int{-1}, 9))
		require.Empty(t, fairqueue.Merge[int](nil, nil, 3))
	})

	t.Run("KeepsBothOrders", func(t *testing.T) {
		t.Parallel()

		rapid.Check(t, func(rt *rapid.T) {
			ones := rapid.SliceOf(rapid.IntRange(1, 9)).Draw(rt, "own")
			others := rapid.SliceOf(rapid.IntRange(-9, -1)).Draw(rt, "promoted")

			merged := fairqueue.Merge(ones, others, rapid.IntRange(0, 9).Draw(rt, "since"))

			require.True(rt, slices.Equal(ones, slices.DeleteFunc(slices.Clone(merged), func(n int) bool { return n < 0 })))
			require.True(rt, slices.Equal(others, slices.DeleteFunc(slices.Clone(merged), func(n int) bool { return n > 0 })))
		})
	})
}

func TestShare(t *testing.T) {
	t.Parallel()

	t.Run("GivesGPUTimeByWeight", func(t *testing.T) {
		t.Parallel()

		shares := []*fairqueue.Share{{Weight: 1}, {Weight: 3}}
		given := map[*fairqueue.Share]float64{}
		for range 400 {
			next := slices.MinFunc(shares, func(a, b *fairqueue.Share) int { return cmp.Compare(a.VirtualTime, b.VirtualTime) })
			next.Advance(10)
			given[next] += 10
		}

		require.InDelta(t, 3, given[shares[1]]/given[shares[0]], 0.05)
	})

	t.Run("DoesNotAccumulateIdleTime", func(t *testing.T) {
		t.Parallel()

		late, ahead := fairqueue.Share{VirtualTime: 1}, fairqueue.Share{VirtualTime: 9}
		late.Enter(fairqueue.LineTime([]float64{7, 5}, 20))
		ahead.Enter(5)

		require.Equal(t, 5.0, late.VirtualTime)
		require.Equal(t, 9.0, ahead.VirtualTime)
		require.Equal(t, 20.0, fairqueue.LineTime(nil, 20), "of a line in which nobody stands")
	})

	t.Run("HasNoPlaceAtTheRunningLimit", func(t *testing.T) {
		t.Parallel()

		require.True(t, fairqueue.Eligible(1, 1, 2))
		require.False(t, fairqueue.Eligible(1, 2, 2))
		require.False(t, fairqueue.Eligible(0, 1, 2), "it has no job")
	})
}

func TestChoose(t *testing.T) {
	t.Parallel()

	type head struct {
		at   float64
		cost int
	}
	choose := func(heads ...head) []head {
		fairqueue.Choose(heads, func(h head) float64 { return h.at }, func(h head) int { return h.cost })
		return heads
	}

	require.Equal(t, []head{{2, 0}, {1, 1}, {3, 1}}, choose(head{1, 1}, head{2, 0}, head{3, 1}))
	require.Equal(t, head{0, 1}, choose(head{0, 1}, head{fairqueue.WindowTime + 1, 0})[0], "the second is too far behind")
	far := make([]head, fairqueue.Window+1)
	for i := range far {
		far[i].cost = 1
	}
	far[fairqueue.Window].cost = 0
	require.Equal(t, 1, choose(far...)[0].cost, "so deep nobody looks")
	require.Empty(t, choose())
}
