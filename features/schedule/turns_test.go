package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/require"
)

func TestTurns(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	flowOf := func(tier models.Tier, account string, due time.Duration) schedules.SlotFlow {
		return schedules.SlotFlow{Tier: tier, AccountID: models.AccountID(account), DueAt: at.Add(due)}
	}
	count := func(shares []schedules.SlotShare) map[string]int {
		of := map[string]int{}
		for _, s := range shares {
			of[fmt.Sprint(s.Tier, " ", s.AccountID)] += s.Most
		}
		return of
	}

	t.Run("EachAccountHasItsTurnHoweverLateTheOthersAre", func(t *testing.T) {
		t.Parallel()

		var turns turns
		due := []schedules.SlotFlow{flowOf(models.TierPro, "late", 0), flowOf(models.TierPro, "good", time.Hour)}
		for range 3 {
			require.Equal(t, map[string]int{"PRO late": 3, "PRO good": 3}, count(turns.share(due, 6, map[models.AccountID]int{})))
		}
		for n := range 50 {
			due = append(due, flowOf(models.TierPro, fmt.Sprint("late ", n), 0))
		}
		served := map[models.AccountID]int{}
		for range 9 { // 52 accounts, 6 places
			for _, s := range turns.share(due, 6, map[models.AccountID]int{}) {
				served[s.AccountID] += s.Most
			}
		}
		require.GreaterOrEqual(t, served["good"], 1, "in one round")
		require.Len(t, served, 52)
	})

	t.Run("NoTierStarvesAndTheHighestComesFirst", func(t *testing.T) {
		t.Parallel()

		var turns turns
		due := []schedules.SlotFlow{flowOf(models.TierBatch, "a", 0), flowOf(models.TierFree, "b", 0), flowOf(models.TierEnterprise, "c", 0),
			flowOf(models.TierEnterprise, "d", 0)}
		require.Equal(t, map[string]int{"ENTERPRISE c": 2, "ENTERPRISE d": 2, "FREE b": 1, "BATCH a": 1},
			count(turns.share(due, 6, map[models.AccountID]int{})))
		require.Len(t, turns.share(due, 0, map[models.AccountID]int{}), 0)
	})

	t.Run("AnAccountHasOnlySomeOfThePlaces", func(t *testing.T) {
		t.Parallel()

		var turns turns
		due := []schedules.SlotFlow{flowOf(models.TierPro, "a", 0), flowOf(models.TierFree, "a", 0)}
		require.Equal(t, map[string]int{"PRO a": 7, "FREE a": 1}, count(turns.share(due, firePlaces, map[models.AccountID]int{})))
		require.Empty(t, turns.share(due, firePlaces, map[models.AccountID]int{"a": fireShare}))
	})
}
