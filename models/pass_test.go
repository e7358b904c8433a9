package models_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestClaimPasses(t *testing.T) {
	t.Parallel()

	t.Run("GivesAPeriodToOneCaller", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		var claims sync.WaitGroup
		var mine atomic.Int32
		for range 20 {
			claims.Go(func() {
				got, left, err := claimPass(t, db, "reap")
				if got {
					mine.Add(1)
				}
				if err != nil || left <= 0 || left > 24*time.Hour {
					t.Error(left, err)
				}
			})
		}
		claims.Wait()

		require.Equal(t, int32(1), mine.Load())
		other, _, err := claimPass(t, db, "sweep")
		require.NoError(t, err)
		require.True(t, other)
	})

	t.Run("GivesLaterPeriodsAndOnesAfterAClockSetBack", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		for _, c := range []struct {
			name  string
			shift string
			mine  bool
		}{
			{"the period before", "period - 1", true},
			{"one who saw the next period overtook us", "period + 1", false},
			{"the clock was set back", "period + 100", true},
		} {
			_, _, err := claimPass(t, db, c.name)
			require.NoError(t, err)
			_, err = db.NewRaw("UPDATE passes SET period = "+c.shift+" WHERE name = ?", c.name).Exec(t.Context())
			require.NoError(t, err)

			mine, _, err := claimPass(t, db, c.name)

			require.NoError(t, err)
			require.Equal(t, c.mine, mine, c.name)
		}
	})

	t.Run("ClaimsSeveralAtOnce", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		_, _, err := claimPass(t, db, "reap")
		require.NoError(t, err)

		claims, err := models.ClaimPasses(t.Context(), db, []models.PassPeriod{
			{Name: "reap", Every: 24 * time.Hour}, {Name: "sweep", Every: time.Hour},
		})

		require.NoError(t, err)
		require.Len(t, claims, 2)
		require.False(t, claims["reap"].Mine, "its period has an owner")
		require.True(t, claims["sweep"].Mine)
		require.LessOrEqual(t, claims["sweep"].Left, time.Hour)
	})
}

func claimPass(t *testing.T, db *bun.DB, name string) (mine bool, left time.Duration, err error) {
	claims, err := models.ClaimPasses(t.Context(), db, []models.PassPeriod{{Name: name, Every: 24 * time.Hour}})
	return claims[name].Mine, claims[name].Left, err
}
