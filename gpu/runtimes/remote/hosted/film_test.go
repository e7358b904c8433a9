package hosted_test

import (
	"cmp"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/stretchr/testify/require"
)

// requireNotHad wants the failure of an attempt whose film is paid: one that counts, and after which the next attempt
// waits. Its class is none that clears the handle.
func requireNotHad(t *testing.T, failure *runtime.Failure) {
	t.Helper()
	require.Equal(t, runtime.ProviderUnavailable, failure.Class, failure.Message)
	require.False(t, failure.Unready, failure.Message)
	require.GreaterOrEqual(t, failure.RetryAfterSeconds, 30, failure.Message)
}

func TestAFilmThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s spec) {
		t.Run("IsFetchedByTheNextAttempt", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			f.Fault(cmp.Or(s.films, "GET /films/{id}"), 0, enginetest.Status(404, "NoSuchKey"))
			f.Run(10 * time.Millisecond)
			job := s.job("A paper boat")
			for _, delay := range []int{30, 60} {
				a := s.agent(t, f, key)
				a.Start(job)
				failure := a.End().Failure
				require.NotNil(t, failure)
				requireNotHad(t, failure)
				require.Equal(t, delay, failure.RetryAfterSeconds)
				job.Handle = a.LastHandle()
			}
			f.NoFaults()
			last := s.agent(t, f, key)
			last.Start(job)

			end := last.End()

			require.NotNil(t, end.Result, "%+v", end.Failure)
			require.Len(t, f.Tasks(), 1)
		})

		t.Run("IsNotMadeAgainIfTheProviderForgetsTheJob", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			film := cmp.Or(s.films, "GET /films/{id}")
			f.Fault(film, 0, enginetest.Status(404, "NoSuchKey"))
			f.Run(10 * time.Millisecond)
			a, job := s.agent(t, f, key), s.job("A paper boat")
			a.Start(job)
			require.NotNil(t, a.End().Failure)
			job.Handle = a.LastHandle()
			f.Fault(s.poll, 0, enginetest.Status(404, "not found"))
			b := s.patient(t, f, key, 2*time.Second)
			b.Start(job)

			failure := b.End().Failure

			require.NotNil(t, failure)
			require.Equal(t, runtime.ProviderUnavailable, failure.Class, failure.Message)
			require.NotEmpty(t, cmp.Or(b.LastHandle(), job.Handle))
			require.Len(t, f.Tasks(), 1)
		})

		for _, status := range []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests} {
			t.Run(fmt.Sprintf("IsWaitedForAfter/%d", status), func(t *testing.T) {
				t.Parallel()
				f := s.fake(t)
				for nth := range 3 {
					f.Fault(cmp.Or(s.films, "GET /films/{id}"), nth+1, enginetest.Status(status, "later"))
				}
				f.Run(10 * time.Millisecond)
				a := s.agent(t, f, key)
				a.Start(s.job("A paper boat"))

				end := a.End()

				require.NotNil(t, end.Result, "%+v", end.Failure)
				require.Len(t, f.Tasks(), 1)
			})
		}
	})
}
