package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// oneDraft queues a draft of seven steps of a strict model.
func oneDraft(c *control, _ *model) {
	leased := lease()
	leased["draftSteps"] = 7
	leased["model"] = object{"version": 1, "produces": "VIDEO", "determinism": "STRICT"}
	c.leases = append(c.leases, leased)
}

func TestDraft(t *testing.T) {
	t.Parallel()

	t.Run("EndsAfterItsCheckpointIsCommitted", func(t *testing.T) {
		t.Parallel()
		story(t, oneDraft, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.Handle{Value: "job 7 of another server"}
			f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "a"), Step: 7, Percent: 30}
			f.model.messages <- &runtime.Result{Preview: file(t, order, "draft.mp4")}
			time.Sleep(5 * time.Second)

			require.Equal(t, 7, order.DraftSteps)
			require.Equal(t, runtime.Strict, order.Determinism)
			require.Equal(t, []string{"commitCheckpoint", "completeJob"}, names(f.of("commitCheckpoint", "completeJob", "failJob")))
			ended := f.of("completeJob")[0].in
			require.Equal(t, "video/mp4", ended["preview"].(object)["contentType"])
			require.Nil(t, ended["video"])
		})
	})

	t.Run("FailsIfItsCheckpointCannotBeSaved", func(t *testing.T) {
		t.Parallel()
		story(t, oneDraft, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("commitCheckpoint", func(object) (object, client.Code) { return nil, client.CodeInvalidInput })
			f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "a"), Step: 7, Percent: 30}
			f.model.messages <- &runtime.Result{Preview: file(t, order, "draft.mp4")}
			time.Sleep(5 * time.Second)

			require.Empty(t, f.of("completeJob"))
			require.Equal(t, "TRANSIENT", f.of("failJob")[0].in["class"])
		})
	})

	t.Run("MustHaveAPreviewAndNoVideo", func(t *testing.T) {
		t.Parallel()
		for _, result := range []runtime.Result{{}, {Video: "video.mp4"}, {Video: "video.mp4", Preview: "draft.mp4"}} {
			story(t, oneDraft, func(t *testing.T, f *fixture) {
				<-f.model.started
				f.model.messages <- &result
				time.Sleep(5 * time.Second)

				require.Empty(t, f.of("completeJob"))
				require.Equal(t, "MODEL_CRASH", f.of("failJob")[0].in["class"])
			})
		}
	})

	t.Run("AVideosPreviewIsNotUploaded", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			require.Zero(t, order.DraftSteps)
			require.Equal(t, runtime.BestEffort, order.Determinism)
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4"), Preview: file(t, order, "small.mp4")}
			synctest.Wait()
			time.Sleep(5 * time.Second)

			require.Nil(t, f.of("completeJob")[0].in["preview"])
		})
	})
}
