package lease_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestAppendLog(t *testing.T) {
	t.Parallel()

	setUp := func(t *testing.T) (s *jobstest.Stack, worker jobs.Principal, fence lease.Fence, send func(int64, string)) {
		t.Helper()
		s, _, worker, fence = jobstest.Leased(t)
		return s, worker, fence, func(position int64, text string) {
			t.Helper()
			s.Exec(t, "UPDATE attempt_logs SET created_at = created_at - interval '1 minute'")
			_, err := s.Attempts.AppendLog(t.Context(), worker, fence, position, text)
			require.NoError(t, err)
		}
	}

	t.Run("ShowsReadersWhatIsNew", func(t *testing.T) {
		t.Parallel()

		s, worker, fence, send := setUp(t)
		send(0, "one\n")
		send(4, "tw")
		send(4, "two\nthree ü\n") // the answer was lost; there is more now

		all, err := s.Reads.Jobs.LiveLog(t.Context(), s.Client, fence.AttemptID, 0)
		require.NoError(t, err)
		require.Equal(t, "one\ntwo\nthree ü\n", all.Text)
		require.EqualValues(t, len(all.Text), all.End)
		for after, text := range map[int64]string{-1: all.Text, 4: "two\nthree ü\n", 6: "o\nthree ü\n", all.End: "", all.End + 5: ""} {
			rest, err := s.Reads.Jobs.LiveLog(t.Context(), s.Client, fence.AttemptID, after)
			require.NoError(t, err)
			require.Equal(t, text, rest.Text, after)
		}
		_, err = s.Attempts.AppendLog(t.Context(), worker, fence, all.End, "too soon")
		jobstest.RequireCode(t, err, apierror.CodeRateLimited)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		_, err = s.Reads.Jobs.LiveLog(t.Context(), stranger, fence.AttemptID, 0)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})

	t.Run("TakesOnePartInHalfASecondWhateverItsPosition", func(t *testing.T) {
		t.Parallel()

		s, worker, fence, send := setUp(t)
		send(100, "first")
		for _, position := range []int64{100, 0, 99, 105, 1 << 40} {
			_, err := s.Attempts.AppendLog(t.Context(), worker, fence, position, "too soon")
			jobstest.RequireCode(t, err, apierror.CodeRateLimited)
		}

		all, err := s.Reads.Jobs.LiveLog(t.Context(), s.Client, fence.AttemptID, 0)
		require.NoError(t, err)
		require.Equal(t, "first", all.Text, "a refused part changes nothing")
	})

	t.Run("TakesOneOfManyEqualPartsAtOnce", func(t *testing.T) {
		t.Parallel()

		s, worker, fence, _ := setUp(t)
		var taken atomic.Int64
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				if _, err := s.Attempts.AppendLog(t.Context(), worker, fence, 0, "again"); err == nil {
					taken.Add(1)
				}
			})
		}
		calls.Wait()

		require.EqualValues(t, 1, taken.Load())
	})

	t.Run("KeepsABoundedLogWhateverThePositions", func(t *testing.T) {
		t.Parallel()

		s, _, fence, send := setUp(t)
		part := strings.Repeat("x", lease.MaxLogPartBytes)
		for i := range 12 {
			send(int64(1000-i), part) // backwards
			send(int64(1_000_000*i), part)
		}

		var kept int
		require.NoError(t, s.DB.NewRaw("SELECT sum(octet_length(text)) FROM attempt_logs WHERE attempt_id = ?", fence.AttemptID).Scan(t.Context(),
			&kept))
		require.LessOrEqual(t, kept, lease.LiveLogBytes+lease.MaxLogPartBytes)
	})

	t.Run("KeepsTheEnd", func(t *testing.T) {
		t.Parallel()

		s, _, fence, send := setUp(t)
		part := strings.Repeat("x", lease.MaxLogPartBytes)
		for i := range 6 {
			send(int64(i*len(part)), part)
		}

		kept, err := s.Reads.Jobs.LiveLog(t.Context(), s.Client, fence.AttemptID, 0)

		require.NoError(t, err)
		require.EqualValues(t, 6*len(part), kept.End)
		require.Len(t, kept.Text, 5*len(part))
	})

	t.Run("IsFencedAndChecked", func(t *testing.T) {
		t.Parallel()

		s, worker, fence, send := setUp(t)
		send(0, "mine\n")
		for text, position := range map[string]int64{strings.Repeat("x", lease.MaxLogPartBytes+1): 5, "a\x00b": 5, "\xff": 5, "before": -1} {
			_, err := s.Attempts.AppendLog(t.Context(), worker, fence, position, text)
			jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
		}
		other := s.Worker(t, "other")
		_, err := s.Attempts.AppendLog(t.Context(), other, fence, 5, "another's\n")
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		s.ExpireLease(t, fence.AttemptID)
		_, err = s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		_, err = s.Attempts.AppendLog(t.Context(), worker, fence, 5, "late\n")
		jobstest.RequireCode(t, err, apierror.CodeLeaseLost)

		left, err := s.Reads.Jobs.LiveLog(t.Context(), s.Client, fence.AttemptID, 0)
		require.NoError(t, err)
		require.Equal(t, "mine\n", left.Text, "the log of a lost worker stays readable")
	})

	t.Run("GoesWithItsJobAndItsTime", func(t *testing.T) {
		t.Parallel()

		s, _, fence, send := setUp(t)
		send(0, "secret plans\n")
		aged := func(by time.Duration) {
			t.Helper()
			s.Exec(t, "UPDATE attempt_logs SET created_at = clock_timestamp() - make_interval(secs => ?)", by.Seconds())
			_, err := s.Upkeep.ForgetRest(t.Context())
			require.NoError(t, err)
		}
		aged(23 * time.Hour)
		require.Equal(t, 1, s.Count(t, "attempt_logs"))
		aged(25 * time.Hour)
		require.Zero(t, s.Count(t, "attempt_logs"))

		send(0, "secret plans\n")
		a, err := s.Reads.Jobs.Attempt(t.Context(), s.Client, fence.AttemptID)
		require.NoError(t, err)
		s.ExpireLease(t, fence.AttemptID)
		_, err = s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, a.JobID)
		require.NoError(t, err)
		_, err = s.Deleter.Delete(t.Context(), s.Client, a.JobID)
		require.NoError(t, err)
		require.Zero(t, s.Count(t, "attempt_logs"))
	})
}
