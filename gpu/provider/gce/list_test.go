package gce_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func list(t *testing.T, provider *gce.Provider, pool *capacity.Pool) []fleet.Instance {
	t.Helper()
	all, err := provider.List(t.Context(), pool)
	require.NoError(t, err)
	for i := range all {
		if all[i].State != fleet.InstanceEnded {
			assert.NotZero(t, all[i].CreatedAt)
		}
		all[i].CreatedAt, all[i].EndedAt = time.Time{}, time.Time{}
	}
	return all
}

func TestList(t *testing.T) {
	t.Parallel()

	t.Run("ReadsAllPages", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)
		var ids []string
		for n := range 7 {
			ids = append(ids, fmt.Sprintf("video-%d", n))
		}
		provider.Create(t.Context(), pool, "batch", ids)
		provider.Create(t.Context(), newPool(t), "other", []string{"video-9"})
		server.PageSize(3)

		all := list(t, provider, pool)

		require.Len(t, all, 7)
		require.Equal(t, fleet.Instance{ID: "video-0", Zone: zoneA, State: fleet.InstanceRunning}, all[0])
	})

	t.Run("TranslatesStates", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)
		provider.Create(t.Context(), pool, "batch", []string{"video-1"})
		for status, state := range map[string]fleet.InstanceState{
			"PROVISIONING": fleet.InstanceBooting, "STAGING": fleet.InstanceBooting, "RUNNING": fleet.InstanceRunning,
			"REPAIRING": fleet.InstanceRunning,
			"STOPPING":  fleet.InstanceEnding, "SUSPENDING": fleet.InstanceEnding, "STOPPED": fleet.InstanceEnded, "SUSPENDED": fleet.InstanceEnded,
			"TERMINATED": fleet.InstanceEnded, "SOMETHING_NEW": fleet.InstanceRunning,
		} {
			server.SetStatus(zoneA, "video-1", status, "")

			found := list(t, provider, pool)[0]
			require.Equal(t, state, found.State, status)
			require.False(t, found.Reclaimed)
		}
		server.SetStatus(zoneA, "video-1", "TERMINATED", "Instance was preempted.")
		require.True(t, list(t, provider, pool)[0].Reclaimed)
	})

	t.Run("TellsWhatWasReclaimed", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool, other := newPool(t), newPool(t)
		other.Name = "other"
		provider.Create(t.Context(), pool, "batch", []string{"video-1", "video-2"})
		server.Preempt(zoneA, "video-1")

		require.Equal(t, []fleet.Instance{
			{ID: "video-1", Zone: zoneA, State: fleet.InstanceEnded, Reclaimed: true},
			{ID: "video-2", Zone: zoneA, State: fleet.InstanceRunning},
		}, list(t, provider, pool))
		require.Empty(t, list(t, provider, other))
		all, err := provider.List(t.Context(), pool)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), all[0].EndedAt, time.Minute)
	})

	t.Run("ListsTheOneThatLivesFirst", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)
		provider.Create(t.Context(), pool, "batch", []string{"video-1"})
		server.Double(zoneA, "video-1", zoneB)
		running := func(zone string) fleet.Instance {
			return fleet.Instance{ID: "video-1", Zone: zone, State: fleet.InstanceRunning}
		}

		require.Equal(t, []fleet.Instance{running(zoneA), running(zoneB)}, list(t, provider, pool))
		server.SetStatus(zoneA, "video-1", "TERMINATED", "")
		require.Equal(t, []fleet.Instance{running(zoneB), {ID: "video-1", Zone: zoneA, State: fleet.InstanceEnded}}, list(t, provider, pool))
	})

	t.Run("DoesNotNeedToReadOperations", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)
		provider.Create(t.Context(), pool, "batch", []string{"video-1"})
		server.Inject(fakegce.Fault{Method: "operations.aggregatedList", Status: 403, Reason: "forbidden"})

		require.Len(t, list(t, provider, pool), 1)
	})

	t.Run("DoesNotTakeAnUnreachableZoneForEmpty", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)
		provider.Create(t.Context(), pool, "batch", []string{"video-1"})
		server.Unreachable(zoneA, true)

		_, err := provider.List(t.Context(), pool)
		require.ErrorContains(t, err, zoneA)
		require.Equal(t, fleet.Transient, fleet.ClassOf(err))

		server.Unreachable(zoneA, false)
		server.Unreachable("europe-west4-a", true) // not of the pool's region
		require.Len(t, list(t, provider, pool), 1)
	})

	t.Run("FailsIfComputeEngineDoes", func(t *testing.T) {
		t.Parallel()
		for method, fault := range map[string]fakegce.Fault{
			"instances.aggregatedList":  {Status: 503, Reason: "backendError", Times: -1},
			"operations.aggregatedList": {Status: 500, Reason: "internalError", Times: -1},
		} {
			server, provider := start(t)
			fault.Method = method
			server.Inject(fault)

			_, err := provider.List(t.Context(), newPool(t))

			require.Error(t, err)
			require.Equal(t, fleet.Transient, fleet.ClassOf(err))
		}
	})
}

func TestLateFailure(t *testing.T) {
	t.Parallel()

	server, provider := start(t, short)
	server.Hold()
	server.Inject(fakegce.Stockout(zoneA, zoneB))
	pool := newPool(t)

	require.Equal(t, []fleet.Created{{ID: "video-1", Zone: zoneA}}, provider.Create(t.Context(), pool, "batch", []string{"video-1"}))
	for _, hidden := range []bool{false, true} {
		server.HideNew(hidden)
		require.Equal(t, []fleet.Instance{{ID: "video-1", Zone: zoneA, State: fleet.InstanceBooting}}, list(t, provider, pool))
	}

	server.Finish()
	all := list(t, provider, pool)
	require.Len(t, all, 1)
	require.Equal(t, fleet.InstanceEnded, all[0].State)
	require.Equal(t, fleet.Stockout, fleet.ClassOf(all[0].Err))
	require.ErrorContains(t, all[0].Err, "does not have enough resources")
}

func TestDelete(t *testing.T) {
	t.Parallel()

	t.Run("IsHarmlessToRepeat", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)
		provider.Create(t.Context(), pool, "batch", []string{"video-1", "video-2", "video-3"})
		gone := []fleet.Instance{{ID: "video-1", Zone: zoneA}, {ID: "video-2"}, {ID: "video-7"}, {ID: "video-8", Zone: zoneB}}

		require.Empty(t, provider.Delete(t.Context(), pool, gone))
		require.Empty(t, provider.Delete(t.Context(), pool, gone))

		require.Equal(t, []string{zoneA + "/video-3"}, places(server))
	})

	t.Run("RepeatsALostCall", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)
		provider.Create(t.Context(), pool, "batch", []string{"video-1"})
		server.Inject(fakegce.Fault{Method: "instances.delete", Lost: true})

		require.Empty(t, provider.Delete(t.Context(), pool, []fleet.Instance{{ID: "video-1", Zone: zoneA}}))

		require.Empty(t, server.Instances())
		calls := server.Calls("instances.delete")
		require.Len(t, calls, 2)
		require.NotEmpty(t, calls[0].Query["requestId"])
		require.Equal(t, calls[0].Query["requestId"], calls[1].Query["requestId"])
	})

	t.Run("SaysWhatItCouldNotDelete", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)
		provider.Create(t.Context(), pool, "batch", []string{"video-1", "video-2"})
		server.Inject(fakegce.Fault{Method: "instances.delete", Status: 403, Reason: "forbidden"})

		failed := provider.Delete(t.Context(), pool, list(t, provider, pool))

		require.Len(t, failed, 1)
		require.Len(t, server.Instances(), 1)
	})
}
