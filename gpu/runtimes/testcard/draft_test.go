package testcard_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// drafted makes a draft, and returns its checkpoint and its result.
func drafted(t *testing.T, p *runtime.Process, job runtime.Start, steps int) (runtime.Restorable, *runtime.Result) {
	t.Helper()
	job.DraftSteps = steps
	require.NoError(t, p.Start(job))
	messages := until(t, p, isEnd)
	require.IsType(t, &runtime.Result{}, last(messages))
	saved := one[*runtime.Checkpoint](t, messages)
	return runtime.Restorable{Path: saved.Path, Step: saved.Step}, last(messages).(*runtime.Result)
}

func TestDraft(t *testing.T) {
	t.Parallel()

	t.Run("EndsWithACheckpointAndAClip", func(t *testing.T) {
		t.Parallel()
		p := launch(t)
		for _, shape := range []string{"16:9", "9:16", "1:1"} {
			job := newJob(t, "A calm sea", fmt.Sprintf(`{"durationSeconds":1,"fps":24,"pace":0,"aspectRatio":%q}`, shape))

			saved, result := drafted(t, p, job, 5)

			require.Equal(t, 5, saved.Step)
			require.Empty(t, result.Video)
			info, err := os.Stat(result.Preview)
			require.NoError(t, err)
			require.Less(t, info.Size(), int64(1<<20))
			require.NotEmpty(t, frames(t, result.Preview))
		}
	})

	t.Run("IsAllStepsAtMost", func(t *testing.T) {
		t.Parallel()
		saved, _ := drafted(t, launch(t), newJob(t, "A calm sea", `{"durationSeconds":0.5,"fps":8,"pace":0}`), 1000)
		require.Equal(t, 24, saved.Step)
	})

	t.Run("CanBeContinuedAsALongerDraft", func(t *testing.T) {
		t.Parallel()
		p := launch(t)
		job := newJob(t, "A calm sea", `{"durationSeconds":0.5,"fps":8,"pace":0}`)
		saved, _ := drafted(t, p, job, 5)
		job.Checkpoints = []runtime.Restorable{saved}
		for steps, at := range map[int]int{3: 5, 9: 9} {
			longer, _ := drafted(t, p, job, steps)
			require.Equal(t, at, longer.Step)
		}
	})

	t.Run("OfEightTakesCostsAThirdOfEightVideos", func(t *testing.T) {
		t.Parallel()
		p := launch(t)
		const takes, draftSteps = 8, 9 // of 48
		paramsOf := func(seed int) string {
			return fmt.Sprintf(`{"durationSeconds":4,"fps":1,"pace":0,"aspectRatio":"1:1","seed":%d}`, seed)
		}
		done, picked := 0, runtime.Restorable{}
		for seed := range takes {
			saved, _ := drafted(t, p, newJob(t, "A calm sea", paramsOf(seed)), draftSteps)
			done += saved.Step
			if seed == 5 {
				picked = saved
			}
		}
		job := newJob(t, "A calm sea", paramsOf(5))
		job.Checkpoints = []runtime.Restorable{picked}
		require.NoError(t, p.Start(job))
		messages := until(t, p, isEnd)
		resumed, result := one[*runtime.Resumed](t, messages), last(messages).(*runtime.Result)
		var video struct{ Steps int }
		require.NoError(t, json.Unmarshal(result.Output, &video))
		require.Equal(t, 48, video.Steps)
		done += video.Steps - resumed.Step

		share := float64(done) / float64(takes*video.Steps)
		t.Logf("%d steps instead of %d: %.3f", done, takes*video.Steps, share)
		require.LessOrEqual(t, share, 0.35)
		require.Equal(t, frames(t, render(t, p, newJob(t, "A calm sea", paramsOf(5))).Video), frames(t, result.Video))
	})
}
