package query_test

import (
	"testing"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestProviderWait(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	known := s.Submitter.Catalogue.Current()
	card, err := known.Model("testcard")
	require.NoError(t, err)
	hosted := *card
	hosted.Runtime = "runway"
	s.Submitter.Catalogue.Replace(catalogue.New(&hosted))
	_, err = s.Pools.Create(t.Context(), s.Admin, capacity.PoolSpec{Name: "runway", Provider: engine.Provider, EngineKind: "runway",
		Engines: []string{"https://api.dev.runwayml.com"}, Models: []string{"testcard"}})
	require.NoError(t, err)
	job := s.Submit(t)
	s.Submit(t)
	queue := backlog.QueueCount{Lane: job.Lane, Model: "testcard", Depth: 2}
	wait := func() *query.ProviderWait {
		t.Helper()
		all, err := s.Reads.Queues.Capacities(t.Context(), []backlog.QueueCount{queue, {Lane: job.Lane}, {Lane: models.TierFree, Model: "gone"}})
		require.NoError(t, err)
		require.Nil(t, all[0].ProviderWait(0), "nothing waits")
		require.Nil(t, all[1].ProviderWait(2), "a whole lane has no reason")
		require.Nil(t, all[2].ProviderWait(2))
		return all[0].ProviderWait(queue.Depth)
	}

	require.Nil(t, wait(), "a slot is free")
	require.NotContains(t, codes(waitingFor(t, s, job.ID)), query.WaitProviderSlot)

	for state, code := range map[string]query.WaitingCode{
		"concurrent = 0": query.WaitProviderSlot,
		"paused_until = clock_timestamp() + interval '1 hour', reason = 'slow down'": query.WaitProviderAway,
	} {
		s.Exec(t, "UPDATE provider_accounts SET "+state)
		found := wait()
		require.NotNil(t, found, state)
		require.Equal(t, 2, found.Jobs)
		require.Equal(t, code, found.Code)
		require.Equal(t, code == query.WaitProviderSlot, found.ForSlot())
		require.Contains(t, waitingFor(t, s, job.ID), found.WaitingReason, "each job says the same")
		s.Exec(t, "UPDATE provider_accounts SET concurrent = 5, paused_until = NULL")
	}
}
