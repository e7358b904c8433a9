package fleet_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestHours(t *testing.T) {
	t.Parallel()

	t.Run("AreOpenFromTheirBeginningToTheirEnd", func(t *testing.T) {
		t.Parallel()

		for _, c := range []struct {
			hours, at string
			open      bool
		}{
			{"0 2 * * * for 6h Europe/Berlin", "2026-01-10T00:59:59Z", false},
			{"0 2 * * * for 6h Europe/Berlin", "2026-01-10T01:00:00Z", true},
			{"0 2 * * * for 6h Europe/Berlin", "2026-01-10T06:59:59Z", true},
			{"0 2 * * * for 6h Europe/Berlin", "2026-01-10T07:00:00Z", false},
			{"0 2 * * * for 6h Europe/Berlin", "2026-07-10T00:00:00Z", true}, // summer time
			{"0 22 * * FRI for 58h", "2026-01-11T12:00:00Z", true},           // a Sunday
			{"0 22 * * FRI for 58h", "2026-01-12T12:00:00Z", false},
			{"30 23 * * * for 1h UTC", "2026-01-10T00:29:59Z", true}, // past midnight
			{"0 0 30 2 * for 1h UTC", "2026-01-10T00:00:00Z", false}, // never
		} {
			hours, err := fleet.ParseHours(c.hours)
			require.NoError(t, err, c.hours)
			at, err := time.Parse(time.RFC3339, c.at)
			require.NoError(t, err)
			require.Equal(t, c.open, hours.Open(at), "%s at %s", c.hours, c.at)
		}
	})

	t.Run("AndTheRestAreTheStateOfAPool", func(t *testing.T) {
		t.Parallel()
		now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
		pool := capacity.Pool{}
		require.Equal(t, fleet.StateActive, fleet.StateOf(&pool, now))
		for _, c := range []struct {
			state  fleet.State
			change func()
		}{ // each goes before those above it
			{fleet.StateTooDear, func() { pool.PricePerHourUSD, pool.MaxPricePerHourUSD = 2, 1 }},
			{fleet.StateFailing, func() { pool.ProviderProblem = "it hangs" }},
			{fleet.StateRefused, func() { pool.BackoffUntil = now.Add(time.Second) }},
			{fleet.StateClosed, func() { pool.ActiveHours = "0 22 * * * for 1h UTC" }},
			{fleet.StatePaused, func() { pool.PausedAt = now }},
		} {
			c.change()
			require.Equal(t, c.state, fleet.StateOf(&pool, now))
		}
	})

	t.Run("RefuseWhatIsNotAWindow", func(t *testing.T) {
		t.Parallel()

		for _, bad := range []string{
			"", "always", "0 2 * * *", "0 2 * * * for", "0 2 * * for 6h UTC", "61 2 * * * for 6h UTC", "0 2 * * * for 6 UTC", "0 2 * * * for 1s UTC",
			"0 2 * * * for 169h UTC", "0 2 * * * for -6h UTC", "0 2 * * * for 6h Berlin", "0 2 * * * for 6h Local", "@daily for 6h UTC",
			"TZ=UTC 0 2 * * * for 6h",
		} {
			_, err := fleet.ParseHours(bad)
			require.Error(t, err, bad)
		}
	})
}
