package submit_test

import (
	"context"
	"encoding/json"
	"image/color"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func reusing(in *submit.Submission) { in.Reuse = true }

// paramsOf makes a submission reuse with these params.
func paramsOf(params string) func(*submit.Submission) {
	return func(in *submit.Submission) { in.Reuse, in.Params = true, json.RawMessage(params) }
}

// rendered submits the usual job, without reuse, and completes it with all kinds of artifacts.
func rendered(t *testing.T, s *jobstest.Stack) *models.Job {
	t.Helper()
	job := jobstest.SubmitWith(t, s, func(*submit.Submission) {})
	return complete(t, s, s.Worker(t, string(job.ID)))
}

func complete(t *testing.T, s *jobstest.Stack, worker jobs.Principal) *models.Job {
	t.Helper()
	_, fence := s.Lease(t, worker)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	picture := s.Upload(t, worker, fence, models.ArtifactThumbnail, []byte("a picture"))
	log := s.Upload(t, worker, fence, models.ArtifactLog, []byte("a log"))
	end, err := s.Attempts.Complete(t.Context(), worker, fence,
		lease.Completion{Video: &video, Thumbnail: &picture, Log: &log, Output: json.RawMessage(`{"frames": 24}`)})
	require.NoError(t, err)
	return end.Job
}

// objectOf returns the key of a job's video.
func objectOf(t *testing.T, s *jobstest.Stack, job *models.Job) string {
	t.Helper()
	found, err := models.GetArtifacts(t.Context(), s.DB, []models.ArtifactID{job.ResultID})
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0].ObjectKey
}

func TestReuse(t *testing.T) {
	t.Parallel()

	t.Run("AnswersWithTheResultOfAnEqualJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		first := rendered(t, s)
		account, err := models.GetAccounts(t.Context(), s.DB, []models.AccountID{s.Client.AccountID})
		require.NoError(t, err)

		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.Reuse, in.IdempotencyKey, in.UserID = true, new("k"), "u" })
		again, deduplicated, err := jobstest.TrySubmit(t.Context(), s, func(in *submit.Submission) {
			in.Reuse, in.IdempotencyKey, in.UserID = true, new("k"), "u"
		})
		require.NoError(t, err)

		require.Equal(t, models.JobCompleted, job.Status)
		require.Equal(t, first.ID, job.ReusedFrom)
		require.NotEqual(t, first.ID, job.ID)
		require.True(t, deduplicated)
		require.Equal(t, job.ID, again.ID)
		stored := s.Reload(t, job.ID)
		require.Equal(t, first.ID, stored.ReusedFrom)
		require.EqualValues(t, 100, stored.Percent)
		require.Equal(t, models.PhaseDone, stored.Phase)
		require.JSONEq(t, `{"frames": 24}`, string(stored.Output))
		require.Zero(t, stored.AttemptNo)
		require.Zero(t, stored.WastedGPUSeconds)
		require.NotEqual(t, first.ResultID, stored.ResultID)
		require.Equal(t, objectOf(t, s, first), objectOf(t, s, stored))
		kinds := map[models.ArtifactType]int{}
		for _, a := range jobstest.Artifacts(t, s, job.ID) {
			kinds[a.Type]++
		}
		require.Equal(t, map[models.ArtifactType]int{models.ArtifactFinalVideo: 1, models.ArtifactThumbnail: 1}, kinds)
		after, err := models.GetAccounts(t.Context(), s.DB, []models.AccountID{s.Client.AccountID})
		require.NoError(t, err)
		require.Equal(t, []int{account[0].Queued, account[0].Running}, []int{after[0].Queued, after[0].Running})
		s.RequireInvariants(t)
		s.RequireRows(t)
	})

	t.Run("IsOffByDefault", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		rendered(t, s)
		require.Equal(t, models.JobQueued, jobstest.SubmitWith(t, s, func(*submit.Submission) {}).Status)
	})

	t.Run("IsByTheMeaningOfTheRequest", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		rendered(t, s)
		for params, reused := range map[string]bool{
			`{"pace": 0, "durationSeconds": 1}`:       true,
			`{"durationSeconds": 1.0, "pace": 0.0}`:   true,
			`{"durationSeconds": 1e0, "pace": 0}`:     true,
			`{"durationSeconds":1,"pace":0,"seed":0}`: true, // the default
			`{"durationSeconds":1,"pace":0,"seed":1}`: false,
			`{"durationSeconds":2,"pace":0}`:          false,
		} {
			job := jobstest.SubmitWith(t, s, paramsOf(params))
			require.Equal(t, reused, job.Status == models.JobCompleted, params)
		}
		for name, shape := range map[string]func(*submit.Submission){
			"another prompt": func(in *submit.Submission) { in.Prompt = "a lighthouse " },
			"a draft and a video are different": func(in *submit.Submission) {
				in.Reuse, in.Draft = false, &submit.Draft{Steps: 3}
			},
		} {
			job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.Reuse = true; shape(in) })
			require.Equal(t, models.JobQueued, job.Status, name)
		}
		for name, shape := range map[string]func(*submit.Submission){
			"the tier, limits and labels do not count": func(in *submit.Submission) {
				in.Priority, in.MaxAttempts, in.TimeoutSeconds, in.Metadata = 3, new(2), new(50), json.RawMessage(`{"a": 1}`)
			},
			"nor a deadline": func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(time.Hour)) },
		} {
			job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.Reuse = true; shape(in) })
			require.Equal(t, models.JobCompleted, job.Status, name)
		}
		s.RequireInvariants(t)
	})

	t.Run("IsWithinOneAccount", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		rendered(t, s)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierEnterprise), access.RoleClient)
		in := submit.Submission{Model: "testcard", Prompt: "a lighthouse", Params: []byte(`{"durationSeconds": 1, "pace": 0}`), Reuse: true}
		job, _, err := s.Submitter.Submit(t.Context(), other, in)
		require.NoError(t, err)
		require.Equal(t, models.JobQueued, job.Status)
	})

	t.Run("NeedsAResultThatExists", func(t *testing.T) {
		t.Parallel()

		for name, lose := range map[string]func(t *testing.T, s *jobstest.Stack, first *models.Job){
			"deleted": func(t *testing.T, s *jobstest.Stack, first *models.Job) {
				_, err := s.Deleter.Delete(t.Context(), s.Client, first.ID)
				require.NoError(t, err)
			},
			"expired, and not deleted yet": func(t *testing.T, s *jobstest.Stack, first *models.Job) {
				s.Exec(t, "UPDATE artifacts SET expires_at = clock_timestamp() WHERE job_id = ?", first.ID)
			},
			"past its retention": func(t *testing.T, s *jobstest.Stack, first *models.Job) {
				s.Exec(t, "UPDATE jobs SET completed_at = completed_at - interval '100 years' WHERE id = ?", first.ID)
				s.Exec(t, "UPDATE artifacts SET review_at = '-infinity'")
				_, err := s.Upkeep.ReviewArtifacts(t.Context())
				require.NoError(t, err)
				require.Nil(t, s.Reload(t, first.ID).ReuseDigest)
			},
			"rejected": func(t *testing.T, s *jobstest.Stack, first *models.Job) {
				s.Exec(t, "UPDATE artifacts SET rejected_at = clock_timestamp() WHERE id = ?", first.ResultID)
			},
			"locked by another transaction": func(t *testing.T, s *jobstest.Stack, first *models.Job) {
				tx, err := s.DB.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				t.Cleanup(func() { _ = tx.Rollback() })
				_, err = models.LockJob(t.Context(), tx, first.ID)
				require.NoError(t, err)
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := jobstest.New(t)
				lose(t, s, rendered(t, s))
				require.Equal(t, models.JobQueued, jobstest.SubmitWith(t, s, reusing).Status)
			})
		}
	})

	t.Run("OutlivesTheFirstJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		first := rendered(t, s)
		second := jobstest.SubmitWith(t, s, reusing)
		key := objectOf(t, s, first)

		_, err := s.Deleter.Delete(t.Context(), s.Client, first.ID)
		require.NoError(t, err)
		_, err = s.Upkeep.DeleteObjects(t.Context())
		require.NoError(t, err)
		s.RequireInvariants(t)
		_, err = s.Objects.Stat(t.Context(), key)
		require.NoError(t, err, "the second job has the video")
		third := jobstest.SubmitWith(t, s, reusing)
		require.Equal(t, second.ID, third.ReusedFrom)

		for _, id := range []models.JobID{second.ID, third.ID} {
			_, err = s.Deleter.Delete(t.Context(), s.Client, id)
			require.NoError(t, err)
		}
		_, err = s.Upkeep.DeleteObjects(t.Context())
		require.NoError(t, err)
		s.RequireInvariants(t)
		_, err = s.Objects.Stat(t.Context(), key)
		require.Error(t, err, "no job has the video")
		require.Zero(t, s.Count(t, "object_deletions"))
		require.Equal(t, models.JobQueued, jobstest.SubmitWith(t, s, reusing).Status)
	})

	t.Run("LeavesNoDanglingArtifactIfTheFirstIsDeletedMeanwhile", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for range 20 {
			first := rendered(t, s)
			done := make(chan error, 2)
			go func() {
				_, err := s.Deleter.Delete(context.WithoutCancel(t.Context()), s.Client, first.ID)
				done <- err
			}()
			var job *models.Job
			go func() {
				var err error
				job, _, err = jobstest.TrySubmit(context.WithoutCancel(t.Context()), s, reusing)
				done <- err
			}()
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			_, err := s.Upkeep.DeleteObjects(t.Context())
			require.NoError(t, err)

			s.RequireInvariants(t)
			if job.Status == models.JobCompleted {
				_, err = s.Objects.Stat(t.Context(), objectOf(t, s, job))
				require.NoError(t, err)
				_, err = s.Deleter.Delete(t.Context(), s.Client, job.ID)
			} else {
				_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
			}
			require.NoError(t, err)
		}
	})

	t.Run("IsRefusedWhereItMakesNoSense", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for name, shape := range map[string]func(*submit.Submission){
			"once":  func(in *submit.Submission) { in.AtMostOnce = true },
			"draft": func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 3} },
		} {
			_, _, err := jobstest.TrySubmit(t.Context(), s, func(in *submit.Submission) { in.Reuse = true; shape(in) })
			require.Error(t, err, name)
			jobstest.RequireInvalid(t, err, "reuse")
		}
		require.Zero(t, s.Count(t, "jobs"))
	})

	t.Run("IsAnotherRequestUnderTheSameKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.IdempotencyKey = new("k") })
		_, _, err := jobstest.TrySubmit(t.Context(), s, func(in *submit.Submission) { in.IdempotencyKey, in.Reuse = new("k"), true })
		jobstest.RequireCode(t, err, apierror.CodeIdempotencyConflict)
	})

	t.Run("IsNeverOfAJobThatMustRunOnce", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.AtMostOnce = true })
		complete(t, s, s.Worker(t, "one"))
		require.Equal(t, models.JobQueued, jobstest.SubmitWith(t, s, reusing).Status)
	})

	t.Run("WaitsForTheTimeOfTheJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.Reuse, in.RunAt = true, new(time.Now().Add(time.Hour)) })
		child := jobstest.SubmitAfter(t, s, job.ID)
		first := rendered(t, s)
		require.Equal(t, models.JobScheduled, s.Reload(t, job.ID).Status)
		s.Exec(t, "UPDATE jobs SET run_at = clock_timestamp() WHERE id = ?", job.ID)

		_, err := s.Releaser.Due(t.Context())

		require.NoError(t, err)
		require.Equal(t, first.ID, s.Reload(t, job.ID).ReusedFrom)
		require.Equal(t, models.JobCompleted, s.Reload(t, job.ID).Status)
		require.Equal(t, models.JobQueued, s.Reload(t, child.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("ReleasesTheJobsThatWait", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		rendered(t, s)
		in := workflow.Input{Name: "film", Output: "last"}
		for i, key := range []string{"first", "middle", "last"} {
			node := workflow.Node{Key: key, Job: submit.Submission{Model: "testcard", Prompt: "a lighthouse", Reuse: true,
				Params: []byte(`{"durationSeconds": 1, "pace": 0}`)}}
			if i > 0 {
				node.After = []string{in.Jobs[i-1].Key}
			}
			in.Jobs = append(in.Jobs, node)
		}

		w, _, err := s.Workflows.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		_, err = s.Settler.Settle(t.Context())
		require.NoError(t, err)

		s.RequireInvariants(t)
		found := new(models.Workflow)
		require.NoError(t, s.DB.NewSelect().Model(found).Where("id = ?", w.ID).Scan(t.Context()))
		require.Equal(t, models.WorkflowCompleted, found.Status)
		var reused int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM jobs WHERE workflow_id = ? AND reused_from IS NOT NULL", w.ID).Scan(t.Context(), &reused))
		require.Equal(t, 3, reused)
	})

	t.Run("IsOfManyJobsOfOneCall", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		rendered(t, s)
		all := make([]submit.Submission, 50)
		for i := range all {
			all[i] = submit.Submission{Model: "testcard", Prompt: "a lighthouse",
				Params: []byte(`{"durationSeconds": 1, "pace": 0}`), Reuse: i%2 == 0}
		}
		answers, err := s.Submitter.SubmitMany(t.Context(), s.Client, all)
		require.NoError(t, err)
		for i, answer := range answers {
			require.Equal(t, i%2 == 0, s.Reload(t, answer.Job.ID).Status == models.JobCompleted, i)
		}
		s.RequireInvariants(t)
	})

	t.Run("AnnouncesTheEnd", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		rendered(t, s)
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.Reuse, in.CallbackURL = true, "https://example.com/hook" })
		var told int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM webhook_deliveries WHERE job_id = ? AND event = 'job.completed'", job.ID).
			Scan(t.Context(), &told))
		require.Equal(t, 1, told)
		s.RequireInvariants(t)
	})

	t.Run("TwinsAtOnceAreBothRendered", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		one, two := jobstest.SubmitWith(t, s, reusing), jobstest.SubmitWith(t, s, reusing)
		require.Equal(t, []models.JobStatus{models.JobQueued, models.JobQueued}, []models.JobStatus{one.Status, two.Status})
		worker := s.Worker(t, "one")
		complete(t, s, worker)
		complete(t, s, worker)
		require.Equal(t, two.ID, jobstest.SubmitWith(t, s, reusing).ReusedFrom, "the newest")
		s.RequireInvariants(t)
	})

	t.Run("ComparesTheContentsOfFiles", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		id := s.UploadInput(t, s.Client, jobstest.Picture(t, color.White))
		other := s.UploadInput(t, s.Client, jobstest.Picture(t, color.Black))
		same := s.UploadInput(t, s.Client, jobstest.Picture(t, color.White))
		from := func(id models.ArtifactID) func(*submit.Submission) {
			return paramsOf(`{"durationSeconds": 1, "pace": 0, "referenceImage": "` + string(id) + `"}`)
		}
		jobstest.SubmitWith(t, s, func(in *submit.Submission) { from(id)(in); in.Reuse = false })
		first := complete(t, s, s.Worker(t, "one"))

		require.NotEqual(t, id, same)
		require.Equal(t, first.ID, jobstest.SubmitWith(t, s, from(id)).ReusedFrom)
		require.NotEmpty(t, jobstest.SubmitWith(t, s, from(same)).ReusedFrom, "the same picture under another id")
		require.Empty(t, jobstest.SubmitWith(t, s, from(other)).ReusedFrom)
		require.Empty(t, jobstest.SubmitWith(t, s, reusing).ReusedFrom)
		s.RequireInvariants(t)
	})
}

// TestDeletion_WaitsForAReuse deletes a job while a transaction that shares its artifacts is open.
func TestDeletion_WaitsForAReuse(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	first := rendered(t, s)
	tx, err := s.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	asking := s.Reload(t, first.ID)
	asking.ID = models.NewJobID()
	found, err := models.LockReusable(t.Context(), tx, []*models.Job{asking})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, first.ID, found[0].ID)

	done := make(chan error, 1)
	go func() {
		_, err := s.Deleter.Delete(context.WithoutCancel(t.Context()), s.Client, first.ID)
		done <- err
	}()
	s.WaitForLocks(t, 1)
	require.NoError(t, s.DB.RunInTx(t.Context(), nil, func(ctx context.Context, other bun.Tx) error {
		ids, err := models.LockJobsToReview(ctx, other, 10)
		require.Empty(t, ids, "the upkeep leaves the job, too")
		return err
	}))
	require.NoError(t, tx.Commit())
	require.NoError(t, <-done)
}

// TestReuse_FindsAJobByItsDigest reads the plan of the lookup, whatever PostgreSQL knows of the table.
func TestReuse_FindsAJobByItsDigest(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	rendered(t, s)
	for _, analyze := range []bool{false, true} {
		if analyze {
			s.Exec(t, "ANALYZE jobs")
		}
		var plan []string
		require.NoError(t, s.DB.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.NewRaw("SET LOCAL enable_seqscan = off").Exec(ctx); err != nil {
				return err
			}
			return tx.NewRaw(`EXPLAIN SELECT j.id FROM unnest(ARRAY[sha256('a')]) AS a (digest) CROSS JOIN LATERAL (
				SELECT id FROM jobs WHERE account_id = ? AND reuse_digest = a.digest AND status = 'COMPLETED' AND reuse_refs IS NULL
				ORDER BY id DESC NULLS LAST LIMIT 1 FOR SHARE SKIP LOCKED) j`, s.Client.AccountID).Scan(ctx, &plan)
		}))
		require.Contains(t, strings.Join(plan, "\n"), "jobs_reusable")
	}
}
