package agent

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestYield(t *testing.T) {
	t.Parallel()

	t.Run("HandsTheJobBackWithAFreshCheckpointAndTakesAnother", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.paint(20 * time.Second)
			drain(f.model.orders)
			f.queue()
			f.set("heartbeat", func(object) (object, client.Code) { return heartbeatAnswer("CHECKPOINT"), "" })
			f.direct(object{"action": "CHECKPOINT", "jobId": "job_1"})
			require.Equal(t, "checkpoint", <-f.model.orders)
			f.paint(5 * time.Second) // the request comes again
			f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
			<-f.model.started

			require.Equal(t, []string{"commitCheckpoint", "releaseJob"}, names(f.of("commitCheckpoint", "releaseJob")))
			released := f.of("releaseJob")[0]
			require.Equal(t, 25*time.Second, released.at)
			require.Equal(t, "YIELDED", released.in["reason"])
			require.Equal(t, []string{"cancel, keep"}, drain(f.model.orders), "the runtime keeps the model in memory")
			require.Len(t, f.model.loads, 1)
		})
	})

	// A runtime that makes no checkpoint loses its work.
	for name, test := range map[string]struct {
		after    time.Duration
		givesWay bool
	}{
		"GivesWayWithoutACheckpointIfLittleIsLost": {50 * time.Second, true},
		"GoesOnIfMuchWouldBeLost":                  {70 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				f.paint(test.after)
				for range drain(f.model.orders) {
					f.model.messages <- &runtime.Checkpoint{}
				}
				synctest.Wait()
				f.direct(object{"action": "CHECKPOINT", "jobId": "job_1"})
				require.Equal(t, "checkpoint", <-f.model.orders)
				f.model.messages <- &runtime.Checkpoint{}
				synctest.Wait()

				if test.givesWay {
					require.Len(t, f.of("releaseJob"), 1)
					return
				}
				f.direct(object{"action": "CHECKPOINT", "jobId": "job_1"})
				f.paint(5 * time.Second)
				require.Empty(t, drain(f.model.orders), "it is asked once")
				f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
				synctest.Wait()
				require.Len(t, f.of("completeJob"), 1)
				require.Empty(t, f.of("releaseJob"))
			})
		})
	}

	t.Run("GoesOnIfItsCheckpointCannotBeSaved", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.paint(70 * time.Second)
			for range drain(f.model.orders) {
				f.model.messages <- &runtime.Checkpoint{}
			}
			synctest.Wait()
			f.set("commitCheckpoint", func(object) (object, client.Code) { return nil, client.CodeInvalidInput })
			f.direct(object{"action": "CHECKPOINT", "jobId": "job_1"})
			synctest.Wait()
			f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
			synctest.Wait()

			require.Len(t, f.of("commitCheckpoint"), 1)
			require.Empty(t, f.of("releaseJob"))
			require.Contains(t, f.log.String(), "does not give way")
		})
	})

	t.Run("GoesOnIfTheCheckpointTakesTooLong", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.direct(object{"action": "CHECKPOINT", "jobId": "job_1"})
			f.paint(121 * time.Second)
			f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
			synctest.Wait()

			require.Len(t, f.of("commitCheckpoint"), 1)
			require.Empty(t, f.of("releaseJob"))
		})
	})

	t.Run("IsOverIfTheMachineGoesAway", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.breakStore(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") })
			f.direct(object{"action": "CHECKPOINT", "jobId": "job_1"})
			f.leave(t)

			released := f.of("releaseJob")
			require.Len(t, released, 1)
			require.Equal(t, "PREEMPTED", released[0].in["reason"])
		})
	})
}
