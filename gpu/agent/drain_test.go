package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/health"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestExitWhenIdle(t *testing.T) {
	t.Parallel()
	limited := func(c *Config) { c.ExitWhenIdle = 90 * time.Second }

	t.Run("CountsFromTheEndOfTheLastJob", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			for range 10 { // longer than the limit
				f.model.messages <- &runtime.Progress{Percent: 50, Phase: runtime.PhaseRendering}
				time.Sleep(20 * time.Second) // the bubble's clock
			}
			require.Empty(t, f.of("drainSelf"))
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}

			require.NoError(t, <-f.ended)
			require.Equal(t, []string{"registerWorker", "completeJob", "drainSelf", "deregisterWorker"},
				names(f.of("registerWorker", "completeJob", "drainSelf", "releaseJob", "deregisterWorker")))
			drained := f.of("drainSelf")[0]
			require.Equal(t, f.of("completeJob")[0].at+90*time.Second, drained.at)
			require.Equal(t, LeavesIdle, drained.in["reason"])
			require.Nil(t, drained.in["deadline"])
		}, limited)
	})

	t.Run("TakesAJobThatALostAnswerGranted", func(t *testing.T) {
		t.Parallel()
		story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
			time.Sleep(85 * time.Second) // the bubble's clock; the last request is under way
			f.lose("leaseJob", 7)
			time.Sleep(7 * time.Second)
			f.queue() // granted with an answer that is lost

			<-f.model.started
			require.Empty(t, f.of("drainSelf", "releaseJob"))
			require.Greater(t, time.Since(f.began), 95*time.Second)
			f.leave(t)
		}, limited)
	})

	t.Run("IsOffByDefault", func(t *testing.T) {
		t.Parallel()
		story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
			time.Sleep(48 * time.Hour) // the bubble's clock
			require.Empty(t, f.of("drainSelf"))
			f.leave(t)
		})
	})
}

func TestReady(t *testing.T) {
	t.Parallel()
	probes := health.New(1)
	story(t, func(c *control, m *model) { c.goAway(unavailable); oneJob(c, m) }, func(t *testing.T, f *fixture) {
		synctest.Wait()
		require.Contains(t, probes.Unready(), "worker 0 is not ready: it is not registered: no database")
		f.comeBack()
		order := <-f.model.started
		require.Empty(t, probes.Unready(), "busy is ready")

		f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
		time.Sleep(time.Second) // the bubble's clock
		f.model.die()
		time.Sleep(leaseWait * time.Second) // the next request finds it
		require.Equal(t, "worker 0 is not ready: its runtime scripted does not run\n", probes.Unready())
		f.queue()
		next := <-f.models
		<-next.started
		require.Empty(t, probes.Unready())

		f.notices <- Notice{Reason: "test", Deadline: time.Now().Add(30 * time.Second)}
		synctest.Wait()
		require.Equal(t, "worker 0 is not ready: it leaves\n", probes.Unready())
		require.NoError(t, <-f.ended)
		require.Equal(t, "worker 0 is not ready: it has ended\n", probes.Unready())
	}, func(c *Config) { c.Probes = probes })
}

func TestNotice(t *testing.T) {
	t.Parallel()

	t.Run("HandsTheJobOverAtItsNewestState", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			time.Sleep(3 * time.Second)
			f.notices <- Notice{Reason: "spot", Deadline: time.Now().Add(30 * time.Second)}
			require.Equal(t, "checkpoint", <-f.model.orders)
			f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}

			require.NoError(t, <-f.ended)
			told := names(f.of("PUT/CHECKPOINT/1", "PUT/CHECKPOINT/2", "commitCheckpoint", "releaseJob", "deregisterWorker"))
			require.Regexp(t, "^PUT/CHECKPOINT/[12] commitCheckpoint releaseJob deregisterWorker$", strings.Join(told, " "))
			require.Equal(t, 3*time.Second, f.of("releaseJob")[0].at)
		})
	})

	for name, c := range map[string]struct{ takes, released time.Duration }{
		"IsToldBeforeTheJobIsHandedOver": {300 * time.Millisecond, 300 * time.Millisecond},
		"IsToldForASecondAtMost":         {5 * time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, func(control *control, m *model) {
				oneJob(control, m)
				control.slow = map[string]time.Duration{"drainSelf": c.takes}
			}, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				f.notices <- Notice{Reason: "spot", Deadline: time.Now().Add(30 * time.Second)}
				require.Equal(t, "checkpoint", <-f.model.orders)
				f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}

				require.NoError(t, <-f.ended)
				require.Equal(t, c.released, f.of("releaseJob")[0].at)
			})
		})
	}

	t.Run("IsKeptByARuntimeThatDoesNot", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.leave(t)

			require.Equal(t, time.Duration(0), f.of("drainSelf")[0].at)
			require.Equal(t, 28*time.Second, f.of("releaseJob")[0].at)
			require.Empty(t, f.of("commitCheckpoint"))
		})
	})

	t.Run("GivenTwiceMeansNow", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.notices <- Notice{Reason: "first", Deadline: time.Now().Add(30 * time.Second)}
			time.Sleep(time.Second)
			f.leave(t)

			require.Equal(t, time.Second, f.of("deregisterWorker")[0].at)
		})
	})

	t.Run("IsNotHurriedByTheSignalThatFollowsAnAnnouncement", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.notices <- Notice{Reason: "preempted", Deadline: time.Now().Add(60 * time.Second), Announced: true}
			time.Sleep(time.Second)
			f.notices <- Notice{Reason: "the signal", Deadline: time.Now().Add(30 * time.Second)}
			f.notices <- Notice{Reason: "maintenance", Deadline: time.Now().Add(60 * time.Second), Announced: true}

			require.NoError(t, <-f.ended)
			require.Equal(t, "preempted", f.of("drainSelf")[0].in["reason"])
			require.Equal(t, 29*time.Second, f.of("releaseJob")[0].at)
		})
	})

	t.Run("DeliversAFinishedVideo", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.notices <- Notice{Reason: "spot", Deadline: time.Now().Add(30 * time.Second)}
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}

			require.NoError(t, <-f.ended)
			require.Len(t, f.of("completeJob"), 1)
			require.Empty(t, f.of("releaseJob"))
		})
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()

	t.Run("IsNotWhatAnUnknownDirectiveAsksFor", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("heartbeat", func(object) (object, client.Code) { return heartbeatAnswer("DANCE"), "" }) // of a newer control plane
			time.Sleep(45 * time.Second)
			require.Empty(t, f.of("releaseJob", "drainSelf", "deregisterWorker"))
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			time.Sleep(time.Second)
			require.Len(t, f.of("completeJob"), 1)
			require.Equal(t, true, f.of("completeJob")[0].in["leaseNext"])
			f.leave(t)
		})
	})

	t.Run("LetsTheJobFinish", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("heartbeat", func(object) (object, client.Code) { return heartbeatAnswer("DRAIN"), "" })
			time.Sleep(45 * time.Second)
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}

			require.NoError(t, <-f.ended)
			require.Equal(t, []string{"completeJob", "deregisterWorker"}, names(f.of("completeJob", "releaseJob", "deregisterWorker")))
			require.Equal(t, false, f.of("completeJob")[0].in["leaseNext"])
		})
	})

	for name, wrong := range map[string]time.Duration{"": 0, "ByAClockThatIsAnHourFast": -time.Hour, "ByAClockThatIsAnHourSlow": time.Hour} {
		t.Run("HandsTheJobOverBeforeTheDeadline"+name, func(t *testing.T) {
			t.Parallel()
			story(t, func(c *control, m *model) {
				oneJob(c, m)
				registered := c.answers["registerWorker"]
				c.answers["registerWorker"] = func(in object) (object, client.Code) {
					answer, code := registered(in)
					answer["worker"].(object)["registeredAt"] = time.Now().Add(wrong)
					return answer, code
				}
			}, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				deadline := time.Now().Add(wrong + 135*time.Second)
				f.set("heartbeat", func(object) (object, client.Code) {
					return object{"leaseExpiresAt": time.Now(), "directive": object{"action": "DRAIN", "deadline": deadline}}, ""
				})
				for range 4 { // at 30, 60 and 90 s by the lease's pace, at 105 s for the deadline
					require.Equal(t, "checkpoint", <-f.model.orders)
					f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
				}

				require.NoError(t, <-f.ended)
				require.Equal(t, 105*time.Second, f.of("releaseJob")[0].at)
			})
		})
	}

	t.Run("IsAnnouncedByTheControlPlanesClock", func(t *testing.T) {
		t.Parallel()
		story(t, func(c *control, m *model) {
			oneJob(c, m)
			c.answers["registerWorker"] = func(object) (object, client.Code) {
				return object{"worker": object{"id": "wrk_1", "registeredAt": time.Now().Add(time.Hour)}, "workerToken": "rlw_1",
					"heartbeatSeconds": 10, "leaseSeconds": 30}, ""
			}
		}, func(t *testing.T, f *fixture) {
			<-f.model.started
			deadline := time.Now().Add(time.Hour + 30*time.Second)
			f.leave(t)

			told, err := time.Parse(time.RFC3339Nano, f.of("drainSelf")[0].in["deadline"].(string))
			require.NoError(t, err)
			require.True(t, told.Equal(deadline), told)
		})
	})
}
