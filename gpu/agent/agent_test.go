package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func oneJob(c *control, _ *model) { c.queue() }

func lost(object) (object, client.Code) { return nil, client.CodeLeaseLost }

func TestGPUSamples(t *testing.T) {
	t.Parallel()

	reads := 0
	sampled := func(c *Config) {
		c.GPUs = func() []client.GpuSample {
			if reads++; reads == 1 { // the first read has just begun
				return nil
			}
			return []client.GpuSample{{Index: 3, PowerW: new(float64(reads))}}
		}
	}
	story(t, oneJob, func(t *testing.T, f *fixture) {
		<-f.model.started
		time.Sleep(25 * time.Second) // the bubble's clock

		beats := f.of("heartbeat")
		require.Len(t, beats, 2)
		for i, beat := range beats {
			require.Equal(t, []any{object{"index": 3.0, "powerW": float64(i + 2)}}, beat.in["gpus"])
		}
	}, sampled)
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("RendersAJobAndLeavesWhenToldTo", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.Progress{Percent: 50, Phase: runtime.PhaseRendering}
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4"), Thumbnail: file(t, order, "still.jpg")}
			synctest.Wait()
			time.Sleep(5 * time.Second) // the bubble's clock
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

	t.Run("ReportsOnceHowLongAModelWasLoaded", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct{ fetch, loadSeconds, fetchSeconds float64 }{
			"Measured":     {30, 12, 30},
			"Unbelievable": {1000, 0, 42},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				prepare := func(control *control, m *model) { control.queue(); m.load, m.fetch = 42*time.Second, c.fetch }
				story(t, prepare, func(t *testing.T, f *fixture) {
					<-f.model.started
					f.model.messages <- &runtime.Progress{Percent: 50, Phase: runtime.PhaseRendering}
					time.Sleep(20 * time.Second) // the bubble's clock

					var loads []any
					for _, report := range f.of("reportProgress") {
						if report.in["load"] != nil {
							loads = append(loads, report.in["load"])
						}
					}
					require.Equal(t, []any{object{"loadSeconds": c.loadSeconds, "fetchSeconds": c.fetchSeconds}}, loads)
				})
			})
		}
	})

	t.Run("RepeatsALostRequestUnderItsID", func(t *testing.T) {
		t.Parallel()
		story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
			time.Sleep(5 * time.Second) // the bubble's clock
			f.goAway(refusing)
			time.Sleep(60 * time.Second) // the poll at 20 s and its repetitions are lost
			f.comeBack()
			time.Sleep(60 * time.Second) // the bubble's clock

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
			time.Sleep(time.Second) // the bubble's clock
			f.queue()               // granted by the poll whose answer the agent will not wait for
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
			time.Sleep(65 * time.Second) // the bubble's clock

			require.Len(t, f.of("heartbeat"), 6)
		})
	})

	t.Run("OnceLostStopsTheRenderAndAllTalk", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("heartbeat", lost)
			time.Sleep(10 * time.Second) // the bubble's clock
			synctest.Wait()
			at := len(f.of("reportProgress", "releaseJob", "failJob", "completeJob", "commitCheckpoint"))

			require.Equal(t, "cancel, keep", <-f.model.orders)
			require.NoDirExists(t, order.Workdir)
			time.Sleep(time.Minute) // the bubble's clock
			require.Len(t, f.of("reportProgress", "releaseJob", "failJob", "completeJob", "commitCheckpoint"), at)
			require.Len(t, f.of("heartbeat"), 1)
			require.Greater(t, len(f.of("leaseJob")), 1, "the worker must ask for its next job")
		})
	})

	t.Run("PublishesNothingUntilAHeartbeatSaidItIsStillHeld", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			time.Sleep(15 * time.Second) // the bubble's clock
			f.goAway(refusing)
			time.Sleep(60 * time.Second) // the bubble's clock
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			time.Sleep(5 * time.Second) // the bubble's clock
			before := f.count()
			f.comeBack()
			time.Sleep(20 * time.Second) // the bubble's clock

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
				time.Sleep(time.Minute) // the bubble's clock
				f.model.messages <- &runtime.Progress{Percent: 50, Phase: runtime.PhaseRendering}
			}
			drain(f.model.orders)
			time.Sleep(2 * time.Minute) // the bubble's clock

			require.Contains(t, drain(f.model.orders), "cancel, keep")
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
