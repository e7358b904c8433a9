package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	cluster "github.com/reelay/reelay/e2e/kubernetes"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// onKubernetes starts Reelay beside a real API server, with a pool of pods that are agents on this machine.
func onKubernetes(t *testing.T, workers int) (*stack, *cluster.Cluster, *cluster.Node) {
	t.Helper()
	c := cluster.Start(t)
	c.ApplyPage("../docs/operators/kubernetes.md")
	token := filepath.Join(t.TempDir(), "token")
	c.Token(token, "reelay-control", time.Hour)
	s, err := launchWith([]string{"REELAY_KUBERNETES_URL=" + c.URL, "REELAY_KUBERNETES_TOKEN_FILE=" + token,
		"REELAY_KUBERNETES_CA_FILE=" + c.CAFile, "REELAY_KUBERNETES_NAMESPACE=" + cluster.Namespace}, dataDir(t), "--agents", "0")
	require.NoError(t, err)
	s.endWith(t)
	c.Must("POST", c.Path("secrets"), cluster.Object{"metadata": cluster.Object{"name": "reelay-worker"},
		"stringData": cluster.Object{"REELAY_API_KEY": s.keys.WorkerKey}})
	c.Must("POST", c.Path("podtemplates"), cluster.Object{"metadata": cluster.Object{"name": "testcard"}, "template": cluster.Object{
		"spec": cluster.Object{"terminationGracePeriodSeconds": 60, "automountServiceAccountToken": false, "containers": []cluster.Object{{
			"name": "agent", "image": "registry.example/agent:1", "env": []cluster.Object{{"name": "REELAY_ENDPOINT", "value": s.keys.Endpoint}},
			"envFrom": []cluster.Object{{"secretRef": cluster.Object{"name": "reelay-worker"}}}}}}}})
	node := c.StartNode(t, reelay, "agent")
	s.ask(t.Context(), t, s.keys.OperatorKey, `mutation ($source: String!) { applyPools(input: {source: $source}) { kind } }`,
		map[string]any{"source": `pools: [{name: pods, provider: kubernetes, region: local, gpuType: none, models: [testcard], maxWorkers: ` +
			strconv.Itoa(workers) + `, scaleDownCooldownSeconds: 2, settings: {template: testcard}}]`}, &struct{}{})
	return s, c, node
}

// evict evicts a pod, as `kubectl drain` does.
func evict(t *testing.T, c *cluster.Cluster, pod string) {
	t.Helper()
	status, answer := c.Do("POST", c.Path("pods", pod, "eviction"), cluster.Object{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": cluster.Object{"name": pod}})
	require.Contains(t, []int{201, 404}, status, answer)
}

// uncharged checks that no attempt but the last one of a job ended in another way than by handing it over.
func uncharged(t *testing.T, c *client.Client, id string) (attempts int) {
	t.Helper()
	history, err := c.JobHistory(t.Context(), id)
	require.NoError(t, err)
	for _, a := range history.Attempts[:len(history.Attempts)-1] {
		require.Equal(t, client.AttemptStatusReleased, a.Status)
	}
	return len(history.Attempts)
}

// TestKubernetesPods follows a job to a pod and to its end, while a node is drained.
func TestKubernetesPods(t *testing.T) {
	t.Parallel()
	s, c, node := onKubernetes(t, 2)
	api := s.client(t)

	submitted := time.Now()
	job := submit(t, api, "a pod", 4, 3)
	running := until(t, api, job, func(job *client.Job) bool { return job.Status == client.JobStatusRunning })
	leased := time.Since(submitted)
	first := node.Names()
	require.Len(t, first, 1)
	asked := node.SeenAt(first[0]).Sub(submitted)
	t.Logf("%d ms from the submit to the pod, %d ms to the running job", asked.Milliseconds(), leased.Milliseconds())
	require.Less(t, asked, 3*time.Second)
	require.Equal(t, 1, running.AttemptNo)

	described, err := json.Marshal(c.Must("GET", c.Path("pods", first[0]), nil))
	require.NoError(t, err)
	require.NotContains(t, string(described), s.keys.WorkerKey, "who may see pods may not see the key")
	until(t, api, job, beyond(20, 1))
	evict(t, c, first[0])

	done := until(t, api, job, completed)
	require.Equal(t, 2, done.AttemptNo)
	require.Equal(t, 2, uncharged(t, api, job))
	testrun.Eventually(t, "the idle pods are drained and deleted", func() bool {
		return node.Count() == 0 && len(c.Must("GET", c.Path("pods"), nil)["items"].([]any)) == 0
	})
}

// TestKubernetesDrain drains all nodes of a fleet under load, one pod after the other: no job is lost, and none is charged an
// attempt. REELAY_SOAK_PODS is the number of pods, 4 if it is not set.
func TestKubernetesDrain(t *testing.T) {
	t.Parallel()
	pods := 4
	if n, err := strconv.Atoi(os.Getenv("REELAY_SOAK_PODS")); err == nil {
		pods = n
	}
	s, c, node := onKubernetes(t, pods)
	api := s.client(t)
	var jobs []string
	for range 2 * pods {
		jobs = append(jobs, submit(t, api, "one of many", 2, 4+float64(pods)/4))
	}
	for _, job := range jobs[:pods] {
		until(t, api, job, beyond(1, 1))
	}
	before := node.Names()
	require.Len(t, before, pods)

	for _, pod := range before {
		evict(t, c, pod)
		testrun.Eventually(t, "the pod has left", func() bool { return !node.Runs(pod) })
	}

	attempts := 0
	for _, job := range jobs {
		until(t, api, job, completed)
		attempts += uncharged(t, api, job)
	}
	require.Greater(t, attempts, len(jobs), "no job was interrupted")
	t.Logf("%d pods drained, %d jobs completed in %d attempts", len(before), len(jobs), attempts)
}
