package inputs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"image/color"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// stitch is a model that takes several files.
const stitch = `{"models": [{
	"name": "stitch", "type": "video.stitch", "gpuTypes": ["any"], "produces": "video", "timeoutSeconds": 60, "gpuSecondsPerSecond": 1,
	"params": {"type": "object", "additionalProperties": false, "properties": {
		"clips": {"type": "array", "maxItems": 100, "items": {"type": "string"}, "x-reelay-input": "video"},
		"audio": {"type": "string", "x-reelay-input": ["audio", "video"]},
		"logos": {"type": "array", "maxItems": 100, "items": {"type": "string"}, "x-reelay-input": "image"},
		"referenceImage": {"type": "string"},
		"title": {"type": "string"}}}},
	{"name": "words", "type": "audio.transcribe", "gpuTypes": ["any"], "produces": "output", "timeoutSeconds": 60, "gpuSecondsPerSecond": 1,
	"params": {"type": "object"}}]}`

const (
	mp4 = "\x00\x00\x00\x20ftypisom\x00\x00\x02\x00 a video"
	mp3 = "ID3\x04 a sound"
)

// studio is a stack with the model stitch.
func studio(t *testing.T) *jobstest.Stack {
	t.Helper()
	s := jobstest.New(t)
	source, err := catalogue.Parse("stitch.json", []byte(stitch))
	require.NoError(t, err)
	known, err := catalogue.Load(source)
	require.NoError(t, err)
	s.Submitter.Catalogue.Replace(known)
	return s
}

// stitcher registers a worker for the model.
func stitcher(t *testing.T, s *jobstest.Stack) jobs.Principal {
	t.Helper()
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: "static", ProviderInstanceID: "stitcher", GPUCount: 1, Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"stitch"}, AgentVersion: "test",
	})
	require.NoError(t, err)
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

func stitching(params map[string]any) submit.Submission {
	text, _ := json.Marshal(params)
	return submit.Submission{Model: "stitch", Params: text}
}

// submitStitch submits a job of the model.
func submitStitch(t *testing.T, s *jobstest.Stack, params map[string]any) *models.Job {
	t.Helper()
	job, _, err := s.Submitter.Submit(t.Context(), s.Client, stitching(params))
	require.NoError(t, err)
	return job
}

// finish runs the testcard job that is due to its end, and returns it.
func finish(t *testing.T, s *jobstest.Stack, worker jobs.Principal) *models.Job {
	t.Helper()
	_, fence := s.Lease(t, worker)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
	return end.Job
}

// named returns the names and ids of a lease's inputs.
func named(lease *lease.Lease) (names []string, ids []models.ArtifactID) {
	for _, in := range lease.Inputs {
		names, ids = append(names, in.Name), append(ids, in.ID)
	}
	return names, ids
}

func TestInputFiles(t *testing.T) {
	t.Parallel()

	t.Run("AreGivenToTheWorkerByTheirNames", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		first := s.Submit(t)
		done := finish(t, s, s.Worker(t, "one"))
		require.Equal(t, first.ID, done.ID)
		clip := s.UploadMedia(t, s.Client, "video/mp4", []byte(mp4))
		sound := s.UploadMedia(t, s.Client, "audio/mpeg", []byte(mp3))
		image := s.UploadInput(t, s.Client, jobstest.Picture(t, color.White))

		job := submitStitch(t, s, map[string]any{
			"clips": []any{clip, done.ID, done.ResultID, clip}, "audio": sound, "referenceImage": image, "title": "job_done",
		})
		lease, _ := s.Lease(t, stitcher(t, s))

		require.Equal(t, models.JobQueued, job.Status)
		require.Equal(t, job.ID, lease.Job.ID)
		names, ids := named(lease)
		require.Equal(t, []string{"referenceImage", "audio", "clips.0", "clips.1", "clips.2", "clips.3"}, names)
		require.Equal(t, []models.ArtifactID{image, sound, clip, done.ResultID, done.ResultID, clip}, ids)
		s.RequireInvariants(t)
	})

	t.Run("OfAJobThatHasNotEndedAreWaitedFor", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		source := s.Submit(t)
		job := submitStitch(t, s, map[string]any{"clips": []any{source.ID, source.ID}})
		parents, err := s.Edges(t, job.ID).Parents(t.Context())
		require.NoError(t, err)

		done := finish(t, s, s.Worker(t, "one"))
		lease, _ := s.Lease(t, stitcher(t, s))

		require.Equal(t, models.JobBlocked, job.Status)
		require.Len(t, parents[job.ID], 1)
		require.Equal(t, source.ID, parents[job.ID][0].ID)
		names, ids := named(lease)
		require.Equal(t, []string{"clips.0", "clips.1"}, names)
		require.Equal(t, []models.ArtifactID{done.ResultID, done.ResultID}, ids)
		s.RequireInvariants(t)
	})

	t.Run("OfAJobThatFailsFailTheJobToo", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		source := s.Submit(t)
		job := submitStitch(t, s, map[string]any{"clips": []any{source.ID}})

		_, err := s.Canceller.Cancel(t.Context(), s.Client, source.ID)
		require.NoError(t, err)
		_, _, late := s.Submitter.Submit(t.Context(), s.Client, stitching(map[string]any{"clips": []any{source.ID}}))

		require.Equal(t, models.FailDependency, s.Reload(t, job.ID).FailureClass)
		jobstest.RequireInvalid(t, late, "params.clips.0")
		require.ErrorContains(t, late, "CANCELLED")
		s.RequireInvariants(t)
	})

	t.Run("AreRefusedWithTheirPlace", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierEnterprise), access.RoleClient)
		theirs := s.UploadMedia(t, other, "video/mp4", []byte(mp4))
		foreign, _, err := s.Submitter.Submit(t.Context(), other, jobstest.Submission())
		require.NoError(t, err)
		finish(t, s, s.Worker(t, "one"))
		foreignVideo := s.Reload(t, foreign.ID).ResultID
		deleted := s.Submit(t)
		deletedVideo := finish(t, s, s.Worker(t, "two")).ResultID
		_, err = s.Deleter.Delete(t.Context(), s.Client, deleted.ID)
		require.NoError(t, err)
		words, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "words"})
		require.NoError(t, err)
		clip := s.UploadMedia(t, s.Client, "video/mp4", []byte(mp4))
		sound := s.UploadMedia(t, s.Client, "audio/mpeg", []byte(mp3))
		image := s.UploadInput(t, s.Client, jobstest.Picture(t, color.White))
		text := s.UploadMedia(t, s.Client, "video/webm", []byte("this is no video"))
		absent, err := s.Inputs.Request(t.Context(), s.Client, "video/mp4", 10, "AAAAAA==")
		require.NoError(t, err)
		own := s.Submit(t)
		before := s.Count(t, "jobs")

		for name, bad := range map[string]struct {
			param string
			value any
			code  apierror.Code
			field string
		}{
			"another account's upload":    {"clips", []any{clip, theirs}, apierror.CodeNotFound, "clips.1"},
			"another account's job":       {"clips", []any{foreign.ID}, apierror.CodeNotFound, "clips.0"},
			"another account's video":     {"clips", []any{foreignVideo}, apierror.CodeNotFound, "clips.0"},
			"a deleted job":               {"clips", []any{deleted.ID}, apierror.CodeNotFound, "clips.0"},
			"a deleted job's video":       {"clips", []any{deletedVideo}, apierror.CodeNotFound, "clips.0"},
			"an upload that is not there": {"clips", []any{models.NewArtifactID()}, apierror.CodeNotFound, "clips.0"},
			"a job that is not there":     {"clips", []any{models.NewJobID()}, apierror.CodeNotFound, "clips.0"},
			"no id of an artifact":        {"clips", []any{"art_x"}, apierror.CodeNotFound, "clips.0"},
			"no id of a job":              {"clips", []any{"job_' OR true"}, apierror.CodeNotFound, "clips.0"},
			"an empty name":               {"clips", []any{""}, apierror.CodeInvalidInput, "clips.0"},
			"a URL of a video":            {"clips", []any{"https://example.com/a.mp4"}, apierror.CodeInvalidInput, "clips.0"},
			"an image as a video":         {"clips", []any{image}, apierror.CodeInvalidInput, "clips.0"},
			"a video as an image":         {"referenceImage", clip, apierror.CodeInvalidInput, "referenceImage"},
			"a job as an image":           {"logos", []any{own.ID}, apierror.CodeInvalidInput, "logos.0"},
			"a sound as a video":          {"clips", []any{sound}, apierror.CodeInvalidInput, "clips.0"},
			"an image as a sound":         {"audio", image, apierror.CodeInvalidInput, "audio"},
			"a job without a video":       {"clips", []any{words.ID}, apierror.CodeInvalidInput, "clips.0"},
			"text that is said to be one": {"clips", []any{text}, apierror.CodeInvalidInput, "clips.0"},
			"what was not uploaded":       {"clips", []any{absent.ArtifactID}, apierror.CodeInvalidInput, "clips.0"},
		} {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, stitching(map[string]any{bad.param: bad.value}))
			jobstest.RequireCode(t, err, bad.code)
			var refused *apierror.Error
			require.ErrorAs(t, err, &refused, name)
			require.Equal(t, "params."+bad.field, refused.Field, name)
		}
		require.Equal(t, before, s.Count(t, "jobs"))
	})

	t.Run("AreLimitedInNumber", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		clip := string(s.UploadMedia(t, s.Client, "video/mp4", []byte(mp4)))
		image := string(s.UploadInput(t, s.Client, jobstest.Picture(t, color.White)))
		times := func(n int, value string) []string {
			return strings.Split(strings.Repeat(value+" ", n)[:n*(len(value)+1)-1], " ")
		}

		submitStitch(t, s, map[string]any{"clips": times(99, clip), "referenceImage": image})
		for _, params := range []map[string]any{
			{"clips": times(100, clip), "referenceImage": image},
			{"logos": []string{"https://example.com/1", "https://example.com/2", "https://example.com/3", "https://example.com/4",
				"https://example.com/5"}},
		} {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, stitching(params))
			jobstest.RequireInvalid(t, err, "params")
		}
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, stitching(map[string]any{"clips": times(101, clip)}))
		jobstest.RequireInvalid(t, err, "params.clips")
	})

	t.Run("AreAcceptedUpTo500MB", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, contentType := range []string{"video/mp4", "video/webm", "audio/mpeg", "audio/mp4", "audio/wav", "audio/x-wav", "audio/flac",
			"audio/ogg"} {
			_, err := s.Inputs.Request(t.Context(), s.Client, contentType, 500<<20, "AAAAAA==")
			require.NoError(t, err)
			for _, size := range []int64{0, -1, 500<<20 + 1} {
				_, err := s.Inputs.Request(t.Context(), s.Client, contentType, size, "AAAAAA==")
				jobstest.RequireInvalid(t, err, "sizeBytes")
			}
		}
		_, err := s.Inputs.Request(t.Context(), s.Client, "video/quicktime", 1, "AAAAAA==")
		jobstest.RequireInvalid(t, err, "contentType")
		s.Exec(t, "UPDATE uploads SET size_bytes = 10 * 1024^3::bigint WHERE object_key IN (SELECT object_key FROM uploads LIMIT 5)")
		_, err = s.Inputs.Request(t.Context(), s.Client, "video/mp4", 1, "AAAAAA==")
		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
	})

	t.Run("OnTheWebAreAllFetchedBeforeTheJobIsQueued", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		black, white := newSite(t, serving(jobstest.Picture(t, color.Black))), newSite(t, answering(http.StatusServiceUnavailable))
		job := submitStitch(t, s, map[string]any{"logos": []any{black.url, white.url, black.url}})
		fetch(t, s)
		half := s.Reload(t, job.ID)
		again := serving(jobstest.Picture(t, color.White))
		white.serve.Store(&again)
		fetch(t, s)

		lease, _ := s.Lease(t, stitcher(t, s))

		require.Equal(t, models.JobBlocked, job.Status)
		require.Equal(t, models.JobBlocked, half.Status)
		names, ids := named(lease)
		require.Equal(t, []string{"logos.0", "logos.1", "logos.2"}, names)
		require.Equal(t, ids[0], ids[2])
		require.NotEqual(t, ids[0], ids[1])
		s.RequireInvariants(t)
	})
}

func TestInputFilesStay(t *testing.T) {
	t.Parallel()

	// waiting returns a completed job, and another that starts from its video and waits.
	waiting := func(t *testing.T, s *jobstest.Stack) (source, user *models.Job) {
		t.Helper()
		s.Submit(t)
		source = finish(t, s, s.Worker(t, "one"))
		return source, submitStitch(t, s, map[string]any{"clips": []any{source.ResultID}})
	}

	t.Run("WhileAJobNeedsThem", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		source, user := waiting(t, s)
		review := func(by string) models.ArtifactID {
			jobstest.Age(t, s, by)
			_, err := s.Upkeep.ReviewArtifacts(t.Context())
			require.NoError(t, err)
			_, err = s.Upkeep.ForgetJobs(t.Context())
			require.NoError(t, err)
			s.RequireInvariants(t)
			return s.Reload(t, source.ID).ResultID
		}

		_, refused := s.Deleter.Delete(t.Context(), s.Client, source.ID)
		kept := review("200 days")
		_, err := s.Canceller.Cancel(t.Context(), s.Client, user.ID)
		require.NoError(t, err)
		s.Exec(t, "UPDATE artifacts SET review_at = clock_timestamp()")
		_, err = s.Upkeep.ReviewArtifacts(t.Context())
		require.NoError(t, err)
		_, retried := s.Retrier.Retry(t.Context(), s.Client, user.ID, false)

		jobstest.RequireCode(t, refused, apierror.CodeConflict)
		require.ErrorContains(t, refused, string(user.ID))
		require.Equal(t, source.ResultID, kept)
		require.Empty(t, s.Reload(t, source.ID).ResultID)
		jobstest.RequireCode(t, retried, apierror.CodeConflict)
		require.ErrorContains(t, retried, "params.clips.0")
	})

	t.Run("UntilTheJobIsDeletedToo", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		source, user := waiting(t, s)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, user.ID)
		require.NoError(t, err)
		again, err := s.Retrier.Retry(t.Context(), s.Client, user.ID, false)
		require.NoError(t, err)
		_, refused := s.Deleter.Delete(t.Context(), s.Client, source.ID)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, user.ID)
		require.NoError(t, err)

		for _, id := range []models.JobID{user.ID, source.ID, source.ID} {
			_, err = s.Deleter.Delete(t.Context(), s.Client, id)
			require.NoError(t, err)
		}

		require.Equal(t, models.JobQueued, again.Status)
		jobstest.RequireCode(t, refused, apierror.CodeConflict)
		require.Zero(t, s.Count(t, "job_sources"))
		s.RequireInvariants(t)
	})

	t.Run("OrTheSubmitSeesThatTheyAreDeleted", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		s.Submit(t)
		source := finish(t, s, s.Worker(t, "one"))
		answers := make(chan error)

		err := jobs.InTx(t.Context(), s.DB, func(ctx context.Context, tx bun.Tx) error { // as deleteJob does
			if err := models.RedactJob(ctx, tx, source.ID); err != nil {
				return err
			}
			go func() {
				_, _, err := s.Submitter.Submit(t.Context(), s.Client, stitching(map[string]any{"clips": []any{source.ID}}))
				answers <- err
			}()
			s.WaitForLocks(t, 1)
			return models.DoomObjectsOf(ctx, tx, []models.JobID{source.ID})
		})

		require.NoError(t, err)
		jobstest.RequireCode(t, <-answers, apierror.CodeNotFound)
		s.RequireInvariants(t)
	})

	t.Run("AndARepeatedKeyFindsTheJobWithoutThem", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		source := s.Submit(t)
		in := stitching(map[string]any{"clips": []any{source.ID}})
		in.IdempotencyKey = new("k")
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, source.ID)
		require.NoError(t, err)

		again, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, in)

		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, again.ID)
	})

	t.Run("AndARedriveMayNameOthers", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		worker := stitcher(t, s)
		clip := s.UploadMedia(t, s.Client, "video/mp4", []byte(mp4))
		job := submitStitch(t, s, map[string]any{"clips": []any{clip}})
		_, fence := s.Lease(t, worker)
		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "it has no picture"})
		require.NoError(t, err)
		letter, err := models.FindDeadLetter(t.Context(), s.DB, job.ID, 1)
		require.NoError(t, err)
		queued := s.Submit(t)
		redrive := func(clip any) error {
			_, err := s.DeadLetters.Redrive(t.Context(), s.Admin, letter.ID,
				operate.Edit{Params: json.RawMessage(fmt.Sprintf(`{"clips": [%q]}`, clip))})
			return err
		}

		self, early := redrive(job.ID), redrive(queued.ID)
		done := finish(t, s, s.Worker(t, "one"))
		require.NoError(t, redrive(done.ID))
		lease, _ := s.Lease(t, worker)

		jobstest.RequireInvalid(t, self, "params.clips.0")
		jobstest.RequireCode(t, early, apierror.CodeConflict)
		names, ids := named(lease)
		require.Equal(t, []string{"clips.0"}, names)
		require.Equal(t, []models.ArtifactID{done.ResultID}, ids)
		s.RequireInvariants(t)
	})
}
