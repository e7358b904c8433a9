package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestListen(t *testing.T) {
	t.Parallel()

	t.Run("HearsACancelAtOnce", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.paint(3 * time.Second)
			f.direct(object{"action": "CANCEL", "jobId": "job_1"})
			synctest.Wait()

			require.Equal(t, []string{"cancel"}, drain(f.model.orders))
			released := f.of("releaseJob")
			require.Len(t, released, 1)
			require.Equal(t, 3*time.Second, released[0].at)
			require.Equal(t, []string{"commitArtifact", "releaseJob"}, names(f.of("commitArtifact", "releaseJob")), "the log is kept first")
			require.Empty(t, f.of("heartbeat"))
		})
	})

	t.Run("KillsARuntimeThatIsDeafToACancel", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.model.deaf.Store(true)
			f.direct(object{"action": "CANCEL", "jobId": "job_1"})
			time.Sleep(5 * time.Second)
			synctest.Wait()

			require.Equal(t, []string{"cancel", "kill"}, drain(f.model.orders))
			require.Equal(t, 5*time.Second, f.of("releaseJob")[0].at)
		})
	})

	t.Run("CompletesNothingAfterACancel", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.breakStore(slow(10 * time.Second))
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			time.Sleep(5 * time.Second)
			f.direct(object{"action": "CANCEL", "jobId": "job_1"})
			time.Sleep(30 * time.Second)

			require.Empty(t, f.of("completeJob"))
			require.Len(t, f.of("releaseJob"), 1)
		})
	})

	t.Run("IgnoresACancelOfAnotherJob", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.direct(object{"action": "CANCEL", "jobId": "job_0"})
			synctest.Wait()

			require.Empty(t, drain(f.model.orders))
		})
	})

	t.Run("LetsAnIdleWorkerLeaveAtOnce", func(t *testing.T) {
		t.Parallel()
		story(t, func(*control, *model) {}, func(t *testing.T, f *fixture) {
			time.Sleep(3 * time.Second)
			f.direct(object{"action": "DRAIN"})

			require.NoError(t, <-f.ended)
			require.Equal(t, 3*time.Second, f.of("deregisterWorker")[0].at)
		})
	})

	t.Run("StopsEverythingWhenTheWorkerIsTerminated", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.direct(object{"action": "TERMINATE"})

			require.NoError(t, <-f.ended)
			require.Contains(t, drain(f.model.orders), "kill")
			require.Empty(t, f.of("completeJob", "failJob", "releaseJob", "commitArtifact"))
		})
	})

	t.Run("ConnectsAgainAfterAnOutage", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.paint(time.Second)
			f.goAway(refusing)
			f.paint(30 * time.Second)
			f.comeBack()
			f.paint(10 * time.Second)
			drain(f.model.orders)
			f.direct(object{"action": "CANCEL", "jobId": "job_1"})
			synctest.Wait()

			require.Equal(t, []string{"cancel"}, drain(f.model.orders))
		})
	})
}
