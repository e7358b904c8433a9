package models_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

func TestClaimPass(t *testing.T) {
	t.Parallel()

	t.Run("GivesAPeriodToOneCaller", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		var claims sync.WaitGroup
		var mine atomic.Int32
		for range 20 {
			claims.Go(func() {
				got, left, err := models.ClaimPass(t.Context(), db, "reap", 24*time.Hour)
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
		other, _, err := models.ClaimPass(t.Context(), db, "sweep", 24*time.Hour)
		require.NoError(t, err)
		require.True(t, other)
	})

	t.Run("GivesLaterPeriodsAndOnesAfterAClockSetBack", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		const every = 24 * time.Hour
		for _, c := range []struct {
			name  string
			shift string
			mine  bool
		}{
			{"the period before", "period - 1", true},
			{"one who saw the next period overtook us", "period + 1", false},
			{"the clock was set back", "period + 100", true},
		} {
			_, _, err := models.ClaimPass(t.Context(), db, c.name, every)
			require.NoError(t, err)
			_, err = db.NewRaw("UPDATE passes SET period = "+c.shift+" WHERE name = ?", c.name).Exec(t.Context())
			require.NoError(t, err)

			mine, _, err := models.ClaimPass(t.Context(), db, c.name, every)

			require.NoError(t, err)
			require.Equal(t, c.mine, mine, c.name)
		}
	})
}
