package fleet_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// offering registers a worker on a GPU of a type that offers models.
func offering(t *testing.T, s *jobstest.Stack, gpuType string, names ...string) (jobs.Principal, *models.Worker) {
	t.Helper()
	w, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: "static", ProviderInstanceID: gpuType, GPUCount: 1, Region: "r", GPUType: gpuType, CapacityClass: models.CapacitySpot,
		Models: names,
	})
	require.NoError(t, err)
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p, w
}

func leased(t *testing.T, s *jobstest.Stack, p jobs.Principal, warm ...string) *lease.Lease {
	t.Helper()
	lease, _, err := s.Leaser.Lease(t.Context(), p, lease.LeaseCall{WorkerID: p.WorkerID, Warm: warm})
	require.NoError(t, err)
	return lease
}

func TestOfferedModels(t *testing.T) {
	t.Parallel()

	t.Run("MustRunOnTheGPUType", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.SeedCatalogue(t)
		old, worker := offering(t, s, "Commodore 64", "ltx-video", "testcard", "coral", "no/name"[:2])
		job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Model, in.Prompt, in.Params = "ltx-video", "a fox", nil })

		require.Nil(t, leased(t, s, old))
		served, refused := s.Registry.Catalogue.Current().Split(worker.Offer)
		require.Equal(t, []string{"testcard"}, served)
		require.Equal(t, []catalogue.Refusal{
			{Model: "ltx-video", Reason: "it runs on L4, L40S, A100, H100, not on Commodore 64"},
			{Model: "coral", Reason: "it is not in the catalogue"}, {Model: "no", Reason: "it is not in the catalogue"},
		}, refused)
		status, err := s.Reads.Models.Get(t.Context(), s.Registry.Catalogue.Current(), "ltx-video", 0)
		require.NoError(t, err)
		require.False(t, status.Available)
		why, err := s.WaitingFor(t, job.ID)
		require.NoError(t, err)
		require.Equal(t, query.WaitNoPool, why[job.ID][0].Code)
		s.Submit(t)
		require.Equal(t, "testcard", leased(t, s, old).Job.Model)

		l4, _ := offering(t, s, "l4", "ltx-video")
		require.Equal(t, job.ID, leased(t, s, l4).Job.ID)
	})

	t.Run("AreNamesOfModels", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
			Provider: "static", ProviderInstanceID: "a", GPUCount: 1, Region: "r", GPUType: "any", CapacityClass: models.CapacitySpot,
			Models: []string{"a\x00b"},
		})
		var refused *apierror.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, []any{apierror.CodeInvalidInput, "models"}, []any{refused.Code, refused.Field})
	})

	t.Run("ComeBackWithTheCatalogue", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.SeedCatalogue(t)
		p, worker := offering(t, s, "any", "drill", "own")
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "drill", false))

		require.Nil(t, leased(t, s, p, "drill"), "it asks on, and holds the model in memory")
		served, refused := s.Registry.Catalogue.Current().Split(worker.Offer)
		require.Empty(t, served)
		require.Equal(t, "it was removed from the catalogue", refused[0].Reason)

		_, err := s.Registry.Restore(t.Context(), s.Admin, "drill")
		require.NoError(t, err)
		_, err = s.Registry.Apply(t.Context(), s.Admin, registry.Application{File: "own.yaml",
			Source: "models: [{name: own, type: x, gpuTypes: [any], timeoutSeconds: 9, gpuSecondsPerSecond: 1, params: {type: object}}]"})
		require.NoError(t, err)
		for _, name := range []string{"drill", "own"} {
			job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Model, in.Params = name, nil })
			granted := leased(t, s, p)
			require.Equal(t, job.ID, granted.Job.ID)
			_, err := s.Attempts.Fail(t.Context(), p, lease.Fence{AttemptID: granted.Attempt.ID, Token: granted.Attempt.FencingToken},
				lease.Failure{Class: models.FailContentPolicy})
			require.NoError(t, err)
		}
	})

	t.Run("BootNoMachinesThatCannotRunThem", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 0, 4)
		s.SeedCatalogue(t)
		s.Exec(t, "UPDATE pools SET gpu_type = 'T4', models = '{ltx-video}'")
		jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Model, in.Prompt, in.Params = "ltx-video", "a fox", nil })

		require.NoError(t, scaler.Scale(t.Context()))
		require.Zero(t, provider.Started)
		require.Contains(t, s.Pools.Warnings(poolStatus(t, s, pool).Pool),
			"The pool runs no jobs of ltx-video: it runs on L4, L40S, A100, H100, not on T4.")

		s.Exec(t, "UPDATE pools SET gpu_type = 'L4'")
		require.NoError(t, scaler.Scale(t.Context()))
		require.Equal(t, 1, provider.Started)
	})
}

func TestMachinesOnGCEThatNeverRegister(t *testing.T) {
	t.Parallel()
	s, scaler, _, pool := onGCE(t, 10*time.Second)
	for range 20 {
		require.NoError(t, scaler.Scale(t.Context()))
		s.Exec(t, "UPDATE workers SET created_at = created_at - interval '11 minutes', ended_at = ended_at - interval '11 minutes'")
	}

	status := poolStatus(t, s, pool)
	require.True(t, status.NotBooting())
	require.Contains(t, status.BootFailure, "its agent did not register within 10 min; the provider reports the machine as RUNNING")
	require.Equal(t, 4, ended(t, s), "two at a time, until the pause")
	e, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
	require.NoError(t, err)
	require.Contains(t, e.Reason, "4 machines in a row did not start")
}
