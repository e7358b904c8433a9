package servers

import (
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/models/regions"
	"github.com/stretchr/testify/require"
)

// lost is a standby whose primary was killed 67 s ago.
func lost() *region.Standing {
	died := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &region.Standing{Region: "us", Newest: regions.Promotion{Epoch: 1, Region: "eu", At: died.Add(-time.Hour)},
		Peers: []region.Peer{{Address: "http://api.eu.internal",
			Failure: "it does not answer (connection refused): whether it serves is unknown"}},
		Server: regions.Server{Standby: true, MayPromote: true, Role: "reelay", Database: "reelay", Now: died.Add(67 * time.Second),
			LastCommit: new(died.Add(-2 * time.Second)), HeardAt: &died}}
}

func TestRegionPromotion(t *testing.T) {
	t.Parallel()

	t.Run("AcceptsALossThatIsSmall", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, tooMuch(lost(), usualLoss), "the time since the primary was lost does not count")
	})

	t.Run("NamesTheWayOn", func(t *testing.T) {
		t.Parallel()
		s := lost()
		s.Server.LastCommit = new(s.Server.HeardAt.Add(-150 * time.Second))
		require.EqualError(t,
			tooMuch(s, usualLoss), "the newest transaction here is of 2026-01-02 03:01:35 UTC, and the primary was last heard at "+
				"2026-01-02 03:04:05 UTC: that is 2 min 30 s, more than --max-loss 30s. Nothing was done. If that loss is acceptable, give --max-loss 3m, "+
				"or run it at a terminal without --yes")
		s = lost()
		s.Server.HeardAt = nil
		require.ErrorContains(t,
			tooMuch(s, usualLoss), "GRANT pg_monitor TO reelay lets PostgreSQL say it), so the time until now counts: that is 1 min 09 s")
		s.Server.LastCommit = nil
		require.ErrorContains(t, tooMuch(s, time.Hour), "run it at a terminal without --yes")
	})

	t.Run("SaysWhatIsLostAndWhoDidNotAnswer", func(t *testing.T) {
		t.Parallel()
		require.Equal(t,
			"The newest transaction is of 2026-01-02 03:04:03 UTC, and nothing after it was received. The primary was last heard at "+
				"2026-01-02 03:04:05 UTC. What it acknowledged since is lost, unless it waited for this standby (synchronous_standby_names). "+
				"http://api.eu.internal: It does not answer (connection refused): whether it serves is unknown. The other region must stay off. Promote us?",
			promotionQuestion(lost()))
		s := lost()
		s.Server.Unapplied, s.Peers, s.Server.HeardAt = 7, nil, nil
		for _, words := range []string{"7 bytes that were received after it are replayed first", "nothing was asked",
			"It is not known when the primary was last heard"} {
			require.Contains(t, promotionQuestion(s), words)
		}
		s.Server.LastCommit = nil
		require.Contains(t, promotionQuestion(s), "look whether this database ever followed the primary")
	})

	t.Run("IsShownAsPossible", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder
		s := lost()
		s.Promotions = []regions.Promotion{{Epoch: 1, Region: "eu", By: "root@db2", NewestAt: s.Server.LastCommit,
			HeardAt: s.Server.HeardAt}}
		require.NoError(t, printRegion(&out, s.Report()))
		for _, words := range []string{"Heard      the primary, at 2026-01-02 03:04:05 UTC for the last time",
			"Promote    possible: run `reelay region promote`",
			"Warning    PostgreSQL here receives nothing from eu.", "; the newest transaction that came over is of 2026-01-02 03:04:03 UTC, and the primary before"} {
			require.Contains(t, out.String(), words)
		}
		s.Peers, s.Server.MayPromote = nil, false
		out.Reset()
		require.NoError(t, printRegion(&out, s.Report()))
		require.Contains(t, out.String(), "Peer       no peers are set: nothing was asked")
		require.Contains(t, out.String(), "Promote    not now: the role reelay may not promote it.")
	})
}
