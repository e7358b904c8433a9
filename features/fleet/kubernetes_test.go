package fleet_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/gpu/provider/kubernetes/fakekube"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// onKubernetes returns a stack with a pool of two pods, which have been asked for a minute ago.
func onKubernetes(t *testing.T) (*jobstest.Stack, *fleet.Scaler, *fakekube.Server, *capacity.Pool) {
	t.Helper()
	s := jobstest.New(t)
	server := fakekube.Start(t)
	server.SetTemplate("agent", `{"spec": {"containers": [{"name": "agent", "image": "i", "envFrom": [{"secretRef": {"name": "key"}}]}]}}`)
	provider := kubernetes.New(kubernetes.Config{URL: server.URL, TokenFile: server.TokenFile, CAFile: server.CAFile,
		Namespace: fakekube.Namespace, Endpoint: "https://reelay.example", Retry: time.Millisecond})
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: "pods", Provider: kubernetes.Name, Region: "eu-1", GPUType: "L4", CapacityClass: models.CapacitySpot,
		Models: []string{"testcard"}, MinWorkers: 2, MaxWorkers: 2, IdleSeconds: new(60), Settings: []byte(`{"template": "agent"}`),
	}}
	require.NoError(t, capacity.InsertPool(t.Context(), s.DB, pool))
	scaler := &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{kubernetes.Name: provider}}
	require.NoError(t, scaler.Scale(t.Context()))
	require.Len(t, server.Pods(), 2)
	s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 minute'")
	return s, scaler, server, pool
}

func firstPod(server *fakekube.Server) string {
	name := ""
	for one := range server.Pods() {
		if name == "" || one < name {
			name = one
		}
	}
	return name
}

func TestScaleOnKubernetes(t *testing.T) {
	t.Parallel()

	t.Run("PausesAPoolThatNoNodeHasRoomFor", func(t *testing.T) {
		t.Parallel()
		s, scaler, server, pool := onKubernetes(t)
		for name := range server.Pods() {
			server.Condition(name, "PodScheduled", "False", "Unschedulable", "0/3 nodes are available.", 2*time.Minute)
		}

		require.NoError(t, scaler.Scale(t.Context()))

		status := poolStatus(t, s, pool)
		require.Equal(t, 1, status.Refusals)
		require.Equal(t, "STOCKOUT", status.BackoffClass)
		require.Contains(t, status.BackoffReason, "0/3 nodes are available.")
		require.Zero(t, status.BootFailures)
		require.Equal(t, 2, ended(t, s))
		require.Empty(t, server.Pods())
	})

	t.Run("ReplacesAPodThatWasEvictedWhileItBooted", func(t *testing.T) {
		t.Parallel()
		s, scaler, server, pool := onKubernetes(t)
		name := firstPod(server)
		require.NoError(t, scaler.Scale(t.Context()))
		server.Condition(name, "DisruptionTarget", "True", "DeletionByTaintManager", "", 0)
		server.Kill(name)

		for range 2 {
			s.Exec(t, "UPDATE workers SET created_at = created_at - interval '10 minutes' WHERE provider_instance_id = ?", name)
			age(t, s, scaler, 30*time.Second)
			require.NoError(t, scaler.Scale(t.Context()))
		}

		require.Zero(t, poolStatus(t, s, pool).BootFailures, "the cluster took it away")
		require.Equal(t, 1, ended(t, s))
		require.Len(t, server.Pods(), 2)
		require.NotContains(t, server.Pods(), name)
	})

	t.Run("SaysWhyAPodDidNotStart", func(t *testing.T) {
		t.Parallel()
		s, scaler, server, pool := onKubernetes(t)
		s.Exec(t, `UPDATE pools SET settings = '{"template": "agent", "scheduleSeconds": 0}'`)
		server.Condition(firstPod(server), "PodScheduled", "False", "Unschedulable", "0/3 nodes are available.", time.Hour)
		s.Exec(t, "UPDATE workers SET created_at = created_at - interval '1 hour' WHERE provider_instance_id = ?", firstPod(server))

		require.NoError(t, scaler.Scale(t.Context()))

		status := poolStatus(t, s, pool)
		require.Equal(t, 1, status.BootFailures)
		require.Contains(t, status.BootFailure, "the provider reports the machine as BOOTING: Unschedulable: 0/3 nodes are available.")
	})
}
