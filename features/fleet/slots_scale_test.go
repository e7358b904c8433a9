package fleet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

func TestMachineOfSeveralWorkers(t *testing.T) {
	t.Parallel()

	s, scaler, provider, pool := scaled(t, 4, 4)
	_, err := s.DB.NewUpdate().Model(pool).Set("workers_per_machine = 2").WherePK().Exec(t.Context())
	require.NoError(t, err)
	provider.Refuse = fleet.Refuse(fleet.Stockout, "none left")
	require.Error(t, scaler.Scale(t.Context()))
	require.Zero(t, poolStatus(t, s, pool).Booting, "both workers of a machine that was refused are over")
	_, err = s.DB.NewUpdate().Model(pool).Set("backoff_until = NULL, grow_by = 0").WherePK().Exec(t.Context())
	require.NoError(t, err)
	provider.Refuse = nil

	require.NoError(t, scaler.Scale(t.Context()))

	require.Equal(t, 2, provider.Started, "a machine runs two")
	machine, spare := provider.Running[0], provider.Running[1]
	for slot := range 2 {
		_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
			Provider: "fake", ProviderInstanceID: machine, Slot: slot, GPUCount: 1, PoolID: pool.ID, Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
		})
		require.NoError(t, err)
	}
	workers, err := models.ListMachineWorkers(t.Context(), s.DB, "fake", machine)
	require.NoError(t, err)
	require.Len(t, workers, 2)
	s.Fleet.Providers["fake"] = provider
	others, err := models.ListMachineWorkers(t.Context(), s.DB, "fake", spare)
	require.NoError(t, err)
	for i, w := range others {
		if i == len(others)-1 {
			s.Fleet.Providers["fake"] = cannotDelete{provider}
			_, err = s.Fleet.TerminateWorker(t.Context(), s.Admin, w.ID)
			jobstest.RequireCode(t, err, apierror.CodeConflict)
			require.ErrorContains(t, err, "its provider fake could not end its machine: no credentials.")
			s.Fleet.Providers["fake"] = provider
		}
		require.Contains(t, provider.Running, spare, "the machine stays until its last worker ends")
		_, err = s.Fleet.TerminateWorker(t.Context(), s.Admin, w.ID)
		require.NoError(t, err, i)
	}
	require.NotContains(t, provider.Running, spare)
	_, err = s.Fleet.PreemptWorker(t.Context(), s.Admin, workers[0].ID, time.Minute)
	require.NoError(t, err)
	workers, err = models.ListMachineWorkers(t.Context(), s.DB, "fake", machine)
	require.NoError(t, err)
	require.Equal(t, models.WorkerDraining, workers[1].Status, "the other worker loses its machine, too")
	require.Equal(t, workers[0].DrainDeadline, workers[1].DrainDeadline)
}

// cannotDelete is a provider that lists machines and deletes none.
type cannotDelete struct{ *jobstest.FakeProvider }

// Delete implements [fleet.Provider].
func (cannotDelete) Delete(_ context.Context, _ *capacity.Pool, instances []fleet.Instance) map[string]error {
	return lo.SliceToMap(instances, func(i fleet.Instance) (string, error) { return i.ID, errors.New("no credentials") })
}
