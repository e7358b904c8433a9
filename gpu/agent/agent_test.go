package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
)

func oneJob(c *control, _ *model) { c.queue() }

func lost(object) (object, client.Code) { return nil, client.CodeLeaseLost }

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("RendersAJobAndLeavesWhenToldTo", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.Progress{Percent: 50, Phase: runtime.PhaseRendering}
			f.model.messages <- &runtime.Result{Video: file(t, order, "film.mp4"), Thumbnail: file(t, order, "film.jpg")}
			synctest.Wait()
			time.Sleep(5 * time.Second)
			f.leave(t)

			require.Equal(t, "a lighthouse", order.Prompt)
			require.JSONEq(t, `{"fps":24}`, string(order.Params))
			ended := f.of("completeJob")
			require.Len(t, ended, 1)
			require.Equal(t, "FINAL_VIDEO/1", ended[0].in["video"].(object)["objectKey"])
			require.Equal(t, "image/jpeg", ended[0].in["thumbnail"].(object)["contentType"])
			require.Equal(t, "LOG/3", ended[0].in["log"].(object)["objectKey"])
			require.Equal(t, []string{"registerWorker", "deregisterWorker"}, names(f.of("registerWorker", "deregisterWorker")))
			require.NoDirExists(t, order.Workdir)
		})
	})

	t.Run("RepeatsALostRequestUnderItsID", func(t *testing.T) {
		t.Parallel()
		story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
			time.Sleep(5 * time.Second)
			f.goAway(refusing)
			time.Sleep(60 * time.Second) // the poll at 20 s and its repetitions are lost
			f.comeBack()
			time.Sleep(60 * time.Second)

			asks := f.of("leaseJob")
			require.Greater(t, len(asks), 3)
			seen := map[any]bool{}
			for _, ask := range asks {
				require.False(t, seen[ask.in["requestId"]], "an answered request must not be repeated")
				seen[ask.in["requestId"]] = true
			}
		})
	})

	t.Run("GivesBackWhatItWasGrantedWhileLeaving", func(t *testing.T) {
		t.Parallel()
		story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
			time.Sleep(time.Second)
			f.queue() // granted by the poll whose answer the agent will not wait for
			f.leave(t)

			asks := f.of("leaseJob")
			require.Len(t, asks, 2)
			require.Equal(t, asks[0].in["requestId"], asks[1].in["requestId"])
			require.Equal(t, []string{"releaseJob", "deregisterWorker"}, names(f.of("releaseJob", "deregisterWorker")))
		})
	})
}

func TestLease(t *testing.T) {
	t.Parallel()

	t.Run("IsRenewedWhateverTheRuntimeDoes", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			time.Sleep(65 * time.Second)

			require.Len(t, f.of("heartbeat"), 6)
		})
	})

	t.Run("OnceLostStopsTheRenderAndAllTalk", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("heartbeat", lost)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			at := len(f.of("reportProgress", "releaseJob", "failJob", "completeJob", "commitCheckpoint"))

			require.Equal(t, "cancel", <-f.model.orders)
			require.NoDirExists(t, order.Workdir)
			time.Sleep(time.Minute)
			require.Len(t, f.of("reportProgress", "releaseJob", "failJob", "completeJob", "commitCheckpoint"), at)
			require.Len(t, f.of("heartbeat"), 1)
			require.Greater(t, len(f.of("leaseJob")), 1, "the worker must ask for its next job")
		})
	})

	t.Run("PublishesNothingUntilAHeartbeatSaidItIsStillHeld", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			time.Sleep(15 * time.Second)
			f.goAway(refusing)
			time.Sleep(60 * time.Second)
			f.model.messages <- &runtime.Result{Video: file(t, order, "film.mp4")}
			time.Sleep(5 * time.Second)
			before := f.count()
			f.comeBack()
			time.Sleep(20 * time.Second)

			require.Equal(t, "heartbeat", f.after(before)[0].name)
			require.Len(t, f.of("completeJob"), 1)
		})
	})

	t.Run("IsGivenUpAfterTenMinutesWithoutRenewal", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.goAway(refusing)
			for range 9 {
				time.Sleep(time.Minute)
				f.model.messages <- &runtime.Progress{Percent: 50, Phase: runtime.PhaseRendering}
			}
			drain(f.model.orders)
			time.Sleep(2 * time.Minute)

			require.Contains(t, drain(f.model.orders), "cancel")
		})
	})
}

// drain takes what has been ordered so far.
func drain(orders <-chan string) []string {
	var all []string
	for {
		select {
		case order := <-orders:
			all = append(all, order)
		default:
			return all
		}
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()

	t.Run("IsRepeatedIfItsAnswerIsLost", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			first := true
			f.set("heartbeat", func(object) (object, client.Code) {
				if !first { // it is complete: there is no lease any more
					return nil, client.CodeLeaseLost
				}
				return heartbeatAnswer("CONTINUE"), ""
			})
			f.set("completeJob", func(in object) (object, client.Code) {
				if first {
					first = false
					f.outage = refusing
					return nil, client.CodeUnavailable
				}
				return object{"job": object{"id": "job_1"}, "next": nil}, ""
			})
			f.model.messages <- &runtime.Result{Video: file(t, order, "film.mp4")}
			time.Sleep(40 * time.Second) // longer than the lease: a heartbeat has to come first
			f.comeBack()
			time.Sleep(20 * time.Second)

			require.Len(t, f.of("completeJob"), 2)
			require.Empty(t, f.of("failJob", "releaseJob"))
		})
	})

	t.Run("AfterACancelIsARelease", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("completeJob", func(object) (object, client.Code) { return nil, client.CodeConflict })
			f.model.messages <- &runtime.Result{Video: file(t, order, "film.mp4")}
			time.Sleep(time.Second)

			require.Len(t, f.of("releaseJob"), 1)
		})
	})

	t.Run("GoesOnWithTheJobThatTheAnswerCarries", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("completeJob", func(in object) (object, client.Code) {
				return object{"job": object{"id": "job_1"}, "next": lease()}, ""
			})
			f.model.messages <- &runtime.Result{Video: file(t, order, "film.mp4")}

			<-f.model.started
			require.Len(t, f.of("leaseJob"), 1)
			require.Equal(t, true, f.of("completeJob")[0].in["leaseNext"])
		})
	})
}

func TestFail(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		happens func(*fixture)
		class   string
		message string
	}{
		"ARuntimeThatDies":  {func(f *fixture) { f.model.die() }, "MODEL_CRASH", "the runtime died"},
		"ARuntimeThatHangs": {func(*fixture) { time.Sleep(5 * time.Minute) }, "TIMEOUT", "no progress for 5m0s"},
		"ARuntimeThatSaysWhy": {func(f *fixture) {
			f.model.messages <- runtime.Failf(runtime.InvalidInput, "no such resolution")
		}, "INVALID_INPUT", "no such resolution"},
		"ARuntimeThatTalksOutOfTurn": {func(f *fixture) { f.model.messages <- &runtime.Ready{} }, "MODEL_CRASH", "in the middle of a job"},
		"AnAttemptThatTakesTooLong": {func(f *fixture) {
			for range 60 {
				f.model.messages <- &runtime.Progress{Percent: 1, Phase: runtime.PhaseRendering}
				time.Sleep(time.Minute)
			}
		}, "TIMEOUT", "longer than its 1h0m0s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				<-f.model.started
				test.happens(f)
				time.Sleep(time.Second)

				failed := f.of("failJob")
				require.Len(t, failed, 1)
				require.Equal(t, test.class, failed[0].in["class"])
				require.Contains(t, failed[0].in["message"], test.message)
				require.True(t, strings.HasPrefix(failed[0].in["log"].(object)["objectKey"].(string), "LOG/"))
			})
		})
	}

	t.Run("ADeadRuntimeIsStartedAgainForTheNextJob", func(t *testing.T) {
		t.Parallel()
		story(t, func(c *control, _ *model) { c.queue(); c.queue() }, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.model.messages <- runtime.Failf(runtime.OutOfMemory, "CUDA out of memory")

			second := <-f.models
			<-second.started
		})
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()

	for name, deaf := range map[string]bool{"StopsTheRuntimeThenReleases": false, "KillsARuntimeThatDoesNotStop": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				<-f.model.started
				f.model.deaf.Store(deaf)
				f.set("heartbeat", func(object) (object, client.Code) { return heartbeatAnswer("CANCEL"), "" })
				time.Sleep(16 * time.Second)

				want := []string{"cancel"}
				if deaf {
					want = append(want, "kill")
				}
				require.Equal(t, want, drain(f.model.orders))
				require.Len(t, f.of("releaseJob"), 1)
				require.Empty(t, f.of("failJob", "completeJob"))
			})
		})
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()

	t.Run("IsAskedForAtTheLeasesPaceAndCommitted", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			for range 3 {
				require.Equal(t, "checkpoint", <-f.model.orders)
				f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
			}
			synctest.Wait()

			committed := f.of("commitCheckpoint")
			require.Len(t, committed, 3)
			for i, commit := range committed {
				require.Equal(t, time.Duration(i+1)*30*time.Second, commit.at)
			}
			require.Equal(t, 62.0, committed[0].in["percent"])
			require.Equal(t, object{"step": 7.0, "percent": 62.0}, committed[0].in["object"].(object)["metadata"])
			require.NoFileExists(t, order.Workdir+"/state")
		})
	})

	t.Run("OfTheLeaseIsResumedFrom", func(t *testing.T) {
		t.Parallel()
		sum, size, err := client.Checksum(strings.NewReader("state"))
		require.NoError(t, err)
		checkpoint := func(id string) object {
			return object{"id": id, "sizeBytes": size, "checksum": sum, "url": "http://store/" + id, "metadata": object{"step": 7, "percent": 62}}
		}
		prepare := func(c *control, _ *model) {
			c.queue(checkpoint("art_new"), checkpoint("art_old"))
			c.stored["/art_new"], c.stored["/art_old"] = "rotte", "state"
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.Resumed{Path: order.Checkpoints[0].Path, Step: 7}
			time.Sleep(5 * time.Second)

			require.Len(t, order.Checkpoints, 1, "what is not whole must not be tried")
			require.Equal(t, 7, order.Checkpoints[0].Step)
			rejected := f.of("rejectCheckpoint")
			require.Len(t, rejected, 1)
			require.Equal(t, "art_new", rejected[0].in["artifactId"])
			var resumed []object
			for _, report := range f.of("reportProgress") {
				if report.in["resumedFrom"] != nil {
					resumed = append(resumed, report.in)
				}
			}
			require.Len(t, resumed, 1, "it must be told once")
			require.Equal(t, "art_old", resumed[0]["resumedFrom"])
			require.Equal(t, "resuming from checkpoint at 62 %", resumed[0]["message"])
		})
	})

	t.Run("ThatDoesNotRestoreIsRejected", func(t *testing.T) {
		t.Parallel()
		sum, size, err := client.Checksum(strings.NewReader("state"))
		require.NoError(t, err)
		prepare := func(c *control, _ *model) {
			c.queue(object{"id": "art_1", "sizeBytes": size, "checksum": sum, "url": "http://store/art_1"})
			c.stored["/art_1"] = "state"
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.CheckpointRejected{Path: order.Checkpoints[0].Path, Reason: "another model"}
			synctest.Wait()

			require.Equal(t, "another model", f.of("rejectCheckpoint")[0].in["reason"])
		})
	})
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

	t.Run("LetsAFinishedFilmGoOut", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.notices <- Notice{Reason: "spot", Deadline: time.Now().Add(30 * time.Second)}
			f.model.messages <- &runtime.Result{Video: file(t, order, "film.mp4")}

			require.NoError(t, <-f.ended)
			require.Len(t, f.of("completeJob"), 1)
			require.Empty(t, f.of("releaseJob"))
		})
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()

	t.Run("LetsTheJobFinish", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("heartbeat", func(object) (object, client.Code) { return heartbeatAnswer("DRAIN"), "" })
			time.Sleep(45 * time.Second)
			f.model.messages <- &runtime.Result{Video: file(t, order, "film.mp4")}

			require.NoError(t, <-f.ended)
			require.Equal(t, []string{"completeJob", "deregisterWorker"}, names(f.of("completeJob", "releaseJob", "deregisterWorker")))
			require.Equal(t, false, f.of("completeJob")[0].in["leaseNext"])
		})
	})

	t.Run("HandsTheJobOverBeforeTheDeadline", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			deadline := time.Now().Add(135 * time.Second)
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
