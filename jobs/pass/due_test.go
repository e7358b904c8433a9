package pass_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// scheduleDue submits a scheduled job as p that is due now.
func scheduleDue(t *testing.T, s *jobstest.Stack, p jobs.Principal) *models.Job {
	t.Helper()
	job := jobstest.SubmitAs(t, s, p, func(in *submit.Submission) { in.RunAt = new(time.Now().Add(time.Hour)) })
	s.Exec(t, "UPDATE jobs SET created_at = created_at - interval '1 day', run_at = clock_timestamp() - interval '1 second' WHERE id = ?",
		job.ID)
	return job
}

// dueAtOnce submits n jobs of three lanes and two priorities that are due at one instant.
func dueAtOnce(t *testing.T, s *jobstest.Stack, n int) {
	t.Helper()
	all := make([]submit.Submission, n)
	for i := range all {
		all[i] = jobstest.Submission()
		all[i].RunAt, all[i].Priority = new(time.Now().Add(time.Hour)), i%2
		all[i].Tier = []models.Tier{models.TierBatch, models.TierPro, models.TierCritical}[i/2%3]
	}
	s.Exec(t, "UPDATE accounts SET max_queued = 10000")
	answers, err := s.Submitter.SubmitMany(t.Context(), s.Admin, all)
	require.NoError(t, err)
	for _, answer := range answers {
		require.Nil(t, answer.Refused)
	}
	s.Exec(t, "UPDATE jobs SET created_at = created_at - interval '1 day', run_at = now()")
}

func TestDue(t *testing.T) {
	t.Parallel()

	t.Run("QueuesTheJobsOfManyAccountsAndLanes", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var due []*models.Job
		for i := range 120 {
			due = append(due, scheduleDue(t, s, []jobs.Principal{s.Admin, s.Client}[i%2]))
		}

		n, err := s.Releaser.Due(t.Context())

		require.NoError(t, err)
		require.Equal(t, len(due), n)
		for _, job := range due {
			require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		}
		s.RequireInvariants(t)
		n, err = s.Releaser.Due(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	})

	t.Run("QueuesAnInstantInTheOrderOfLanesAndAccounts", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		dueAtOnce(t, s, 300)

		n, err := s.Releaser.Due(t.Context())

		require.NoError(t, err)
		require.Equal(t, 300, n)
		var places []struct {
			Lane     models.Tier
			Priority int
			Batches  int
		}
		require.NoError(t, s.DB.NewRaw(`
			SELECT lane, priority, count(DISTINCT queued_at) AS batches FROM jobs WHERE status = 'QUEUED'
			GROUP BY lane, priority ORDER BY min(queued_at), array_position('{CRITICAL,PRO,BATCH}', lane), priority DESC`).Scan(t.Context(),
			&places))
		var order []models.Tier
		for i, p := range places {
			if order = append(order, p.Lane); i > 0 && p.Lane == places[i-1].Lane {
				require.Less(t, p.Priority, places[i-1].Priority, "the account's order")
			}
		}
		require.Equal(t, []models.Tier{"CRITICAL", "CRITICAL", "PRO", "PRO", "BATCH", "BATCH"}, order)
		s.RequireInvariants(t)
	})

	t.Run("QueuesAnInstantOnceInManyProcesses", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		dueAtOnce(t, s, 900)

		counts, errs := make([]int, 4), make([]error, 4)
		var passes sync.WaitGroup
		for i := range counts {
			passes.Go(func() {
				for { // a pass ends while others hold the rest
					n, err := s.Releaser.Due(t.Context())
					if counts[i], errs[i] = counts[i]+n, err; n == 0 || err != nil {
						return
					}
				}
			})
		}
		passes.Wait()

		sum := 0
		for i := range counts {
			require.NoError(t, errs[i])
			sum += counts[i]
		}
		require.Equal(t, 900, sum)
		var events int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM job_events WHERE type = 'QUEUED'").Scan(t.Context(), &events))
		require.Equal(t, 900, events, "each was queued once")
		s.RequireInvariants(t)
	})

	t.Run("FollowsTheClockOfPostgreSQL", func(t *testing.T) {
		t.Parallel()

		s := jobstest.NewClocked(t)
		job := jobstest.SubmitAs(t, s.Stack, s.Client, func(in *submit.Submission) { in.RunAt = new(time.Now().Add(time.Hour)) })
		due := func() int {
			n, err := s.Releaser.Due(t.Context())
			require.NoError(t, err)
			return n
		}
		agenda, err := models.ReadAgenda(t.Context(), s.DB)
		require.NoError(t, err)
		require.InDelta(t, time.Hour, agenda.Next, float64(time.Minute))
		require.Zero(t, due())

		s.Set(t, 2*time.Hour)
		require.Equal(t, 1, due())
		s.Set(t, 0) // a step back
		later := jobstest.SubmitAs(t, s.Stack, s.Client, func(in *submit.Submission) { in.RunAt = new(time.Now().Add(time.Hour)) })

		require.Zero(t, due(), "none is queued twice, or early")
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		require.Equal(t, models.JobScheduled, s.Reload(t, later.ID).Status)
	})

	t.Run("LeavesOnlyTheJobThatFailsToSave", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var due []*models.Job
		for range 5 {
			due = append(due, scheduleDue(t, s, s.Client))
		}
		s.Exec(t, "ALTER TABLE jobs ADD CONSTRAINT never_queued CHECK (id <> '"+due[1].ID.UUID()+"' OR status <> 'QUEUED')")

		n, err := s.Releaser.Due(t.Context())

		require.Equal(t, 4, n)
		require.ErrorContains(t, err, "never_queued")
		require.Equal(t, 1, strings.Count(err.Error(), string(due[1].ID)), "it is logged once")
		for i, job := range due {
			require.Equal(t, i != 1, s.Reload(t, job.ID).Status == models.JobQueued)
		}

		s.Exec(t, "ALTER TABLE jobs DROP CONSTRAINT never_queued")
		n, err = s.Releaser.Due(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n, "the next pass tries it again")
		s.RequireInvariants(t)
	})

	t.Run("SkipsLockedJobs", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		locked, free := scheduleDue(t, s, s.Client), scheduleDue(t, s, s.Client)

		require.NoError(t, s.DB.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := models.LockJob(ctx, tx, locked.ID)
			require.NoError(t, err)
			n, err := s.Releaser.Due(ctx)
			require.Equal(t, 1, n)
			return err
		}))

		require.Equal(t, models.JobQueued, s.Reload(t, free.ID).Status)
		require.Equal(t, models.JobScheduled, s.Reload(t, locked.ID).Status)
		n, err := s.Releaser.Due(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
