package inputs_test

import (
	"image/color"
	"net/http"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestReuse(t *testing.T) {
	t.Parallel()

	again := func(t *testing.T, s *jobstest.Stack, in submit.Submission) *models.Job {
		t.Helper()
		in.Reuse = true
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		return job
	}

	t.Run("ComparesTheContentOfAnImageOnTheWeb", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		white, black := newSite(t, serving(jobstest.Picture(t, color.White))), newSite(t, serving(jobstest.Picture(t, color.Black)))
		first := again(t, s, fromImage(white.url))
		fetch(t, s)
		finish(t, s, s.Worker(t, "one"))

		same, uploaded := again(t, s, fromImage(white.url)), again(t, s, fromImage(string(s.UploadInput(t, s.Client, jobstest.Picture(t, color.White)))))
		require.Equal(t, models.JobBlocked, same.Status, "its content is unknown")
		fetch(t, s)
		require.Equal(t, first.ID, uploaded.ReusedFrom)
		require.Contains(t, []models.JobID{first.ID, uploaded.ID}, s.Reload(t, same.ID).ReusedFrom)

		other := again(t, s, fromImage(black.url))
		changed := serving(jobstest.Picture(t, color.Black))
		white.serve.Store(&changed)
		moved := again(t, s, fromImage(white.url))
		fetch(t, s)
		for _, job := range []*models.Job{other, moved} {
			require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		}
		gone := answering(http.StatusNotFound)
		white.serve.Store(&gone)
		failed := again(t, s, fromImage(white.url))
		fetch(t, s)
		require.Equal(t, models.JobFailed, s.Reload(t, failed.ID).Status)
	})

	t.Run("WaitsForTheContentOfOtherJobs", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		worker, stitches := s.Worker(t, "one"), stitcher(t, s)
		source := s.Submit(t)
		in := func(of *models.Job, take string) submit.Submission {
			return stitching(map[string]any{"logos": []any{string(of.ID) + take}})
		}
		first := again(t, s, in(source, ".lastFrame"))
		require.Equal(t, models.JobBlocked, first.Status)
		source = finish(t, s, worker)
		_, err := s.Settler.Settle(t.Context())
		require.NoError(t, err)
		s.RequireInvariants(t)
		_, fence := s.Lease(t, stitches)
		_, err = s.Attempts.Complete(t.Context(), stitches, fence,
			lease.Completion{Video: new(s.Upload(t, stitches, fence, models.ArtifactFinalVideo, []byte("whole")))})
		require.NoError(t, err)

		require.Equal(t, first.ID, again(t, s, in(source, ".lastFrame")).ReusedFrom)
		require.Empty(t, again(t, s, in(source, ".firstFrame")).ReusedFrom)
		byID := again(t, s, stitching(map[string]any{"logos": []any{string(source.ResultID) + ".lastFrame"}}))
		require.NotEmpty(t, byID.ReusedFrom, "the same frame, named by its video")

		// The twin of the source has the same bytes, and waits as a job that was just submitted.
		twin := s.Submit(t)
		waiting := again(t, s, in(twin, ".lastFrame"))
		child := jobstest.SubmitAfter(t, s, waiting.ID)
		finish(t, s, worker)
		s.RequireInvariants(t)
		_, err = s.Settler.Settle(t.Context())
		require.NoError(t, err)
		require.Equal(t, models.JobCompleted, s.Reload(t, waiting.ID).Status)
		require.Equal(t, models.JobQueued, s.Reload(t, child.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("ComparesTheValuesOfOutputs", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		writer, stitches := scribe(t, s), stitcher(t, s)
		one, two, three := words(t, s), words(t, s), words(t, s)
		write(t, s, writer, `{"a": "fox", "b": 1}`)
		write(t, s, writer, `{"a": "fox", "b": 2}`)
		write(t, s, writer, `{"a": "owl"}`)
		first := again(t, s, text("a "+value(one, ".a")))
		_, fence := s.Lease(t, stitches)
		_, err := s.Attempts.Complete(t.Context(), stitches, fence,
			lease.Completion{Video: new(s.Upload(t, stitches, fence, models.ArtifactFinalVideo, []byte("whole")))})
		require.NoError(t, err)

		require.Equal(t, first.ID, again(t, s, text("a "+value(two, ".a"))).ReusedFrom)
		require.Empty(t, again(t, s, text("a "+value(three, ".a"))).ReusedFrom)
		require.Empty(t, again(t, s, text("a fox")).ReusedFrom, "a text is not a value")
		s.RequireInvariants(t)
	})
}
