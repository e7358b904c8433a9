package metadata

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Not parallel: the environment is that of a job.
func TestSlurm(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(now time.Time) string
		told time.Duration // after the start; 0 for never
	}{
		"before the end":     {func(now time.Time) string { return fmt.Sprint(now.Add(time.Hour).Unix()) }, time.Hour - 2*time.Minute},
		"at once":            {func(now time.Time) string { return fmt.Sprint(now.Add(time.Minute).Unix()) }, time.Nanosecond},
		"outside of Slurm":   {func(time.Time) string { return "" }, 0},
		"the past":           {func(now time.Time) string { return fmt.Sprint(now.Add(-time.Minute).Unix()) }, 0},
		"no limit":           {func(time.Time) string { return "4294967295" }, 0},
		"no number":          {func(time.Time) string { return "UNLIMITED" }, 0},
		"more than a number": {func(time.Time) string { return "99999999999999999999" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				text := c.end(began)
				t.Setenv(slurmEnd, text)
				var log strings.Builder
				w := Watcher{Notice: 2 * time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))}
				ctx, cancel := context.WithTimeout(t.Context(), 100*24*time.Hour)
				defer cancel()
				var told []Notice
				after := time.Duration(0)

				w.watchSlurm(ctx, func(n Notice) { told, after = append(told, n), time.Since(began) })

				require.Equal(t, name == "at once", strings.Contains(log.String(), "this worker leaves at once"), log.String())
				if c.told == 0 {
					require.Empty(t, told)
					return
				}
				require.Len(t, told, 1)
				require.Equal(t, text, fmt.Sprint(told[0].Deadline.Unix()))
				require.InDelta(t, c.told, after, float64(time.Millisecond))
			})
		})
	}
}

func TestSlurmBesideACloud(t *testing.T) {
	c := newCloud(t)
	t.Setenv(slurmEnd, fmt.Sprint(time.Now().Add(20*time.Second).Unix()))
	notices, _ := c.watch(GCE) // its Notice is longer

	require.Equal(t, "the time of this Slurm job is over", (<-notices).Reason)
	c.set(preemptedPath, "TRUE")
	require.Equal(t, "Compute Engine preempts this machine", (<-notices).Reason)
}
