package fleet_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// onGCE returns a stack with a pool of two machines in two zones of Compute Engine. A create
// waits that long for its operations.
func onGCE(t *testing.T, wait time.Duration) (*jobstest.Stack, *fleet.Scaler, *fakegce.Server, *capacity.Pool) {
	t.Helper()
	s := jobstest.New(t)
	server := fakegce.Start("us-central1-a", "us-central1-b")
	t.Cleanup(server.Close)
	key, _ := secrets.New(secrets.KeyPrefix)
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(key), 0o600))
	provider := gce.New(gce.Config{
		APIEndpoint: server.URL, Retry: time.Millisecond, Wait: wait,
		Enrolment: fleet.Enrolment{Endpoint: "https://reelay.example", KeyFile: file},
	})
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: "ltx", Provider: gce.Name, Region: "us-central1", Zones: []string{"us-central1-a", "us-central1-b"}, GPUType: "L4",
		MachineType:   "g2-standard-4",
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MinWorkers: 2, MaxWorkers: 2, IdleSeconds: new(60),
		Settings: []byte(`{"project": "` + fakegce.Project + `", "image": "projects/test-project/global/images/i", "container": "c"}`),
	}}
	require.NoError(t, gce.CheckPool(pool))
	require.NoError(t, capacity.InsertPool(t.Context(), s.DB, pool))
	return s, &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{gce.Name: provider}}, server, pool
}

func TestScaleOnGCE(t *testing.T) {
	t.Parallel()

	t.Run("ReplacesWhatWasPreempted", func(t *testing.T) {
		t.Parallel()
		s, scaler, server, pool := onGCE(t, 10*time.Second)
		server.Limit("us-central1-a", 1)
		require.NoError(t, scaler.Scale(t.Context()))
		require.Len(t, server.Instances(), 2)
		require.Equal(t, 2, poolStatus(t, s, pool).Booting)
		s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 minute'")

		server.Preempt("us-central1-a", server.Instances()[0].Name)
		require.NoError(t, scaler.Scale(t.Context()))

		require.Equal(t, 1, ended(t, s))
		require.Len(t, server.Instances(), 2)
	})

	t.Run("DeletesAMachineThatStoppedByItself", func(t *testing.T) {
		t.Parallel()
		s, scaler, server, pool := onGCE(t, 10*time.Second)
		require.NoError(t, scaler.Scale(t.Context()))
		s.Exec(t, "UPDATE pools SET min_workers = 0")
		name := server.Instances()[0].Name
		register(t, s, pool, name)
		s.Exec(t, "UPDATE workers SET status = 'TERMINATED', token_hash = NULL, ended_at = clock_timestamp() WHERE provider_instance_id = ?", name)
		server.SetStatus("us-central1-a", name, "TERMINATED", "")
		server.SetStatus("us-central1-b", name, "TERMINATED", "")

		for range 3 {
			require.NoError(t, scaler.Scale(t.Context()))
		}

		for _, i := range server.Instances() {
			require.NotEqual(t, name, i.Name, "it would keep its disk")
		}
		require.Equal(t, 1, poolStatus(t, s, pool).PaidWorkers)
	})

	t.Run("DeletesTheSecondMachineOfAName", func(t *testing.T) {
		t.Parallel()
		s, scaler, server, pool := onGCE(t, 10*time.Second)
		server.Limit("us-central1-a", 0) // the older one is in the zone that is listed last
		require.NoError(t, scaler.Scale(t.Context()))
		name := server.Instances()[0].Name
		server.Double("us-central1-b", name, "us-central1-a")
		s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 minute'")

		require.NoError(t, scaler.Scale(t.Context()))

		require.Zero(t, ended(t, s))
		require.Equal(t, 2, poolStatus(t, s, pool).Booting)
		for _, i := range server.Instances() {
			require.Equal(t, "us-central1-b", filepath.Base(i.Zone))
		}
		require.Len(t, server.Instances(), 2)
	})

	t.Run("KeepsTheWorkersOfAZoneThatCannotBeReached", func(t *testing.T) {
		t.Parallel()
		s, scaler, server, _ := onGCE(t, 10*time.Second)
		require.NoError(t, scaler.Scale(t.Context()))
		s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 minute'")
		server.Unreachable("us-central1-a", true)

		require.ErrorContains(t, scaler.Scale(t.Context()), "zone us-central1-a cannot be reached")

		require.Zero(t, ended(t, s))
		require.Len(t, server.Instances(), 2)
	})

	t.Run("EndsTheWorkersWhoseCreationFailsLater", func(t *testing.T) {
		t.Parallel()
		s, scaler, server, pool := onGCE(t, time.Second)
		server.Hold()
		server.Inject(fakegce.QuotaExceeded())
		require.NoError(t, scaler.Scale(t.Context()))
		require.Equal(t, 2, poolStatus(t, s, pool).Booting)
		s.Exec(t, "UPDATE pools SET min_workers = 0")
		s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 minute'")

		server.Finish()
		require.NoError(t, scaler.Scale(t.Context()))

		require.Equal(t, 2, ended(t, s))
		require.Empty(t, server.Instances())
	})
}
