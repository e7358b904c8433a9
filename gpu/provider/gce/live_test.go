package gce_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestLive(t *testing.T) {
	t.Parallel()
	all := strings.Fields("list create find repeat find wait preempt delete register")

	for name, c := range map[string]struct {
		arrange func(*fakegce.Server, *capacity.Pool)
		steps   []string          // the first words of those that were done
		results map[string]string // of those that are not OK, by their first word
		says    string
	}{
		"AllIsWell": {func(*fakegce.Server, *capacity.Pool) {}, all, map[string]string{"register": gce.LiveUntested}, "ENDED and reclaimed"},
		"OnDemand": {func(_ *fakegce.Server, p *capacity.Pool) { p.CapacityClass = models.CapacityOnDemand }, all,
			map[string]string{"register": gce.LiveUntested, "preempt": gce.LiveUntested}, "the pool is not SPOT"},
		"SoldOut": {func(s *fakegce.Server, _ *capacity.Pool) {
			for _, zone := range []string{zoneA, zoneB, zoneC} {
				s.Limit(zone, 0)
			}
		}, []string{"list", "create", "clean"}, map[string]string{"create": gce.LiveUntested}, "STOCKOUT"},
		"Denied": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Inject(fakegce.Fault{Method: "instances.insert", Status: 403, Reason: "forbidden", Message: "compute.instances.create", Times: -1})
		}, []string{"list", "create", "clean"}, map[string]string{"create": gce.LiveWrong}, "compute.instances.create"},
		"AnOutage": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Inject(fakegce.Fault{Method: "instances.aggregatedList", Status: 503, Reason: "backendError", Times: -1})
		}, []string{"list"}, map[string]string{"list": gce.LiveWrong}, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _ := start(t)
			furnish(server)
			pool := newPool(t)
			c.arrange(server, pool)
			var told []gce.LiveStep

			report, err := lively(t, server, pool, func(s gce.LiveStep) { told = append(told, s) }).Run(t.Context())

			require.NoError(t, err)
			require.Equal(t, report.Steps, told)
			var steps []string
			results := map[string]string{}
			for _, s := range report.Steps {
				first, _, _ := strings.Cut(s.Step, " ")
				steps = append(steps, first)
				if s.Result != gce.LiveOK {
					results[first] = s.Result
				}
			}
			require.Equal(t, c.steps, steps, report.Steps)
			require.Equal(t, c.results, results, report.Steps)
			require.Contains(t, report.Markdown(), c.says)
			require.NotContains(t, report.Markdown(), enrolmentKey)
			require.Empty(t, server.Instances())
			require.Empty(t, report.Remaining)
		})
	}

	t.Run("DeletesTheMachineWhenInterrupted", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		furnish(server)
		ctx, cancel := context.WithCancel(t.Context())

		report, err := lively(t, server, newPool(t), func(s gce.LiveStep) {
			if strings.HasPrefix(s.Step, "find") {
				made := server.Instances()
				require.Len(t, made, 1)
				require.Equal(t, int64(600), made[0].Scheduling.MaxRunDuration.Seconds, "Compute Engine deletes it by itself")
				cancel()
			}
		}).Run(ctx)

		require.NoError(t, err)
		require.False(t, report.Passed())
		require.Empty(t, report.Remaining)
		require.Empty(t, server.Instances())
	})

	t.Run("SaysWhatMayStillRun", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		furnish(server)
		server.Inject(fakegce.Fault{Method: "instances.delete", Status: 403, Reason: "forbidden", Message: "no", Times: -1})
		pool := newPool(t)
		pool.CapacityClass = models.CapacityOnDemand

		report, err := lively(t, server, pool, nil).Run(t.Context())

		require.NoError(t, err)
		require.False(t, report.Passed())
		require.Equal(t, report.Machine, report.Remaining)
		require.Contains(t, report.Markdown(), "gcloud compute instances delete "+report.Machine+" --project="+fakegce.Project+" --zone="+report.Zone)
	})

	t.Run("RefusesABadPool", func(t *testing.T) {
		t.Parallel()
		server, _ := start(t)
		pool := newPool(t)
		pool.Zones = nil

		_, err := lively(t, server, pool, nil).Run(t.Context())

		require.ErrorContains(t, err, "zones is empty")
		require.Empty(t, server.Instances())
	})
}

func lively(t *testing.T, server *fakegce.Server, pool *capacity.Pool, done func(gce.LiveStep)) gce.Live {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(enrolmentKey), 0o600))
	return gce.Live{
		Config: gce.Config{APIEndpoint: server.URL, Enrolment: fleet.Enrolment{Endpoint: "https://reelay.invalid", KeyFile: key},
			CallTimeout: 10 * time.Second, Retry: time.Millisecond},
		Pool: pool.PoolSpec, Wait: 5 * time.Second, Poll: 20 * time.Millisecond, Done: done,
	}
}
