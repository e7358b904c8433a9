package kubernetes_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	cluster "github.com/reelay/reelay/e2e/kubernetes"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// world is the provider on a real API server, with the rights and the template of the documentation.
type world struct {
	*cluster.Cluster
	*kubernetes.Provider

	t     *testing.T
	token string // its file
	pools int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Cluster: cluster.Start(t), t: t, token: filepath.Join(t.TempDir(), "token")}
	w.ApplyPage("../../docs/operators/kubernetes.md")
	w.Cluster.Token(w.token, "reelay-control", time.Hour)
	w.Provider = kubernetes.New(kubernetes.Config{
		URL: w.URL, TokenFile: w.token, CAFile: w.CAFile, Namespace: cluster.Namespace, Endpoint: "https://reelay.example",
	})
	return w
}

// pool returns a new pool of the template of the documentation.
func (w *world) pool() *capacity.Pool {
	w.pools++
	return &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: fmt.Sprintf("p%d", w.pools), Provider: kubernetes.Name, Region: "eu-1", GPUType: "L4", CapacityClass: models.CapacitySpot,
		Models: []string{"testcard"}, MaxWorkers: 4, Settings: []byte(`{"template": "l4-agent"}`),
	}}
}

func (w *world) create(pool *capacity.Pool, ids ...string) {
	w.t.Helper()
	for _, one := range w.Create(w.t.Context(), pool, "r", ids) {
		require.NoError(w.t, one.Err)
	}
}

func (w *world) list(pool *capacity.Pool) map[string]fleet.Instance {
	w.t.Helper()
	all, err := w.List(w.t.Context(), pool)
	require.NoError(w.t, err)
	byID := map[string]fleet.Instance{}
	for _, i := range all {
		byID[i.ID] = i
	}
	return byID
}

// ago is a time of a condition.
func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }

// TestProvider runs the provider on a real API server. What fakekube does is what happens here.
func TestProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	t.Run("LivesAndEnds", func(t *testing.T) {
		pool := w.pool()
		w.create(pool, pool.Name+"-a")
		id := pool.Name + "-a"
		w.create(pool, id) // again, after a lost answer
		pod := w.Must("GET", w.Path("pods", id), nil)
		require.Equal(t, "Never", pod["spec"].(cluster.Object)["restartPolicy"])
		require.Equal(t, fleet.InstanceBooting, w.list(pool)[id].State)
		require.WithinDuration(t, time.Now(), w.list(pool)[id].CreatedAt, time.Minute)
		w.Bind(id, "node-1")
		w.Status(id, cluster.Object{"phase": "Running"})
		require.Equal(t, fleet.InstanceRunning, w.list(pool)[id].State)

		require.Empty(t, w.Delete(t.Context(), pool, []fleet.Instance{{ID: id}, {ID: pool.Name + "-absent"}}))

		require.Equal(t, fleet.InstanceEnding, w.list(pool)[id].State)
		require.InDelta(t, 10, w.Must("GET", w.Path("pods", id), nil)["metadata"].(cluster.Object)["deletionGracePeriodSeconds"], 0)
		w.End(id)
		require.Empty(t, w.list(pool))
	})

	t.Run("HasTheRightsItNeeds", func(t *testing.T) {
		for _, f := range (&kubernetes.Examiner{Provider: w.Provider, Pools: []*capacity.Pool{w.pool()}}).Examine(t.Context()) {
			require.Equal(t, doctor.LevelOK, f.Level, f)
		}
		// And no others.
		stranger := kubernetes.New(kubernetes.Config{URL: w.URL, TokenFile: w.token, CAFile: w.CAFile, Namespace: "default",
			Endpoint: "https://r.example"})
		_, err := stranger.List(t.Context(), w.pool())
		require.Equal(t, fleet.Permission, fleet.ClassOf(err), err)
	})

	t.Run("Unschedulable", func(t *testing.T) {
		pool := w.pool()
		id := pool.Name + "-a"
		w.create(pool, id)
		said := "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
		condition := func(since time.Duration) {
			w.Status(id, cluster.Object{"conditions": []cluster.Object{{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
				"message": said, "lastTransitionTime": ago(since)}}})
		}
		condition(0)
		require.Equal(t, fleet.InstanceBooting, w.list(pool)[id].State)
		condition(2 * time.Minute)
		i := w.list(pool)[id]
		require.Equal(t, fleet.Stockout, fleet.ClassOf(i.Err))
		require.ErrorContains(t, i.Err, said)
		status, _ := w.Do("GET", w.Path("pods", id), nil)
		require.Equal(t, 404, status, "it is deleted at once")
		require.ErrorContains(t, w.list(pool)[id].Err, said)
	})

	t.Run("ImageCannotBePulled", func(t *testing.T) {
		pool := w.pool()
		id := pool.Name + "-a"
		w.create(pool, id)
		w.Bind(id, "node-1")
		w.Status(id, cluster.Object{"conditions": []cluster.Object{{"type": "PodScheduled", "status": "True",
			"lastTransitionTime": ago(2 * time.Minute)}},
			"containerStatuses": []cluster.Object{{"name": "agent", "image": "x", "imageID": "", "state": cluster.Object{"waiting": cluster.Object{
				"reason": "InvalidImageName", "message": "couldn't parse"}}}}})
		for range 2 {
			i := w.list(pool)[id]
			require.Equal(t, fleet.Invalid, fleet.ClassOf(i.Err))
			require.ErrorContains(t, i.Err, "the container agent does not start: InvalidImageName: couldn't parse")
			require.Equal(t, fleet.InstanceEnded, i.State)
		}
	})

	t.Run("Evicted", func(t *testing.T) {
		pool := w.pool()
		id, other := pool.Name+"-a", pool.Name+"-b"
		w.create(pool, id, other)
		for _, one := range []string{id, other} {
			w.Bind(one, "node-1")
			w.Status(one, cluster.Object{"phase": "Running"})
		}
		w.list(pool)
		// By the node: the pod stays, as failed.
		w.Status(id, cluster.Object{"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
			"conditions": []any{cluster.Object{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}}})
		// By the scaler's rehearsal, or a drain, and gone before the next list.
		require.NoError(t, w.Preempt(t.Context(), pool, fleet.Instance{ID: other}, 30*time.Second))
		pod := w.Must("GET", w.Path("pods", other), nil)["metadata"].(cluster.Object)
		require.InDelta(t, 30, pod["deletionGracePeriodSeconds"], 0)
		w.End(other)

		all := w.list(pool)

		require.Equal(t, fleet.InstanceEnded, all[id].State)
		require.True(t, all[id].Reclaimed)
		require.Equal(t, fleet.Instance{ID: other, State: fleet.InstanceEnded, Reclaimed: true}, all[other],
			"the events since the last list say so")
		w.list(pool)
		status, _ := w.Do("GET", w.Path("pods", id), nil)
		require.Equal(t, 404, status, "the scaler has heard of it")
		require.True(t, w.list(pool)[id].Reclaimed)
		require.ErrorIs(t, w.Preempt(t.Context(), pool, fleet.Instance{ID: id}, time.Second), fleet.ErrNoInstance)
	})

	t.Run("Quota", func(t *testing.T) {
		pool := w.pool()
		quota := cluster.Object{"metadata": cluster.Object{"name": "gpus"},
			"spec": cluster.Object{"hard": cluster.Object{"requests.nvidia.com/gpu": "0"}}}
		quota = w.Must("POST", w.Path("resourcequotas"), quota)
		// A controller does this in a cluster.
		quota["status"] = cluster.Object{"hard": cluster.Object{"requests.nvidia.com/gpu": "0"},
			"used": cluster.Object{"requests.nvidia.com/gpu": "0"}}
		w.Must("PUT", w.Path("resourcequotas", "gpus", "status"), quota)
		testrun.Eventually(t, "the quota is known", func() bool {
			err := w.Create(t.Context(), pool, "r", []string{pool.Name + "-a"})[0].Err
			if err == nil {
				w.End(pool.Name + "-a")
			}
			return err != nil
		})
		err := w.Create(t.Context(), pool, "r", []string{pool.Name + "-a"})[0].Err
		require.Equal(t, fleet.Quota, fleet.ClassOf(err), err)
		require.ErrorContains(t, err, "exceeded quota: gpus")
		found := (&kubernetes.Examiner{Provider: w.Provider, Pools: []*capacity.Pool{pool}}).Examine(t.Context())
		require.Equal(t, doctor.LevelBroken, found[len(found)-1].Level)
		require.Contains(t, found[len(found)-1].Found, "exceeded quota")
		w.Must("DELETE", w.Path("resourcequotas", "gpus"), nil)
		testrun.Eventually(t, "the quota is forgotten", func() bool {
			return w.Create(t.Context(), pool, "r", []string{pool.Name + "-b"})[0].Err == nil
		})
	})

	t.Run("Invalid", func(t *testing.T) {
		pool := w.pool()
		pool.Settings = []byte(`{"template": "absent"}`)
		err := w.Create(t.Context(), pool, "r", []string{pool.Name + "-a"})[0].Err
		require.Equal(t, fleet.Invalid, fleet.ClassOf(err), err)
		require.ErrorContains(t, err, "there is no PodTemplate absent")
		// A toleration that only a pod is checked for: the template names a priority class that is not there.
		template := w.Must("GET", w.Path("podtemplates", "l4-agent"), nil)
		template["metadata"] = cluster.Object{"name": "odd"}
		template["template"].(cluster.Object)["spec"].(cluster.Object)["priorityClassName"] = "absent"
		w.Must("POST", w.Path("podtemplates"), template)
		pool.Settings = []byte(`{"template": "odd"}`)
		err = w.Create(t.Context(), pool, "r", []string{pool.Name + "-a"})[0].Err
		require.Equal(t, fleet.Permission, fleet.ClassOf(err), err)
		require.ErrorContains(t, err, "no PriorityClass with name absent was found")
		// What the server itself finds invalid in a pod.
		pool.Settings = []byte(`{"template": "l4-agent"}`)
		err = w.Create(t.Context(), pool, "r", []string{"Not_A_Name"})[0].Err
		require.Equal(t, fleet.Invalid, fleet.ClassOf(err), err)
		require.ErrorContains(t, err, "422 Invalid")
	})

	t.Run("Adopted", func(t *testing.T) {
		pool := w.pool()
		id := pool.Name + "-a"
		w.create(pool, id)
		w.Bind(id, "node-1")
		w.list(pool)
		w.Must("PATCH", w.Path("pods", id), cluster.Object{"metadata": cluster.Object{"labels": cluster.Object{"reelay-pool": nil}}})

		require.Empty(t, w.list(pool))
		require.Empty(t, w.Delete(t.Context(), pool, []fleet.Instance{{ID: id}}))
		require.Nil(t, w.Must("GET", w.Path("pods", id), nil)["metadata"].(cluster.Object)["deletionTimestamp"])
		err := w.Create(t.Context(), pool, "r", []string{id})[0].Err
		require.Equal(t, fleet.Invalid, fleet.ClassOf(err), err)
	})
}

// TestServerRestarts kills the API server, makes etcd forget, and replaces the token.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pool := w.pool()
	id, other := pool.Name+"-a", pool.Name+"-b"
	w.create(pool, id, other)
	w.Bind(other, "node-1")
	w.list(pool)

	w.StopServer()
	_, err := w.List(t.Context(), pool)
	require.Equal(t, fleet.Transient, fleet.ClassOf(err), err)
	require.Equal(t, fleet.Transient, fleet.ClassOf(w.Create(t.Context(), pool, "r", []string{pool.Name + "-c"})[0].Err))
	require.Equal(t, fleet.Transient, fleet.ClassOf(w.Delete(t.Context(), pool, []fleet.Instance{{ID: id}})[id]))
	w.StartServer()
	testrun.Eventually(t, "the provider is served again", func() bool { _, err := w.List(t.Context(), pool); return err == nil })
	require.Len(t, w.list(pool), 2, "nothing is lost")

	// The cluster forgets the events since the last list: why a pod vanished is unknown.
	require.NoError(t, w.Preempt(t.Context(), pool, fleet.Instance{ID: other}, time.Second))
	w.End(other)
	w.StopServer()
	w.Compact()
	w.StartServer()
	testrun.Eventually(t, "the provider is served again", func() bool { _, err := w.List(t.Context(), pool); return err == nil })
	all := w.list(pool)
	require.NotContains(t, all, other)
	require.Contains(t, all, id)

	// A token that the account no longer has, and then a new one.
	w.Must("DELETE", w.Path("serviceaccounts", "reelay-control"), nil)
	w.Must("POST", w.Path("serviceaccounts"), cluster.Object{"metadata": cluster.Object{"name": "reelay-control"}})
	testrun.Eventually(t, "the old token is refused", func() bool {
		_, err := w.List(t.Context(), pool)
		return fleet.ClassOf(err) == fleet.Permission && err != nil
	})
	w.Cluster.Token(w.token, "reelay-control", time.Hour)
	require.Contains(t, w.list(pool), id)
}

// TestForgottenPages lists more pods than a page has while the cluster forgets the version of the first page.
func TestForgottenPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pool := w.pool()
	var ids []string
	for i := range 520 {
		ids = append(ids, fmt.Sprintf("%s-%d", pool.Name, i))
	}
	for batch := range slices.Chunk(ids, 100) { // a create has a limit
		w.create(pool, batch...)
	}
	require.Len(t, w.list(pool), 520)

	var answers []int
	between := w.Between(func(request *http.Request) {
		if request.URL.Query().Get("continue") != "" && len(answers) == 1 {
			w.Must("DELETE", w.Path("pods", ids[0]), nil)
			w.Compact()
		}
	}, func(status int) { answers = append(answers, status) })
	provider := kubernetes.New(kubernetes.Config{URL: between.URL, TokenFile: w.token, CAFile: between.CAFile, Namespace: cluster.Namespace})
	all, err := provider.List(t.Context(), pool)

	require.NoError(t, err)
	require.Len(t, all, 519, "it is the list of one moment")
	require.Equal(t, []int{200, 410, 200, 200}, answers)
}
