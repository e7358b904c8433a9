package submit_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// announced is the result of a submit.
type announced struct {
	job          *models.Job
	deduplicated bool
	err          error
}

// TestSubmit_DuringAnotherWithItsKey covers a submit with an idempotency key while another
// process has written a job with that key but has not committed it.
func TestSubmit_DuringAnotherWithItsKey(t *testing.T) {
	t.Parallel()

	submitted := func(t *testing.T, s *submit.Submitter, p jobs.Principal, in submit.Submission) <-chan announced {
		answer := make(chan announced, 1)
		go func() {
			job, deduplicated, err := s.Submit(t.Context(), p, in)
			answer <- announced{job, deduplicated, err}
		}()
		return answer
	}
	// begin submits a job whose commit waits until it is released, and then succeeds or fails.
	begin := func(t *testing.T, s *jobstest.Stack, in submit.Submission, fails bool) (first <-chan announced, let func()) {
		s.Exec(t, "CREATE SEQUENCE writers")
		s.Exec(t, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN
			IF nextval('writers') = 1 THEN
				PERFORM pg_advisory_xact_lock(1);
				IF TG_ARGV[0]::boolean THEN RAISE 'undone'; END IF;
			END IF;
			RETURN NULL;
		END $$`)
		s.Exec(t, `CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON jobs DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION hold(?)`, bun.Safe(map[bool]string{true: "'true'", false: "'false'"}[fails]))
		gate, err := s.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, postgres.Lock(t.Context(), gate, 1))
		first = submitted(t, s.Submitter, s.Client, in)
		s.WaitForLocks(t, 1)
		return first, func() { require.NoError(t, gate.Rollback()) }
	}

	later := time.Now().Add(time.Hour)
	for way, expires := range map[string]*time.Time{"": nil, "_OfAJobThatIsReadFor": &later} {
		in := jobstest.Submission()
		in.IdempotencyKey, in.ExpiresAt = new("order 7"), expires

		t.Run("GetsTheFirstCallsJobOnceItIsCommitted"+way, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			first, let := begin(t, s, in, false)
			second := submitted(t, s.AnotherSubmitter(), s.Client, in)
			s.WaitForLocks(t, 2)

			require.Empty(t, second, "it is not known yet")
			let()

			one, other := <-first, <-second
			require.NoError(t, one.err)
			require.NoError(t, other.err)
			require.Equal(t, one.job.ID, other.job.ID)
			require.Equal(t, []bool{false, true}, []bool{one.deduplicated, other.deduplicated})
			require.Equal(t, 1, s.Count(t, "jobs"))
			s.RequireInvariants(t)
		})

		t.Run("GetsItsOwnJobIfTheFirstCallIsRolledBack"+way, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			first, let := begin(t, s, in, true)
			second := submitted(t, s.AnotherSubmitter(), s.Client, in)
			s.WaitForLocks(t, 2)

			let()

			one, other := <-first, <-second
			require.ErrorContains(t, one.err, "undone")
			require.NoError(t, other.err)
			require.False(t, other.deduplicated)
			require.Equal(t, models.JobQueued, s.Reload(t, other.job.ID).Status)
			require.Equal(t, 1, s.Count(t, "jobs"))
			s.RequireInvariants(t)
		})

		t.Run("IsAskedToRetryIfTheFirstCallTakesLong"+way, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			first, let := begin(t, s, in, true)
			hurried, done, err := postgres.Open(t.Context(), modelstest.DSNOf(t, s.DB)+"&statement_timeout=300", 4)
			require.NoError(t, err)
			t.Cleanup(done)
			another := s.AnotherSubmitter()
			another.DB = hurried

			gone := <-submitted(t, another, s.Client, in)

			require.True(t, postgres.IsOutage(gone.err), "callers get UNAVAILABLE and try again: %v", gone.err)
			let()
			require.ErrorContains(t, (<-first).err, "undone")
			again := <-submitted(t, another, s.Client, in)
			require.NoError(t, again.err)
			require.False(t, again.deduplicated)
			require.Equal(t, 1, s.Count(t, "jobs"))
			s.RequireInvariants(t)
		})
	}
}
