package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/gpu/provider/kubernetes/fakekube"
	"github.com/stretchr/testify/require"
)

// waiting makes a container of a pod on a node wait.
func (c *cluster) waiting(id, reason, message string, ago time.Duration) {
	c.Condition(id, "PodScheduled", "True", "", "", ago)
	c.Edit(id, func(_, spec, status fakekube.Object) {
		spec["nodeName"] = "node-1"
		status["containerStatuses"] = []any{fakekube.Object{"name": "agent", "state": fakekube.Object{
			"waiting": fakekube.Object{"reason": reason, "message": message}}}}
	})
}

// ends ends the agent of a pod.
func (c *cluster) ends(id, phase string, status int, reason, message string) {
	c.Edit(id, func(_, _, state fakekube.Object) {
		state["phase"] = phase
		state["containerStatuses"] = []any{fakekube.Object{"name": "agent", "state": fakekube.Object{
			"terminated": fakekube.Object{"exitCode": status, "reason": reason, "message": message}}}}
	})
}

// TestContainersThatDoNotStart counts the minute from when a list first had the failure: an image can take long before.
func TestContainersThatDoNotStart(t *testing.T) {
	t.Parallel()
	for reason, message := range map[string]string{"ImagePullBackOff": "manifest unknown", "CreateContainerConfigError": `secret "x" not found`} {
		c := setup(t)
		c.create(t, "spot-a")
		c.waiting("spot-a", "ContainerCreating", "", time.Hour)
		require.Equal(t, fleet.InstanceBooting, c.list(t)["spot-a"].State)
		c.waiting("spot-a", reason, message, time.Hour)
		i := c.list(t)["spot-a"]
		require.Equal(t, fleet.InstanceBooting, i.State, "it may pass")
		require.Contains(t, i.Cause, message)
		c.waiting("spot-a", "ContainerCreating", "", time.Hour)
		c.Advance(2 * time.Minute)
		require.Equal(t, fleet.InstanceBooting, c.list(t)["spot-a"].State)
		c.waiting("spot-a", reason, message, time.Hour)
		require.Equal(t, fleet.InstanceBooting, c.list(t)["spot-a"].State, "it passed, and failed again")
		c.Advance(2 * time.Minute)

		i = c.list(t)["spot-a"]

		require.Equal(t, fleet.InstanceEnded, i.State)
		require.Equal(t, fleet.Invalid, fleet.ClassOf(i.Err))
		require.ErrorContains(t, i.Err, message)
		if pod := c.Pods()["spot-a"]; pod != nil {
			require.NotNil(t, at(t, pod, "metadata", "deletionTimestamp"))
		}
	}
}

// TestAgentRunsBesideAContainerThatDoesNot keeps a pod whose agent can hold a job: Kubernetes calls it Pending.
func TestAgentRunsBesideAContainerThatDoesNot(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.create(t, "spot-a")
	c.waiting("spot-a", "ContainerCreating", "", time.Hour)
	c.Edit("spot-a", func(_, _, status fakekube.Object) {
		status["phase"] = "Pending"
		status["containerStatuses"] = []any{
			fakekube.Object{"name": "logs", "state": fakekube.Object{"waiting": fakekube.Object{"reason": "ImagePullBackOff"}}},
			fakekube.Object{"name": "agent", "state": fakekube.Object{"running": fakekube.Object{}}},
		}
	})
	for range 3 {
		i := c.list(t)["spot-a"]
		require.Equal(t, fleet.InstanceRunning, i.State)
		require.NoError(t, i.Err)
		c.Advance(time.Hour)
	}
	require.Nil(t, at(t, c.Pods()["spot-a"], "metadata", "deletionTimestamp"))
}

// TestStates has what a cluster says of pods, and what the scaler hears.
func TestStates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set       func(c *cluster)
		state     fleet.InstanceState
		reclaimed bool
		class     fleet.ErrorClass // of the error, or ""
		says      string           // the error or the cause
		deleted   bool
	}{
		"New": {func(*cluster) {}, fleet.InstanceBooting, false, "", "", false},
		"Pulls": {func(c *cluster) { c.waiting("spot-a", "ContainerCreating", "", time.Hour) },
			fleet.InstanceBooting, false, "", "", false},
		"Runs": {func(c *cluster) { c.Run("spot-a") }, fleet.InstanceRunning, false, "", "", false},
		"UnknownPhase": {func(c *cluster) { c.Edit("spot-a", func(_, _, s fakekube.Object) { s["phase"] = "Unknown" }) },
			fleet.InstanceRunning, false, "", "", false},
		"NoNodeYet": {func(c *cluster) { c.unschedulable(10 * time.Second) },
			fleet.InstanceBooting, false, "", "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", false},
		"NoNode": {func(c *cluster) { c.unschedulable(2 * time.Minute) },
			fleet.InstanceEnded, false, fleet.Stockout, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", true},
		"HeldByKueue": {func(c *cluster) {
			c.Condition("spot-a", "PodScheduled", "False", "SchedulingGated", "gated", time.Hour)
		}, fleet.InstanceBooting, false, "", "SchedulingGated: gated", false},
		"WaitsForNodes": {func(c *cluster) {
			c.pool.Settings = json.RawMessage(`{"template": "l4-agent", "scheduleSeconds": 0}`)
			c.unschedulable(time.Hour)
		}, fleet.InstanceBooting, false, "", "Unschedulable", false},
		"BadImage": {func(c *cluster) { c.waiting("spot-a", "InvalidImageName", "couldn't parse", 0) },
			fleet.InstanceEnded, false, fleet.Invalid, "the container agent does not start: InvalidImageName: couldn't parse", true},
		"PullFails": {func(c *cluster) { c.waiting("spot-a", "ErrImagePull", "503", 5*time.Second) },
			fleet.InstanceBooting, false, "", "ErrImagePull: 503", false},
		"NodeFull": {func(c *cluster) {
			c.Edit("spot-a", func(_, spec, s fakekube.Object) {
				spec["nodeName"], s["phase"], s["reason"], s["message"] = "node-1", "Failed", "OutOfnvidia.com/gpu", "Node didn't have enough resource"
			})
		}, fleet.InstanceEnded, false, fleet.Stockout, "the node refused the pod: OutOfnvidia.com/gpu", true},
		"Crashed": {func(c *cluster) {
			c.Run("spot-a")
			c.ends("spot-a", "Failed", 1, "Error", "line one\nno CUDA device\n")
		}, fleet.InstanceEnded, false, "", "its agent ended with the status 1: no CUDA device", false},
		"OutOfRAM": {func(c *cluster) { c.Run("spot-a"); c.ends("spot-a", "Failed", 137, "OOMKilled", "") },
			fleet.InstanceEnded, false, "", "its agent ended with the status 137 (OOMKilled)", false},
		"Left": {func(c *cluster) { c.Run("spot-a"); c.ends("spot-a", "Succeeded", 0, "Completed", "") },
			fleet.InstanceEnded, false, "", "its agent ended with the status 0", false},
		"Survived": {func(c *cluster) { c.Run("spot-a"); c.ends("spot-a", "Running", 0, "Completed", "") },
			fleet.InstanceEnded, false, "", "its agent ended with the status 0", false},
		"Evicted": {func(c *cluster) {
			c.Condition("spot-a", "DisruptionTarget", "True", "TerminationByKubelet", "The node was low on resource: memory.", 0)
			c.Edit("spot-a", func(_, _, s fakekube.Object) { s["phase"], s["reason"] = "Failed", "Evicted" })
		}, fleet.InstanceEnded, true, "", "", false},
		"WroteTooMuch": {func(c *cluster) {
			c.Run("spot-a")
			c.ends("spot-a", "Failed", 137, "Error", "")
			c.Edit("spot-a", func(_, _, s fakekube.Object) {
				s["reason"], s["message"] = "Evicted", `Usage of EmptyDir volume "scratch" exceeds the limit "50Gi".`
			})
		}, fleet.InstanceEnded, false, "", `Evicted: Usage of EmptyDir volume "scratch" exceeds the limit "50Gi".`, false},
		"Shutdown": {func(c *cluster) {
			c.Run("spot-a")
			c.Condition("spot-a", "DisruptionTarget", "True", "TerminationByKubelet", "", 0)
			c.ends("spot-a", "Failed", 0, "Completed", "")
		}, fleet.InstanceEnded, true, "", "", false},
		"Preempted": {func(c *cluster) {
			c.leaves("spot-a", time.Minute)
			c.Condition("spot-a", "DisruptionTarget", "True", "PreemptionByScheduler", "", 0)
		}, fleet.InstanceEnding, true, "", "", false},
		"KueuePreempts": {func(c *cluster) {
			c.leaves("spot-a", time.Minute)
			c.Condition("spot-a", "TerminationTarget", "True", "WorkloadEvictedDueToPreempted", "", 0)
		}, fleet.InstanceEnding, true, "", "", false},
		"NodeIsCleared": {func(c *cluster) {
			c.unschedulable(time.Hour)
			c.Edit("spot-a", func(_, _, s fakekube.Object) { s["nominatedNodeName"] = "node-1" })
		}, fleet.InstanceBooting, false, "", "Unschedulable", false},
		"Deleted": {func(c *cluster) { c.leaves("spot-a", time.Minute) }, fleet.InstanceEnding, false, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			c.create(t, "spot-a")
			test.set(c)

			for range 2 {
				i, listed := c.list(t)["spot-a"]

				require.True(t, listed)
				require.Equal(t, test.state, i.State)
				require.Equal(t, test.reclaimed, i.Reclaimed)
				if test.class != "" {
					require.Equal(t, test.class, fleet.ClassOf(i.Err))
					require.ErrorContains(t, i.Err, test.says)
				} else {
					require.NoError(t, i.Err)
					require.Contains(t, i.Cause, test.says)
				}
				pod := c.Pods()["spot-a"]
				if pod != nil && test.state != fleet.InstanceEnding {
					require.Equal(t, test.deleted, at(t, pod, "metadata", "deletionTimestamp") != nil)
				} else if pod == nil {
					require.True(t, test.deleted || test.reclaimed)
				}
			}
		})
	}
}

func (c *cluster) unschedulable(ago time.Duration) {
	c.Condition("spot-a", "PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", ago)
}

// leaves has somebody else delete a pod on a node.
func (c *cluster) leaves(id string, within time.Duration) {
	c.Edit(id, func(meta, spec, status fakekube.Object) {
		spec["nodeName"], status["phase"] = "node-1", "Running"
		meta["deletionTimestamp"] = time.Now().Add(within).UTC().Format(time.RFC3339)
	})
}

// TestGiveUp has deletions of pods that are given up, while the cluster changes its mind or loses the answer.
func TestGiveUp(t *testing.T) {
	t.Parallel()

	t.Run("LeavesAPodThatWasScheduledJustNow", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.create(t, "spot-a")
		c.unschedulable(time.Hour)
		c.Fault("DELETE pods/", 1, func(w http.ResponseWriter, _ *http.Request, answer func() (int, fakekube.Object)) {
			c.Run("spot-a")
			status, body := answer()
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body)
		})
		require.Equal(t, fleet.InstanceBooting, c.list(t)["spot-a"].State)
		require.Equal(t, fleet.InstanceRunning, c.list(t)["spot-a"].State)
		require.NoError(t, c.list(t)["spot-a"].Err)
		c.Kill("spot-a")
		require.NotContains(t, c.list(t), "spot-a", "it ended otherwise")
	})

	t.Run("WaitsAnewWhenKueueHasLetItGo", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.create(t, "spot-a")
		c.Condition("spot-a", "PodScheduled", "False", "SchedulingGated", "gated", time.Hour)
		c.list(t)
		// The scheduler keeps the time of the condition, since its status is the same.
		c.Edit("spot-a", func(_, _, status fakekube.Object) {
			status["conditions"].([]any)[0].(fakekube.Object)["reason"] = "Unschedulable"
		})
		for range 2 {
			require.Equal(t, fleet.InstanceBooting, c.list(t)["spot-a"].State)
		}
	})

	t.Run("KeepsTheReasonOfAPodThatEndsSlowly", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.create(t, "spot-a")
		c.waiting("spot-a", "InvalidImageName", "couldn't parse", 0)
		c.Lose("DELETE pods/", 3)
		c.list(t)
		c.list(t)
		c.Kill("spot-a")
		require.Equal(t, fleet.Invalid, fleet.ClassOf(c.list(t)["spot-a"].Err))
	})

	t.Run("KeepsTheReasonWhenTheAnswerIsLost", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.create(t, "spot-a")
		c.unschedulable(time.Hour)
		c.Fault("DELETE pods/", 3, func(_ http.ResponseWriter, _ *http.Request, answer func() (int, fakekube.Object)) {
			answer()
			panic(http.ErrAbortHandler)
		})
		c.list(t)
		require.Empty(t, c.Pods())
		require.Equal(t, fleet.Stockout, fleet.ClassOf(c.list(t)["spot-a"].Err))
	})

	t.Run("TriesAgain", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.create(t, "spot-a")
		c.unschedulable(time.Hour)
		c.Refuse("DELETE pods/", 3, 500, "InternalError", "etcd")
		require.Equal(t, fleet.InstanceBooting, c.list(t)["spot-a"].State)
		require.Equal(t, fleet.Stockout, fleet.ClassOf(c.list(t)["spot-a"].Err))
		require.Empty(t, c.Pods())
	})
}

// TestVanished has pods that are gone between two lists.
func TestVanished(t *testing.T) {
	t.Parallel()
	running := func(t *testing.T) *cluster {
		t.Helper()
		c := setup(t)
		c.create(t, "spot-a", "spot-b")
		c.Run("spot-a")
		c.Run("spot-b")
		require.Len(t, c.list(t), 2)
		return c
	}
	evict := func(c *cluster) {
		c.Condition("spot-a", "DisruptionTarget", "True", "DeletionByTaintManager", "", 0)
		c.Kill("spot-a")
	}

	t.Run("WasTakenAway", func(t *testing.T) {
		t.Parallel()
		c := running(t)
		evict(c)
		for range 2 {
			require.Equal(t, fleet.Instance{ID: "spot-a", State: fleet.InstanceEnded, Reclaimed: true}, c.list(t)["spot-a"])
		}
		require.Equal(t, 1, strings.Count(strings.Join(c.Calls(), "\n"), "WATCH"))
	})

	t.Run("WasDeletedBySomebody", func(t *testing.T) {
		t.Parallel()
		c := running(t)
		c.Kill("spot-a")
		require.NotContains(t, c.list(t), "spot-a")
		require.Contains(t, c.list(t), "spot-b")
	})

	t.Run("WasDeletedByReelay", func(t *testing.T) {
		t.Parallel()
		c := running(t)
		require.Empty(t, c.delete(t, "spot-a"))
		c.Kill("spot-a")
		require.NotContains(t, c.list(t), "spot-a")
		require.NotContains(t, c.Calls(), "WATCH pods", "that is why")
	})

	t.Run("WasBeingTakenAway", func(t *testing.T) {
		t.Parallel()
		c := running(t)
		c.leaves("spot-a", time.Minute)
		c.Condition("spot-a", "DisruptionTarget", "True", "DeletionByPodGC", "", 0)
		require.Equal(t, fleet.InstanceEnding, c.list(t)["spot-a"].State)
		c.Kill("spot-a")
		require.True(t, c.list(t)["spot-a"].Reclaimed)
		require.NotContains(t, c.Calls(), "WATCH pods")
	})

	for name, fault := range map[string]func(c *cluster){
		"IsForgotten": func(c *cluster) { c.Compact() },
		"DropsTheWatch": func(c *cluster) {
			c.Fault("WATCH pods", 1, func(w http.ResponseWriter, _ *http.Request, _ func() (int, fakekube.Object)) {
				_, _ = io.WriteString(w, `{"type": "MODIFIED", "object": {"kind": "Pod", "meta`)
			})
		},
		"RefusesTheWatch": func(c *cluster) { c.Refuse("WATCH pods", 1, 403, "Forbidden", "no") },
		"AnswersWithAPage": func(c *cluster) {
			c.Fault("WATCH pods", 1, func(w http.ResponseWriter, _ *http.Request, _ func() (int, fakekube.Object)) {
				_, _ = io.WriteString(w, "<html>")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := running(t)
			evict(c)
			fault(c)
			all := c.list(t)
			require.NotContains(t, all, "spot-a", "it is gone, and nobody knows why")
			require.Contains(t, all, "spot-b")
		})
	}
}

// TestPages has lists that end early. Half a list would end workers.
func TestPages(t *testing.T) {
	t.Parallel()
	const pods = 1201 // three pages
	fill := func(t *testing.T) *cluster {
		t.Helper()
		c := setup(t)
		labels := fakekube.Object{"reelay-pool": string(c.pool.ID), "reelay-cluster": kubernetes.Label("Production #1")}
		for i := range pods {
			c.Put(fmt.Sprintf("spot-%d", i), fakekube.Object{"metadata": fakekube.Object{"labels": labels}, "spec": fakekube.Object{},
				"status": fakekube.Object{"phase": "Running"}})
		}
		return c
	}
	second := func(c *cluster, times int, do func()) {
		c.Fault("GET pods", 1, func(w http.ResponseWriter, _ *http.Request, answer func() (int, fakekube.Object)) {
			status, body := answer()
			for range times {
				c.Fault("GET pods", 1, func(w http.ResponseWriter, _ *http.Request, answer func() (int, fakekube.Object)) {
					do()
					status, body := answer()
					w.WriteHeader(status)
					_ = json.NewEncoder(w).Encode(body)
				})
			}
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body)
		})
	}

	t.Run("AreOneList", func(t *testing.T) {
		t.Parallel()
		c := fill(t)
		// What changes between two pages is not in the list.
		second(c, 1, func() { c.Kill("spot-9") })
		require.Len(t, c.list(t), pods)
		require.Len(t, c.list(t), pods-1)
	})

	t.Run("BeginAgainWhenTheVersionIsForgotten", func(t *testing.T) {
		t.Parallel()
		c := fill(t)
		second(c, 1, func() { c.Compact() })
		require.Len(t, c.list(t), pods)
	})

	t.Run("AreNoListWithoutTheLast", func(t *testing.T) {
		t.Parallel()
		c := fill(t)
		second(c, 9, func() { panic(http.ErrAbortHandler) })
		_, err := c.List(t.Context(), c.pool)
		require.Equal(t, fleet.Transient, fleet.ClassOf(err))
		require.ErrorContains(t, err, "list pods: ")
	})

	t.Run("AreNoListWhenAlwaysForgotten", func(t *testing.T) {
		t.Parallel()
		c := fill(t)
		for range 3 {
			second(c, 1, func() { c.Compact() })
		}
		c.Refuse("GET pods", 9, 410, "Expired", "too old")
		_, err := c.List(t.Context(), c.pool)
		require.Equal(t, fleet.Transient, fleet.ClassOf(err))
	})
}

// TestBadLists has answers that are no list.
func TestBadLists(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"Empty": "", "Object": "{}", "Page": "<html>", "Null": "null", "Array": "[]", "Other": `{"kind": "Pod"}`,
		"Half": `{"kind": "PodList", "items": [{"metadata": {"na`, "Nameless": `{"kind": "PodList", "items": [{}]}`,
		"NullPod": `{"kind": "PodList", "items": [null]}`, "Time": `{"kind": "PodList", "items": [{"metadata": {"creationTimestamp": "now"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			c.create(t, "spot-a")
			c.Fault("GET pods", 3, func(w http.ResponseWriter, _ *http.Request, _ func() (int, fakekube.Object)) {
				_, _ = io.WriteString(w, body)
			})
			_, err := c.List(t.Context(), c.pool)
			require.Error(t, err)
			require.Equal(t, fleet.Transient, fleet.ClassOf(err))
			c.Heal()
			require.Len(t, c.list(t), 1)
		})
	}
}

// TestStrangers has pods that are not, or no longer, the pool's.
func TestStrangers(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(meta, spec, status fakekube.Object){
		"Renamed": func(meta, _, _ fakekube.Object) { meta["labels"] = fakekube.Object{"app": "other"} },
		"OtherCluster": func(meta, _, _ fakekube.Object) {
			meta["labels"].(fakekube.Object)["reelay-cluster"] = "staging"
		},
		"Adopted": func(meta, _, _ fakekube.Object) {
			meta["ownerReferences"] = []any{fakekube.Object{"kind": "ReplicaSet", "name": "web", "controller": true}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			c.create(t, "spot-a")
			c.Run("spot-a")
			c.list(t)
			c.Edit("spot-a", edit)

			require.NotContains(t, c.list(t), "spot-a")
			require.Empty(t, c.delete(t, "spot-a"))
			require.Contains(t, c.Pods(), "spot-a")
			require.Nil(t, at(t, c.Pods()["spot-a"], "metadata", "deletionTimestamp"))
			require.ErrorIs(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-a"}, time.Second), fleet.ErrNoInstance)
			_, says := c.refused(t, "spot-a")
			require.Contains(t, says, "does not belong to the pool")
		})
	}

	t.Run("AdoptedWhileItIsDeleted", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.create(t, "spot-a")
		c.Run("spot-a")
		c.Fault("DELETE pods/", 1, func(w http.ResponseWriter, _ *http.Request, answer func() (int, fakekube.Object)) {
			c.Edit("spot-a", func(meta, _, _ fakekube.Object) { meta["labels"] = fakekube.Object{} })
			status, body := answer()
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body)
		})
		require.Empty(t, c.delete(t, "spot-a"))
		require.Nil(t, at(t, c.Pods()["spot-a"], "metadata", "deletionTimestamp"))
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.create(t, "spot-a", "spot-b", "spot-c")
	c.Run("spot-a")
	c.Lose("DELETE pods/", 1)

	require.Empty(t, c.delete(t, "spot-a", "spot-b", "spot-absent"))

	all := c.list(t)
	require.Equal(t, fleet.InstanceEnding, all["spot-a"].State, "it ends within its grace period")
	require.NotContains(t, all, "spot-b", "no node had it")
	require.Equal(t, fleet.InstanceBooting, all["spot-c"].State)
	c.Refuse("DELETE pods/", 9, 403, "Forbidden", "no right to delete pods")
	failed := c.delete(t, "spot-c")
	require.Equal(t, fleet.Permission, fleet.ClassOf(failed["spot-c"]))
	require.ErrorContains(t, failed["spot-c"], "delete the pod spot-c: 403 Forbidden: no right to delete pods")
}

func TestPreempt(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.create(t, "spot-a", "spot-b")
	c.Run("spot-a")
	c.Run("spot-b")
	c.list(t)

	require.NoError(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-a"}, 30*time.Second))

	i := c.list(t)["spot-a"]
	require.Equal(t, fleet.InstanceEnding, i.State)
	require.True(t, i.Reclaimed)
	require.ErrorIs(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-a"}, time.Second), fleet.ErrNoInstance)
	require.ErrorIs(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-absent"}, time.Second), fleet.ErrNoInstance)
	c.Refuse("POST pods/eviction", 9, 429, "TooManyRequests", "it would violate the pod's disruption budget", "Retry-After", "10")
	require.ErrorContains(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-b"}, time.Second), "disruption budget")
}

// TestStuck has pods that do not end.
func TestStuck(t *testing.T) {
	t.Parallel()
	stuck := func(t *testing.T) *cluster {
		t.Helper()
		c := setup(t)
		c.create(t, "spot-a")
		c.list(t)
		c.leaves("spot-a", -5*time.Minute)
		return c
	}

	t.Run("ItsNodeIsThere", func(t *testing.T) {
		t.Parallel()
		c := stuck(t)
		for range 2 {
			require.Equal(t, fleet.InstanceEnding, c.list(t)["spot-a"].State)
		}
		require.Contains(t, c.Pods(), "spot-a")
	})

	t.Run("ItsNodeIsGone", func(t *testing.T) {
		t.Parallel()
		c := stuck(t)
		c.LoseNode()
		require.Equal(t, fleet.InstanceEnding, c.list(t)["spot-a"].State)
		require.Empty(t, c.Pods())
		require.Empty(t, c.list(t))
	})

	t.Run("NobodyKnowsWhetherItsNodeIsGone", func(t *testing.T) {
		t.Parallel()
		c := stuck(t)
		c.LoseNode()
		c.Deny("get nodes")
		require.Equal(t, fleet.InstanceEnding, c.list(t)["spot-a"].State)
		require.Contains(t, c.Pods(), "spot-a")
	})
}

// A restarted process has no memory, and lists what the cluster has.
func TestRestart(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.create(t, "spot-a", "spot-b", "spot-c")
	c.Run("spot-a")
	c.Condition("spot-b", "DisruptionTarget", "True", "TerminationByKubelet", "", 0)
	c.Edit("spot-b", func(_, _, s fakekube.Object) { s["phase"], s["reason"] = "Failed", "Evicted" })
	c.Kill("spot-c")
	again := setup(t, func(config *kubernetes.Config) {
		config.URL, config.TokenFile, config.CAFile = c.URL, c.TokenFile, c.CAFile
	})
	again.pool, again.Server = c.pool, c.Server

	all := again.list(t)

	require.Len(t, all, 2)
	require.Equal(t, fleet.InstanceRunning, all["spot-a"].State)
	require.True(t, all["spot-b"].Reclaimed)
	require.Contains(t, c.Pods(), "spot-b", "it is deleted when the scaler has heard of it")
	again.list(t)
	require.NotContains(t, c.Pods(), "spot-b")
	require.True(t, again.list(t)["spot-b"].Reclaimed)
}
