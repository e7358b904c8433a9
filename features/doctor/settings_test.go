package doctor_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/regions"
	"github.com/stretchr/testify/require"
)

func TestSettings(t *testing.T) {
	t.Parallel()

	good := models.Surroundings{Version: 15, Fsync: "on", FullPageWrites: "on", SynchronousCommit: "on", Connections: 90, MaxConnections: 100}
	for check, spoil := range map[string]func(s *models.Surroundings, server *regions.Server, drift *time.Duration){
		"":           func(*models.Surroundings, *regions.Server, *time.Duration) {},
		"durability": func(s *models.Surroundings, _ *regions.Server, _ *time.Duration) { s.SynchronousCommit = "off" },
		"standby": func(_ *models.Surroundings, r *regions.Server, _ *time.Duration) {
			r.Standbys = []regions.Standby{{Name: "us", State: "async"}}
		},
		"commits":          func(_ *models.Surroundings, r *regions.Server, _ *time.Duration) { r.Synchronous = "us" },
		"postgres-version": func(s *models.Surroundings, _ *regions.Server, _ *time.Duration) { s.Version = 13 },
		"connections":      func(s *models.Surroundings, _ *regions.Server, _ *time.Duration) { s.Connections = 91 },
		"clock":            func(_ *models.Surroundings, _ *regions.Server, d *time.Duration) { *d = 31 * time.Second },
		"indexes":          func(s *models.Surroundings, _ *regions.Server, _ *time.Duration) { s.InvalidIndexes = []string{"one"} },
	} {
		t.Run("AdviseOn "+check, func(t *testing.T) {
			t.Parallel()

			s, server, drift := good, regions.Server{CommitsWait: true}, 29*time.Second
			spoil(&s, &server, &drift)

			var advised string
			for _, f := range doctor.Settings(&s, server, drift) {
				if f.Level != doctor.LevelOK {
					advised += f.Check
				}
			}
			require.Equal(t, check, advised)
		})
	}
}

func TestCommitsThatAreStuck(t *testing.T) {
	t.Parallel()

	server := regions.Server{CommitsWait: true, Synchronous: "eu", Standbys: []regions.Standby{{Name: "walreceiver", State: "async"}}}
	good := models.Surroundings{Version: 15, Fsync: "on", FullPageWrites: "on", SynchronousCommit: "on", MaxConnections: 100}

	found := map[string]doctor.Finding{}
	for _, f := range doctor.Settings(&good, server, 0) {
		found[f.Check] = f
	}

	require.Equal(t, doctor.LevelBroken, found["commits"].Level)
	require.Equal(t, "Commits wait for eu, and no standby of that name follows (walreceiver does): no write succeeds.", found["commits"].Found)
	require.Contains(t, found["commits"].Fix, "ALTER SYSTEM RESET synchronous_standby_names")
	require.Equal(t, doctor.LevelOK, found["standby"].Level, "to name it was the mistake")
}

func TestDrift(t *testing.T) {
	t.Parallel()

	before := time.Now()
	after := before.Add(10 * time.Second) // a slow answer is not drift

	require.Zero(t, doctor.Drift(before.Add(time.Second), before, after))
	require.Equal(t, time.Minute, doctor.Drift(before.Add(-time.Minute), before, after))
	require.Equal(t, time.Minute, doctor.Drift(after.Add(time.Minute), before, after))
}

func TestDoctorPage(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/operators/doctor.md")
	require.NoError(t, err)

	t.Run("NamesEveryCheck", func(t *testing.T) {
		t.Parallel()

		all, _ := newWard(t).examine(t, doctor.Checkup{})

		require.Greater(t, len(all), len(models.Invariants))
		for check := range all {
			require.Contains(t, string(page), "`"+check+"`")
		}
		for _, which := range models.Invariants {
			require.Contains(t, all, string(which))
		}
	})

	for check, harm := range map[string]string{
		"account-counters": "UPDATE accounts SET queued = 7, running = 7",
		"lane-counters":    "UPDATE account_lanes SET queued = 0",
		"capped-line":      "UPDATE account_lanes SET capped = true",
	} {
		t.Run("Mends "+check, func(t *testing.T) {
			t.Parallel()

			w := newWard(t)
			w.Exec(t, harm)
			_, statement, ok := strings.Cut(string(page), "### "+check+"\n\n```sql\n")
			require.True(t, ok)
			statement, _, _ = strings.Cut(statement, "```")

			_, err := w.DB.ExecContext(t.Context(), statement)

			require.NoError(t, err)
			w.requireFound(t, doctor.Checkup{})
		})
	}
}

func TestBoots(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	require.Equal(t, doctor.LevelOK, doctor.Boots(nil, now).Level)
	f := doctor.Boots([]capacity.NotBootingPool{{Name: "ltx", Failures: 3, Failure: "no route to host.", BootRetryAt: now.Add(time.Minute)}},
		now)

	require.Equal(t, doctor.LevelAdvice, f.Level)
	require.Equal(t, "3 machines of the pool ltx in a row did not (no route to host); next attempt at 2 Jan 03:05:05 UTC.", f.Found)
	require.Contains(t, f.Fix, "reelay pools resume NAME")
}
