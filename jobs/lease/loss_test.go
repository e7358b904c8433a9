package lease_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// standby registers n idle workers.
func standby(t *testing.T, s *jobstest.Stack, n int) []jobs.Principal {
	t.Helper()
	var workers []jobs.Principal
	for i := range n {
		workers = append(workers, s.Worker(t, fmt.Sprintf("standby %d", i)))
	}
	return workers
}

// lose leases the due job to a worker, and expires the lease.
func lose(t *testing.T, s *jobstest.Stack, worker jobs.Principal) {
	t.Helper()
	_, fence := s.Lease(t, worker)
	s.ExpireLease(t, fence.AttemptID)
	n, err := s.Reaper.Reap(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func crash(t *testing.T, s *jobstest.Stack, worker jobs.Principal) {
	t.Helper()
	_, fence := s.Lease(t, worker)
	_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailModelCrash, Message: "signal: segmentation fault"})
	require.NoError(t, err)
}

func TestPoison(t *testing.T) {
	t.Parallel()

	for name, take := range map[string]func(*testing.T, *jobstest.Stack, jobs.Principal){"Losses": lose, "Crashes": crash} {
		t.Run("IsAJobThatCausedThreeLosses"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			workers := standby(t, s, 8)
			job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.MaxAttempts = new(9) })
			take(t, s, workers[0])
			take(t, s, workers[1])
			require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)

			take(t, s, workers[2])

			failed := s.Reload(t, job.ID)
			require.Equal(t, models.JobFailed, failed.Status)
			require.Equal(t, models.FailPoison, failed.FailureClass)
			events := jobstest.EventTypes(t, s, job.ID)
			require.Equal(t, []models.JobEventType{models.EventDeadLettered, models.EventFailed}, events[len(events)-2:])
			s.RequireInvariants(t)
		})
	}

	t.Run("IsNotAJobThatMakesProgress", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		workers := standby(t, s, 8)
		job := s.Submit(t)
		lose(t, s, workers[0])
		lose(t, s, workers[1])
		_, fence := s.Lease(t, workers[2])
		state := s.Upload(t, workers[2], fence, models.ArtifactCheckpoint, []byte("state"))
		_, err := s.Attempts.CommitCheckpoint(t.Context(), workers[2], fence, jobs.Checkpoint{Object: state, Step: 1, Percent: 10})
		require.NoError(t, err)
		s.ExpireLease(t, fence.AttemptID)
		_, err = s.Reaper.Reap(t.Context())
		require.NoError(t, err)

		lose(t, s, workers[3])

		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		lose(t, s, workers[4])
		require.Equal(t, models.JobFailed, s.Reload(t, job.ID).Status)
	})

	t.Run("IsNotAJobWhoseWorkersAnOperatorOrProviderEnded", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		workers := standby(t, s, 8)
		job := s.Submit(t)
		for i := range 5 {
			s.Lease(t, workers[i])
			_, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, workers[i].WorkerID)
			require.NoError(t, err)
		}

		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		require.Zero(t, s.Reload(t, job.ID).Crashes)
	})

	t.Run("IsNotAJobThatAHostedProviderWorksOn", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		workers := standby(t, s, 8)
		job := s.Submit(t)
		for i := range 5 {
			_, fence := s.Lease(t, workers[i])
			_, err := s.Attempts.ReportProgress(t.Context(), workers[i], fence,
				lease.ProgressReport{Progress: models.Progress{Phase: models.PhaseGenerating}})
			require.NoError(t, err)
			s.ExpireLease(t, fence.AttemptID)
			_, err = s.Reaper.Reap(t.Context())
			require.NoError(t, err)
		}

		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		require.Zero(t, s.Reload(t, job.ID).Crashes)
	})

	t.Run("IsNotAJobLostWithAFifthOfTheFleet", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		workers := standby(t, s, 10)
		job := s.Submit(t)
		lose(t, s, workers[0])
		lose(t, s, workers[1])
		s.Exec(t, "UPDATE workers SET status = 'LOST', lost_at = clock_timestamp() - interval '20 s' WHERE id IN (?, ?, ?)",
			workers[7].WorkerID, workers[8].WorkerID, workers[9].WorkerID)

		lose(t, s, workers[2])

		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		s.Exec(t, "UPDATE workers SET lost_at = clock_timestamp() - interval '70 s' WHERE lost_at IS NOT NULL")
		lose(t, s, workers[3])
		require.Equal(t, models.JobFailed, s.Reload(t, job.ID).Status, "that was a minute ago")
	})

	t.Run("IsNotAJobLostWhileTheAPIWasDown", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		workers := standby(t, s, 8)
		job := s.Submit(t)
		lose(t, s, workers[0])
		lose(t, s, workers[1])
		_, fence := s.Lease(t, workers[2])
		s.Exec(t, "UPDATE job_attempts SET last_heartbeat_at = clock_timestamp() - interval '3 minutes', lease_expires_at = clock_timestamp() - interval '150 s' WHERE id = ?", fence.AttemptID)
		s.Exec(t, "UPDATE presence SET gap_began_at = clock_timestamp() - interval '170 s', gap_ended_at = clock_timestamp() - interval '40 s' WHERE kind = 'api'")

		n, err := s.Reaper.Reap(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
	})
}

// TestSilentAPI covers an API process that cannot reach PostgreSQL while another one can.
func TestSilentAPI(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		processes string // the worker's last heartbeat was a minute ago
		crashes   int
	}{
		"IsNotTheJobsFault":                       {"silent(60, NULL)", 0},
		"IsNotTheJobsFaultAfterItsReturn":         {"silent(0, 60)", 0},
		"MayBecomeSilentAHeartbeatLater":          {"silent(50, NULL)", 0},
		"MayHaveWrittenAMomentEarlier":            {"silent(63, NULL)", 0},
		"DoesNotExcuseAWorkerThatAnotherAPIHeard": {"silent(70, NULL)", 1},
		"DoesNotExcuseAWorkerThatWasSilentFirst":  {"silent(40, NULL)", 1},
		"IsNotOneThatIsPresent":                   {"silent(1, NULL)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := jobstest.New(t)
			s.Exec(t, `CREATE FUNCTION silent(seen integer, silent integer) RETURNS void LANGUAGE sql AS
				'INSERT INTO api_processes VALUES (gen_random_uuid(), clock_timestamp() - make_interval(secs => seen), clock_timestamp() - make_interval(secs => silent))'`)
			workers := standby(t, s, 8)
			job := s.Submit(t)
			_, fence := s.Lease(t, workers[0])
			s.Exec(t, "UPDATE job_attempts SET last_heartbeat_at = clock_timestamp() - interval '60 s', lease_expires_at = clock_timestamp() - interval '30 s' WHERE id = ?", fence.AttemptID)
			s.Exec(t, "SELECT "+c.processes)

			n, err := s.Reaper.Reap(t.Context())

			require.NoError(t, err)
			require.Equal(t, 1, n, "the job goes to another worker at once")
			stored := s.Reload(t, job.ID)
			require.Equal(t, models.JobQueued, stored.Status)
			require.Equal(t, c.crashes, stored.Crashes)
		})
	}

	t.Run("IsNotOneThatShutDownNormally", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		ended, killed := &lease.Presence{DB: s.DB, Kind: models.ProcessAPI}, &lease.Presence{DB: s.DB, Kind: models.ProcessAPI}
		require.NoError(t, ended.Pass(t.Context()))
		require.NoError(t, killed.Pass(t.Context()))
		require.Equal(t, 2, s.Count(t, "api_processes"))

		ended.End(t.Context())

		require.Equal(t, 1, s.Count(t, "api_processes"))
	})

	t.Run("RecordsWhenItBecameSilent", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		process := &lease.Presence{DB: s.DB, Kind: models.ProcessAPI}
		require.NoError(t, process.Pass(t.Context()))
		silentFrom := func() (at sql.NullTime) {
			require.NoError(t, s.DB.NewRaw("SELECT silent_from FROM api_processes").Scan(t.Context(), &at))
			return at
		}
		require.False(t, silentFrom().Valid)
		s.Exec(t, "UPDATE api_processes SET seen_at = clock_timestamp() - interval '1 minute'")
		require.NoError(t, process.Pass(t.Context()))
		began := silentFrom()
		require.True(t, began.Valid)

		require.NoError(t, process.Pass(t.Context()))

		require.Equal(t, began, silentFrom())
	})

	t.Run("IsForgottenAfterAnHour", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		killed, other := &lease.Presence{DB: s.DB, Kind: models.ProcessAPI}, &lease.Presence{DB: s.DB, Kind: models.ProcessAPI}
		require.NoError(t, killed.Pass(t.Context()))
		s.Exec(t, "UPDATE api_processes SET seen_at = clock_timestamp() - interval '61 minutes'")

		require.NoError(t, other.Pass(t.Context()))

		require.Equal(t, 1, s.Count(t, "api_processes"))
	})
}

func TestGap(t *testing.T) {
	t.Parallel()

	// A lease that expired two minutes ago.
	overdue := func(t *testing.T) (*jobstest.Stack, *models.Job, jobs.Principal, lease.Fence) {
		s, job, worker, fence := jobstest.Leased(t)
		s.Exec(t, "UPDATE job_attempts SET last_heartbeat_at = clock_timestamp() - interval '150 s', lease_expires_at = clock_timestamp() - interval '120 s'")
		return s, job, worker, fence
	}

	for name, c := range map[string]struct {
		presence string
		reaped   int
	}{
		"KeepsRendersWhileNoAPIRuns":         {"UPDATE presence SET seen_at = clock_timestamp() - interval '6 s' WHERE kind = 'api'", 0},
		"KeepsRendersWhileNoControlRuns":     {"UPDATE presence SET seen_at = clock_timestamp() - interval '6 s' WHERE kind = 'control'", 0},
		"IsNotShorterThanFiveSeconds":        {"UPDATE presence SET seen_at = clock_timestamp() - interval '4 s'", 1},
		"GivesEveryWorkerALeaseToReturn":     {"UPDATE presence SET gap_began_at = clock_timestamp() - interval '140 s', gap_ended_at = clock_timestamp() - interval '28 s' WHERE kind = 'api'", 0},
		"ExcusesNoWorkerForLongerThanALease": {"UPDATE presence SET gap_began_at = clock_timestamp() - interval '140 s', gap_ended_at = clock_timestamp() - interval '31 s' WHERE kind = 'api'", 1},
		"DoesNotExcuseTenMinutesOfSilence":   {"UPDATE job_attempts SET last_heartbeat_at = clock_timestamp() - interval '601 s'; UPDATE presence SET seen_at = clock_timestamp() - interval '1 h'", 1},
		"ExcusesNineMinutesOfSilence":        {"UPDATE job_attempts SET last_heartbeat_at = clock_timestamp() - interval '9 minutes'; UPDATE presence SET seen_at = clock_timestamp() - interval '1 h'", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s, job, worker, fence := overdue(t)
			s.Exec(t, c.presence)

			reaped, err := s.Reaper.Reap(t.Context())

			require.NoError(t, err)
			require.Equal(t, c.reaped, reaped)
			if c.reaped > 0 {
				return
			}
			_, err = s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
			require.NoError(t, err, "the worker keeps its render")
			require.True(t, s.Reload(t, job.ID).Status.Live())
		})
	}

	t.Run("IsFoundByTheFirstProcessThatReturns", func(t *testing.T) {
		t.Parallel()

		s, _, _, _ := overdue(t)
		api, control := &lease.Presence{DB: s.DB, Kind: models.ProcessAPI}, &lease.Presence{DB: s.DB, Kind: models.ProcessControl}
		s.Exec(t, "UPDATE presence SET seen_at = clock_timestamp() - interval '2 minutes'")

		require.NoError(t, control.Pass(t.Context()))

		n, err := s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "the API is still away")
		require.NoError(t, api.Pass(t.Context()))
		require.NoError(t, api.Pass(t.Context()))
		n, err = s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "it has only just come back")
		o, err := models.GetOutage(t.Context(), s.DB, 0)
		require.NoError(t, err)
		require.False(t, o.EndedAt.IsZero())
		s.Exec(t, "UPDATE presence SET gap_began_at = gap_began_at - interval '31 s', gap_ended_at = gap_ended_at - interval '31 s'")
		n, err = s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})

	t.Run("DoesNotLoseIdleWorkers", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		s.Exec(t, "UPDATE workers SET last_heartbeat_at = clock_timestamp() - interval '3 minutes'")
		s.Exec(t, "UPDATE presence SET gap_began_at = clock_timestamp() - interval '170 s', gap_ended_at = clock_timestamp() - interval '80 s' WHERE kind = 'api'")

		n, err := s.Reaper.Silent(t.Context())

		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, models.WorkerIdle, jobstest.WorkerStatus(t, s, worker.WorkerID))
		s.Exec(t, "UPDATE presence SET gap_ended_at = clock_timestamp() - interval '91 s' WHERE kind = 'api'")
		n, err = s.Reaper.Silent(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

func TestOverdue(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		age    string
		status models.JobStatus
		class  models.FailureClass
	}{
		"EndsAnAttemptThatTakesTooLong": {"UPDATE job_attempts SET started_at = clock_timestamp() - make_interval(secs => (SELECT timeout_seconds + 61 FROM jobs))", models.JobScheduled, models.FailTimeout},
		"LetsAnAttemptUseItsTime":       {"UPDATE job_attempts SET started_at = clock_timestamp() - make_interval(secs => (SELECT timeout_seconds + 55 FROM jobs))", models.JobRunning, ""},
		"EndsARenderWithoutProgress": {"UPDATE jobs SET phase = 'RENDERING', progress_at = clock_timestamp() - interval '361 s'",
			models.JobScheduled, models.FailTimeout},
		"LetsAModelLoad": {"UPDATE jobs SET phase = 'LOADING_MODEL', progress_at = clock_timestamp() - interval '361 s'",
			models.JobRunning, ""},
		"EndsAnAttemptLongAfterACancel": {"UPDATE jobs SET cancel_by = 'x', cancel_requested_at = clock_timestamp() - interval '61 s'",
			models.JobCancelled, ""},
		"GivesACancelledWorkerTimeToStop": {"UPDATE jobs SET cancel_by = 'x', cancel_requested_at = clock_timestamp() - interval '55 s'",
			models.JobRunning, ""},
		"ExcusesMissingReportsDuringAnOutage": {"UPDATE job_attempts SET started_at = clock_timestamp() - interval '6 h'; UPDATE presence SET seen_at = clock_timestamp() - interval '1 minute'", models.JobRunning, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s, job, worker, fence := jobstest.Leased(t)
			_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
			require.NoError(t, err)
			s.Exec(t, c.age)

			n, err := s.Reaper.Overdue(t.Context())

			require.NoError(t, err)
			stored := s.Reload(t, job.ID)
			require.Equal(t, c.status, stored.Status)
			require.Equal(t, c.class, stored.FailureClass)
			if c.status == models.JobRunning {
				require.Zero(t, n)
				return
			}
			require.Equal(t, 1, n)
			require.Equal(t, models.WorkerLost, jobstest.WorkerStatus(t, s, worker.WorkerID))
			_, err = s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
			require.ErrorIs(t, err, apierror.ErrLeaseLost)
			s.RequireInvariants(t)
		})
	}
}
