package inputs_test

import (
	"bytes"
	"encoding/json"
	"image/color"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// fromImage returns a submission of a job with that reference image.
func fromImage(reference string) submit.Submission {
	params, _ := json.Marshal(map[string]any{"durationSeconds": 1, "pace": 0, "referenceImage": reference})
	return submit.Submission{Model: "testcard", Prompt: "a lighthouse", Params: params}
}

func submitFrom(t *testing.T, s *jobstest.Stack, reference string) *models.Job {
	t.Helper()
	job, _, err := s.Submitter.Submit(t.Context(), s.Client, fromImage(reference))
	require.NoError(t, err)
	return job
}

// filesOf returns the INPUT artifacts of a job.
func filesOf(t *testing.T, s *jobstest.Stack, job models.JobID) []*models.Artifact {
	t.Helper()
	all, err := s.Edges(t, job).Artifacts(t.Context())
	require.NoError(t, err)
	var found []*models.Artifact
	for _, a := range all {
		if a.Type == models.ArtifactInput {
			found = append(found, a)
		}
	}
	return found
}

func TestInput(t *testing.T) {
	t.Parallel()

	t.Run("IsGivenToTheWorkersOfAllJobsThatNameIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		data := jobstest.Picture(t, color.White)
		id := s.UploadInput(t, s.Client, data)

		first, second := submitFrom(t, s, string(id)), submitFrom(t, s, string(id))
		lease, _ := s.Lease(t, s.Worker(t, "one"))

		require.Equal(t, models.JobQueued, first.Status)
		require.Equal(t, first.ID, lease.Job.ID)
		require.Len(t, lease.Inputs, 1)
		require.Equal(t, id, lease.Inputs[0].ID)
		require.Equal(t, jobstest.Checksum(data), lease.Inputs[0].Checksum)
		require.JSONEq(t, `{"width":32,"height":18}`, string(lease.Inputs[0].Metadata))
		for _, job := range []*models.Job{first, second} {
			used := filesOf(t, s, job.ID)
			require.Len(t, used, 1)
			require.Equal(t, job.ID, used[0].JobID)
		}
		link, err := s.Reads.Jobs.Link(t.Context(), lease.Inputs[0].Artifact, jobs.UploadTTL)
		require.NoError(t, err)
		require.NotEmpty(t, link)
		s.RequireInvariants(t)
	})

	t.Run("IsStoredForARequestThatContainsIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)

		a, err := s.Inputs.Put(t.Context(), s.Client, "image/png", bytes.NewReader(jobstest.Picture(t, color.White)))
		require.NoError(t, err)
		job := submitFrom(t, s, string(a.ID))

		require.Equal(t, models.JobQueued, job.Status)
		require.Equal(t, s.Account.ID, a.AccountID)
		_, err = s.Inputs.Put(t.Context(), s.Client, "image/jpeg", bytes.NewReader(jobstest.Picture(t, color.White)))
		jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
		_, err = s.Inputs.Put(t.Context(), s.Client, "", strings.NewReader("<svg/>"))
		jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
		require.Len(t, jobstest.Stored(t, s), 1)
	})

	t.Run("BelongsToItsAccountOnly", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierEnterprise), access.RoleClient)
		data := jobstest.Picture(t, color.White)
		announced, used := s.UploadInput(t, other, data), s.UploadInput(t, other, data)
		own := s.Submit(t)
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)
		log := s.Upload(t, worker, fence, models.ArtifactLog, []byte("words"))
		_, err := s.Attempts.CommitArtifact(t.Context(), worker, fence, models.ArtifactLog, log)
		require.NoError(t, err)
		_, _, err = s.Submitter.Submit(t.Context(), other, fromImage(string(used)))
		require.NoError(t, err)
		all, err := s.Edges(t, own.ID).Artifacts(t.Context())
		require.NoError(t, err)
		before := s.Count(t, "jobs")

		for _, id := range []string{
			string(announced), string(used), string(models.NewArtifactID()), "art_", "art_x", "art_' OR true",
			string(all[0].ID), // the account's own artifact, but not an input
		} {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, fromImage(id))
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		_, err = s.Reads.Jobs.Artifact(t.Context(), s.Client, used)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		require.Equal(t, before, s.Count(t, "jobs"))
	})

	t.Run("IsRefusedUnlessItIsACompleteImage", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		data := jobstest.Picture(t, color.White)
		page := []byte("<!doctype html><script>alert(1)</script>")
		flood := bytes.Clone(data)
		copy(flood[16:], "\x00\x00\xea\x60\x00\x00\xea\x60") // 60,000 × 60,000, with a wrong checksum
		notYet := s.RequestInput(t, s.Client, data)
		cut := s.RequestInput(t, s.Client, data)
		// S3 answers 403: the size is a part of what is signed.
		require.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden}, s.Send(t, cut.Link, data[:len(data)-1]))
		bent := s.RequestInput(t, s.Client, data)
		require.Equal(t, http.StatusBadRequest, s.Send(t, bent.Link, append(bytes.Clone(data[:len(data)-1]), 'x')))
		twice := s.RequestInput(t, s.Client, data)
		require.Equal(t, http.StatusOK, s.Send(t, twice.Link, data))
		require.Equal(t, http.StatusPreconditionFailed, s.Send(t, twice.Link, data))

		for _, id := range []models.ArtifactID{notYet.ArtifactID, cut.ArtifactID, bent.ArtifactID, s.UploadInput(t, s.Client, page),
			s.UploadInput(t, s.Client, flood)} {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, fromImage(string(id)))
			jobstest.RequireInvalid(t, err, "params.referenceImage")
		}

		require.Zero(t, s.Count(t, "jobs"))
		require.Zero(t, s.Count(t, "artifacts"))
		require.Equal(t, http.StatusOK, s.Send(t, notYet.Link, data))
		submitFrom(t, s, string(notYet.ArtifactID))
	})

	t.Run("IsRefusedIfTheStoredObjectDiffers", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		id := s.UploadInput(t, s.Client, jobstest.Picture(t, color.White))
		s.Exec(t, "UPDATE uploads SET checksum = 'AAAAAA==' WHERE artifact_id = ?", id)

		_, _, err := s.Submitter.Submit(t.Context(), s.Client, fromImage(string(id)))

		jobstest.RequireCode(t, err, apierror.CodeChecksumMismatch)
	})

	t.Run("IsAcceptedWithinItsLimits", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, bad := range []struct {
			field, contentType, checksum string
			size                         int64
		}{
			{"contentType", "image/svg+xml", "AAAAAA==", 1},
			{"contentType", "text/html", "AAAAAA==", 1},
			{"contentType", "image/png; a=b", "AAAAAA==", 1},
			{"contentType", "", "AAAAAA==", 1},
			{"sizeBytes", "image/png", "AAAAAA==", 0},
			{"sizeBytes", "image/png", "AAAAAA==", -1},
			{"sizeBytes", "image/png", "AAAAAA==", 20<<20 + 1},
			{"checksum", "image/png", "AAAA", 1},
			{"checksum", "image/png", "", 1},
			{"checksum", "image/png", "AAAAAA==\n", 1},
			{"checksum", "image/png", "AAAA\r\nAA==", 1},
			{"checksum", "image/png", "AAAAAB==", 1},
		} {
			_, err := s.Inputs.Request(t.Context(), s.Client, bad.contentType, bad.size, bad.checksum)
			jobstest.RequireInvalid(t, err, bad.field)
		}
		s.Exec(t, `INSERT INTO uploads (object_key, account_id, artifact_id, type, content_type, size_bytes, checksum)
			SELECT 'inputs/' || i, ?, gen_random_uuid(), 'INPUT', 'image/png', 1, 'AAAAAA==' FROM generate_series(1, 1000) i`, s.Account.ID)

		_, err := s.Inputs.Request(t.Context(), s.Client, "image/png", 1, "AAAAAA==")

		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
	})

	t.Run("IsComparedForARepeatedIdempotencyKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		id, another := s.UploadInput(t, s.Client, jobstest.Picture(t, color.White)), s.UploadInput(t, s.Client, jobstest.Picture(t, color.Black))
		in, other := fromImage(string(id)), fromImage(string(another))
		in.IdempotencyKey, other.IdempotencyKey = new("k"), new("k")
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)

		again, deduplicated, err1 := s.Submitter.Submit(t.Context(), s.Client, in)
		_, _, err2 := s.Submitter.Submit(t.Context(), s.Client, other)
		s.Exec(t, "DELETE FROM input_uses")
		s.Exec(t, "DELETE FROM artifacts WHERE id = ?", id)
		afterwards, _, err3 := s.Submitter.Submit(t.Context(), s.Client, in)

		require.NoError(t, err1)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, again.ID)
		jobstest.RequireCode(t, err2, apierror.CodeIdempotencyConflict)
		require.NoError(t, err3)
		require.Equal(t, first.ID, afterwards.ID)
	})

	t.Run("IsDeletedWithTheLastJobThatUsesIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		id := s.UploadInput(t, s.Client, jobstest.Picture(t, color.White))
		first, second := submitFrom(t, s, string(id)), submitFrom(t, s, string(id))
		for _, job := range []*models.Job{first, second} {
			_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
			require.NoError(t, err)
		}

		_, err := s.Deleter.Delete(t.Context(), s.Client, first.ID)
		require.NoError(t, err)
		left := len(filesOf(t, s, second.ID))
		_, err = s.Deleter.Delete(t.Context(), s.Client, second.ID)
		require.NoError(t, err)
		_, err = s.Upkeep.DeleteObjects(t.Context())
		require.NoError(t, err)

		require.Equal(t, 1, left)
		require.Empty(t, filesOf(t, s, second.ID))
		require.Empty(t, jobstest.Stored(t, s))
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, fromImage(string(id)))
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		s.RequireInvariants(t)
	})

	t.Run("IsDeletedAfterADayUnlessAJobUsesIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		data := jobstest.Picture(t, color.White)
		s.UploadInput(t, s.Client, data) // no job uses it
		_, err := s.Inputs.Put(t.Context(), s.Client, "", bytes.NewReader(data))
		require.NoError(t, err)
		used := s.UploadInput(t, s.Client, data)
		job := submitFrom(t, s, string(used))
		over := s.UploadInput(t, s.Client, data)
		ended := submitFrom(t, s, string(over))
		_, err = s.Canceller.Cancel(t.Context(), s.Client, ended.ID)
		require.NoError(t, err)
		keep := func(by string) int {
			jobstest.Age(t, s, by)
			_, err := s.Upkeep.ReviewInputs(t.Context())
			require.NoError(t, err)
			_, err = s.Upkeep.ForgetUploads(t.Context())
			require.NoError(t, err)
			_, err = s.Upkeep.DeleteObjects(t.Context())
			require.NoError(t, err)
			s.RequireInvariants(t)
			return len(jobstest.Stored(t, s))
		}

		require.Equal(t, 4, keep("23 hours"))
		require.Equal(t, 2, keep("2 hours"))
		require.False(t, filesOf(t, s, ended.ID)[0].ExpiresAt.IsZero())
		require.Equal(t, 1, keep("30 days"))
		require.Len(t, filesOf(t, s, job.ID), 1)
		_, err = s.Retrier.Retry(t.Context(), s.Client, ended.ID, false)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
	})

	t.Run("IsNotAnOrphanWhileARowNamesIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		data := jobstest.Picture(t, color.White)
		s.UploadInput(t, s.Client, data)
		submitFrom(t, s, string(s.UploadInput(t, s.Client, data)))
		issued := s.RequestInput(t, s.Client, data)
		s.Send(t, issued.Link, data)
		s.Exec(t, "DELETE FROM uploads WHERE artifact_id = ?", issued.ArtifactID)
		s.Upkeep.Objects = &jobstest.BentStore{Objects: s.Objects, Age: 25 * hour}

		found := 0
		for range 4 {
			n, err := s.Upkeep.FindOrphans(t.Context())
			require.NoError(t, err)
			found += n
		}

		require.Equal(t, 1, found)
	})
}
