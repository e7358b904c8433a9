package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

var outages = []outage{refusing, hanging, unavailable}

// paint has the runtime go on for some time.
func (f *fixture) paint(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		f.model.messages <- &runtime.Progress{Percent: 50, Phase: runtime.PhaseRendering}
		time.Sleep(min(10*time.Second, time.Until(end)))
	}
}

// published are the calls that change what others see of a job.
func (f *fixture) published() []string {
	return names(f.of("reportProgress", "requestUpload", "commitCheckpoint", "commitArtifact", "completeJob", "failJob", "releaseJob"))
}

func TestOutage(t *testing.T) {
	t.Parallel()

	for _, how := range outages {
		t.Run(fmt.Sprintf("OfTwoMinutesStopsNoRender/%s", how), func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				f.paint(25 * time.Second)
				f.goAway(how)
				f.paint(10 * time.Second)
				require.Equal(t, "checkpoint", <-f.model.orders)
				f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
				f.paint(110 * time.Second)
				away := f.count()
				f.comeBack()
				f.paint(40 * time.Second)
				f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
				time.Sleep(time.Minute)

				require.Equal(t, "heartbeat", f.after(away)[0].name, "what is held back waits for the lease to be confirmed")
				require.NotContains(t, drain(f.model.orders), "cancel")
				require.NotEmpty(t, f.of("commitCheckpoint"))
				require.Len(t, f.of("completeJob"), 1)
				require.Empty(t, f.of("failJob", "releaseJob"))
				require.Len(t, f.of("registerWorker"), 1)
			})
		})

		t.Run(fmt.Sprintf("AtTheEndHoldsTheVideoBack/%s", how), func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				f.paint(25 * time.Second)
				f.goAway(how)
				f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4"), Thumbnail: file(t, order, "still.jpg")}
				time.Sleep(2 * time.Minute)
				f.lose("requestUpload", 1)
				f.lose("completeJob", 2)
				f.comeBack()
				time.Sleep(time.Minute)

				ends := f.of("completeJob")
				require.Len(t, ends, 3, "two answers were lost")
				for _, end := range ends {
					require.Equal(t, ends[0].in, end.in)
				}
				require.Empty(t, f.of("failJob", "releaseJob"))
				require.Greater(t, len(f.of("leaseJob")), 1, "the worker goes on with its next job")
			})
		})

		t.Run(fmt.Sprintf("IsWaitedOutByARegistration/%s", how), func(t *testing.T) {
			t.Parallel()
			story(t, func(c *control, _ *model) { c.outage = how; c.queue() }, func(t *testing.T, f *fixture) {
				time.Sleep(2 * time.Minute)
				f.comeBack()

				order := <-f.model.started
				require.Equal(t, "a lighthouse", order.Prompt)
			})
		})

		t.Run(fmt.Sprintf("IsWaitedOutByAnIdleWorker/%s", how), func(t *testing.T) {
			t.Parallel()
			story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
				time.Sleep(5 * time.Second)
				f.goAway(how)
				time.Sleep(2 * time.Minute)
				f.queue()
				f.comeBack()
				back := time.Now()

				<-f.model.started
				require.Less(t, time.Since(back), leaseWait*time.Second+callTimeout+8*time.Second)
				require.Len(t, f.of("registerWorker"), 1)
			})
		})
	}

	t.Run("ThatCostTheLeaseStopsTheRenderAndPublishesNothing", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.paint(25 * time.Second)
			f.goAway(refusing)
			f.paint(10 * time.Second)
			f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
			f.paint(2 * time.Minute)
			before := len(f.published())
			drain(f.model.orders)
			f.set("heartbeat", lost)
			f.comeBack()
			time.Sleep(10 * time.Second)

			require.Equal(t, "cancel, keep", <-f.model.orders)
			require.Len(t, f.published(), before)
			require.Len(t, f.of("leaseJob"), 2, "the worker asks for its next job")
		})
	})

	t.Run("IsRespectedForAsLongAsItsAnswersAsk", func(t *testing.T) {
		t.Parallel()
		story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
			time.Sleep(time.Second)
			f.goAway(unavailable)
			time.Sleep(50 * time.Second)

			f.mu.Lock()
			defer f.mu.Unlock()
			asks := slices.DeleteFunc(f.missed, func(c call) bool { return c.name != "leaseJob" })
			require.Greater(t, len(asks), 6)
			for i, ask := range asks[1:] {
				require.InDelta(t, 1.125*retryAfter.Seconds(), (ask.at - asks[i].at).Seconds(), 0.126*retryAfter.Seconds())
			}
		})
	})

	t.Run("InWhichCallsHangLeavesTimeForFourHeartbeatsInOneLease", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			time.Sleep(10*time.Second - time.Millisecond)
			f.goAway(hanging)
			time.Sleep(20 * time.Second)

			f.mu.Lock()
			defer f.mu.Unlock()
			require.Len(t, slices.DeleteFunc(f.missed, func(c call) bool { return c.name != "heartbeat" }), 4)
		})
	})

	t.Run("InWhichACallHangsIsNotWaitedOutByIt", func(t *testing.T) {
		t.Parallel()
		story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
			time.Sleep(5 * time.Second)
			f.goAway(hanging)
			time.Sleep(17 * time.Second) // the next poll was sent at 20 s
			f.queue()
			f.comeBack()

			<-f.model.started
			require.Less(t, time.Since(f.began), 20*time.Second+leaseWait*time.Second+callTimeout+time.Second)
		})
	})
}

func TestAnswersLost(t *testing.T) {
	t.Parallel()

	t.Run("OfALeaseAreAskedForAgainUnderTheSameID", func(t *testing.T) {
		t.Parallel()
		story(t, func(c *control, _ *model) { c.queue(); c.losing["leaseJob"] = 3 }, func(t *testing.T, f *fixture) {
			<-f.model.started

			asks := f.of("leaseJob")
			require.Len(t, asks, 4)
			for _, ask := range asks {
				require.Equal(t, asks[0].in["requestId"], ask.in["requestId"])
			}
		})
	})

	t.Run("OfAFailureAreAskedForAgain", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.lose("failJob", 2)
			f.model.messages <- runtime.Failf(runtime.InvalidInput, "no such resolution")
			time.Sleep(10 * time.Second)

			require.Len(t, f.of("failJob"), 3)
			require.Empty(t, f.of("releaseJob"))
		})
	})

	t.Run("OfACheckpointAreAskedForAgain", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.lose("commitCheckpoint", 2)
			f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
			time.Sleep(5 * time.Second)

			commits := f.of("commitCheckpoint")
			require.Len(t, commits, 3)
			require.Equal(t, commits[0].in, commits[2].in)
		})
	})
}

func TestLongRender(t *testing.T) {
	t.Parallel()

	t.Run("OfFiveHoursKeepsItsLeaseAndItsPace", func(t *testing.T) {
		t.Parallel()
		prepare := func(c *control, _ *model) {
			job := lease()
			job["timeoutSeconds"], job["checkpointSeconds"] = 5*3600+600, 300
			c.leases = append(c.leases, job)
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			expired := 0
			f.expiring(time.Hour, &expired)
			for range 5 * 12 {
				f.paint(5 * time.Minute)
				require.Equal(t, "checkpoint", <-f.model.orders)
				f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
				synctest.Wait()
			}
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			time.Sleep(time.Minute)

			beats := f.of("heartbeat")
			require.Len(t, beats, 5*3600/10)
			for i, beat := range beats {
				require.Equal(t, time.Duration(i+1)*10*time.Second, beat.at)
			}
			require.Len(t, f.of("commitCheckpoint"), 60)
			require.Zero(t, expired)
			require.Len(t, f.of("completeJob"), 1)
			require.Len(t, f.of("registerWorker"), 1, "its token is good all along")
		})
	})

	t.Run("AsksAnewForALinkThatGotTooOld", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.breakStore(refuseOnce(403))
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			time.Sleep(time.Minute)

			ends := f.of("completeJob")
			require.Len(t, ends, 1)
			require.Equal(t, "FINAL_VIDEO/2", ends[0].in["video"].(object)["objectKey"])
		})
	})

	t.Run("ThatOnlyAnswersCheckpointsHangs", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			for range 9 {
				require.Equal(t, "checkpoint", <-f.model.orders)
				f.model.messages <- &runtime.Checkpoint{}
			}
			time.Sleep(40 * time.Second)

			require.Equal(t, "TIMEOUT", f.of("failJob")[0].in["class"])
			require.Len(t, f.of("heartbeat"), 30, "a hanging runtime costs no lease")
		})
	})
}

func TestProgressOvertakenByTheEnd(t *testing.T) {
	t.Parallel()
	prepare := func(c *control, m *model) {
		oneJob(c, m)
		ended := false
		complete := c.answers["completeJob"]
		c.answers["completeJob"] = func(in object) (object, client.Code) {
			ended = true
			return complete(in)
		}
		c.answers["reportProgress"] = func(object) (object, client.Code) {
			if ended {
				return nil, client.CodeLeaseLost
			}
			return nil, client.CodeUnavailable // so that the report is still on its way at the end
		}
		c.lose("completeJob", 3)
	}
	story(t, prepare, func(t *testing.T, f *fixture) {
		order := <-f.model.started

		f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
		time.Sleep(time.Minute)
		synctest.Wait()

		require.NotEmpty(t, f.of("reportProgress"))
		require.Contains(t, f.log.String(), "job completed")
		require.NotContains(t, f.log.String(), "WARN")
	})
}

func TestRegister(t *testing.T) {
	t.Parallel()

	t.Run("NamesTheSettingsOfAKeyThatIsRefused", func(t *testing.T) {
		t.Parallel()
		refused := func(f *control, _ *model) { f.refuseAll(client.CodeUnauthenticated) }
		story(t, refused, func(t *testing.T, f *fixture) {
			require.EqualError(t, <-f.ended, "the key is unknown or revoked: set REELAY_API_KEY or --key to a key with the role WORKER")
		})
	})

	t.Run("SaysWhichModelsGetNoJobsAndWaitsForThem", func(t *testing.T) {
		t.Parallel()
		unknown := func(c *control, _ *model) {
			registered := c.answers["registerWorker"]
			c.answers["registerWorker"] = func(in object) (object, client.Code) {
				answer, code := registered(in)
				answer["worker"].(object)["refusedModels"] = []object{{"model": "coral", "reason": "it is not in the catalogue"}}
				return answer, code
			}
		}
		story(t, unknown, func(t *testing.T, f *fixture) {
			time.Sleep(10 * time.Minute)
			synctest.Wait()

			require.Len(t, f.of("registerWorker"), 1)
			require.NotEmpty(t, f.of("leaseJob"), "the worker gets jobs as soon as somebody restores the model")
			require.LessOrEqual(t, len(f.of("leaseJob", "heartbeat")), 200, "it does not spin")
			require.Equal(t, 1, strings.Count(f.log.String(), "model=coral reason=\"it is not in the catalogue\""))
		})
	})
}

func TestWorkerEnded(t *testing.T) {
	t.Parallel()

	unknown := func(object) (object, client.Code) { return nil, client.CodeUnauthenticated }

	t.Run("WhileIdleEndsTheAgent", func(t *testing.T) {
		t.Parallel()
		story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
			time.Sleep(time.Second)
			f.refuseAll(client.CodeUnauthenticated)

			err := <-f.ended
			require.ErrorContains(t, err, "another agent took its place with the same --instance-id (one)")
			require.NotContains(t, err.Error(), "key", "its key was good")
			require.Equal(t, []string{"kill"}, drain(f.model.orders))
			require.Empty(t, f.of("registerWorker")[1:], "whoever ended it decides what comes in its place")
		})
	})

	t.Run("WhileItRendersStopsTheRender", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.set("heartbeat", unknown)
			f.refuseAll(client.CodeUnauthenticated)

			require.Error(t, <-f.ended)
			require.Equal(t, []string{"cancel, keep", "kill"}, drain(f.model.orders))
			require.Empty(t, f.of("completeJob", "failJob", "releaseJob", "commitArtifact"))
			synctest.Wait()
		})
	})
}
