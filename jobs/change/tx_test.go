package change_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// loseRaces makes PostgreSQL abort the next n transactions that write an event, at their end,
// as if they conflicted with others.
func loseRaces(t *testing.T, s *jobstest.Stack, code string, n int) {
	t.Helper()
	s.Exec(t, `DROP SEQUENCE IF EXISTS races_lost`)
	s.Exec(t, `CREATE SEQUENCE races_lost`) // a rollback does not reset a sequence
	_, err := s.DB.NewRaw(`CREATE OR REPLACE FUNCTION lose_race() RETURNS trigger LANGUAGE plpgsql AS $body$
		BEGIN
			IF nextval('races_lost') <= ?0 THEN RAISE EXCEPTION 'others were first' USING ERRCODE = ?1; END IF;
			RETURN NULL;
		END $body$`, n, code).Exec(t.Context())
	require.NoError(t, err)
	s.Exec(t, `CREATE OR REPLACE TRIGGER lose_race AFTER INSERT ON job_events FOR EACH STATEMENT EXECUTE FUNCTION lose_race()`)
}

// TestTransaction covers transactions that PostgreSQL aborts because of conflicts: they are
// retried, and nothing happens twice.
func TestTransaction(t *testing.T) {
	t.Parallel()

	for name, code := range map[string]string{"Serialization": "40001", "Deadlock": "40P01"} {
		t.Run("IsRetriedAfter"+name, func(t *testing.T) {
			t.Parallel()
			s := jobstest.New(t)
			worker := s.Worker(t, "one")

			loseRaces(t, s, code, 2)
			job := s.Submit(t)
			loseRaces(t, s, code, 2)
			_, fence := s.Lease(t, worker)
			video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
			loseRaces(t, s, code, 2)
			_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
			require.NoError(t, err)
			other := s.Submit(t)
			loseRaces(t, s, code, 2)
			_, err = s.Canceller.Cancel(t.Context(), s.Client, other.ID)
			require.NoError(t, err)

			require.Equal(t, models.JobCompleted, s.Reload(t, job.ID).Status)
			require.Equal(t, 1, s.Count(t, "job_attempts"))
			require.Equal(t, 1, s.Count(t, "artifacts"))
			s.RequireInvariants(t)
		})
	}

	t.Run("GivesUpAfterSeveralTries", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		loseRaces(t, s, "40001", 100)

		_, _, err := s.Submitter.Submit(t.Context(), s.Client, jobstest.Submission())

		require.True(t, postgres.IsOutage(err), "%v", err)
		require.Zero(t, s.Count(t, "jobs"))
		s.RequireInvariants(t)
	})
}
