package kubernetes_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/gpu/provider/kubernetes/fakekube"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// template is what the administrator of a cluster writes.
const template = `{
	"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "video", "reelay-pool": "chosen"}, "annotations": {"a": "b"}},
	"spec": {
		"restartPolicy": "Always", "terminationGracePeriodSeconds": 90, "priorityClassName": "spot", "runtimeClassName": "nvidia",
		"nodeSelector": {"gpu": "l4"}, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
		"volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": "weights", "readOnly": true}}],
		"containers": [
			{"name": "logs", "image": "registry.example/logs:1"},
			{"name": "agent", "image": "registry.example/agent:1", "args": ["--health", ":8081"],
			 "resources": {"limits": {"nvidia.com/gpu": 1}},
			 "env": [{"name": "REELAY_AGENT_RUNTIME", "value": "ltx=python3 /app/ltx.py"}, {"name": "REELAY_AGENT_POOL", "value": "chosen"},
			         {"name": "REELAY_API_KEY", "valueFrom": {"secretKeyRef": {"name": "reelay-worker", "key": "REELAY_API_KEY"}}}]}
		]
	}
}`

// cluster is a fake API server, with a provider and a pool on it.
type cluster struct {
	*fakekube.Server
	*kubernetes.Provider

	pool *capacity.Pool
}

// setup starts a cluster. Its times are short, but not so short that a busy machine meets them.
func setup(t *testing.T, edits ...func(*kubernetes.Config)) *cluster {
	t.Helper()
	server := fakekube.Start(t)
	server.SetTemplate("l4-agent", template)
	config := kubernetes.Config{
		URL: server.URL, TokenFile: server.TokenFile, CAFile: server.CAFile, Namespace: fakekube.Namespace, Cluster: "Production #1",
		Endpoint: "https://reelay.example", Retry: time.Millisecond,
		CreateLimit: time.Hour,
	}
	for _, edit := range edits {
		edit(&config)
	}
	return &cluster{server, kubernetes.New(config), newPool()}
}

func newPool() *capacity.Pool {
	return &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: "spot", Provider: kubernetes.Name, Region: "eu-1", GPUType: "L4", CapacityClass: models.CapacitySpot,
		Models: []string{"testcard", "a$(HOME)$$(KEY)$1"}, MaxWorkers: 4, Settings: json.RawMessage(`{"template": "l4-agent"}`),
	}}
}

// create creates one pod, and expects that it works.
func (c *cluster) create(t *testing.T, ids ...string) {
	t.Helper()
	for i, one := range c.Create(t.Context(), c.pool, "request", ids) {
		require.NoError(t, one.Err)
		require.Equal(t, ids[i], one.ID)
	}
}

// refused creates one pod, and returns why that did not work.
func (c *cluster) refused(t *testing.T, id string) (fleet.ErrorClass, string) {
	t.Helper()
	all := c.Create(t.Context(), c.pool, "request", []string{id})
	require.Len(t, all, 1)
	require.Error(t, all[0].Err)
	return fleet.ClassOf(all[0].Err), all[0].Err.Error()
}

// list lists the pods by id.
func (c *cluster) list(t *testing.T) map[string]fleet.Instance {
	t.Helper()
	all, err := c.List(t.Context(), c.pool)
	require.NoError(t, err)
	byID := map[string]fleet.Instance{}
	for _, i := range all {
		require.NotContains(t, byID, i.ID)
		byID[i.ID] = i
	}
	return byID
}

func (c *cluster) delete(t *testing.T, ids ...string) map[string]error {
	t.Helper()
	var all []fleet.Instance
	for _, id := range ids {
		all = append(all, fleet.Instance{ID: id})
	}
	return c.Delete(t.Context(), c.pool, all)
}
