package inputs_test

import (
	"context"
	"fmt"
	"image/color"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/remote"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const hour = time.Hour

// site serves the content that a test sets, and counts the calls.
type site struct {
	url   string
	calls atomic.Int64
	serve atomic.Pointer[http.HandlerFunc]
}

func newSite(t *testing.T, serve http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.serve.Store(&serve)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		(*s.serve.Load())(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL + "/picture?token=hush"
	return s
}

func serving(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
}

func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// fetch runs a pass over all fetches, due now or later.
func fetch(t *testing.T, s *jobstest.Stack) int {
	t.Helper()
	s.Exec(t, "UPDATE input_fetches SET next_at = '-infinity'")
	n, err := s.Fetcher.Pass(t.Context())
	require.NoError(t, err)
	s.RequireInvariants(t)
	return n
}

func TestInputFetch(t *testing.T) {
	t.Parallel()

	t.Run("RunsOnceBeforeTheJobIsQueued", func(t *testing.T) {
		t.Parallel()

		s, from := jobstest.New(t), newSite(t, serving(jobstest.Picture(t, color.White)))
		job := submitFrom(t, s, from.url)
		waits, err := s.WaitingFor(t, job.ID)
		require.NoError(t, err)
		s.RequireInvariants(t)

		first, second := fetch(t, s), fetch(t, s)
		lease, _ := s.Lease(t, s.Worker(t, "one"))

		require.Equal(t, models.JobBlocked, job.Status)
		require.Equal(t, query.WaitInput, waits[job.ID][0].Code)
		require.Equal(t, []int{1, 0}, []int{first, second})
		require.EqualValues(t, 1, from.calls.Load())
		require.Equal(t, job.ID, lease.Job.ID)
		require.Len(t, lease.Inputs, 1)
		require.Equal(t, "image/png", lease.Inputs[0].ContentType)
	})

	t.Run("BlocksTheJobInAdditionToItsParentsAndRunAt", func(t *testing.T) {
		t.Parallel()

		s, from := jobstest.New(t), newSite(t, serving(jobstest.Picture(t, color.White)))
		parent := s.Submit(t)
		in := fromImage(from.url)
		later := time.Now().Add(hour)
		in.DependsOn, in.RunAt = []models.JobID{parent.ID}, &later
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)

		blocked := s.Reload(t, job.ID).BlockedBy
		fetch(t, s)
		fetched := s.Reload(t, job.ID)

		require.Equal(t, 2, blocked)
		require.Equal(t, 1, fetched.BlockedBy)
		require.Equal(t, models.JobBlocked, fetched.Status)
		s.Exec(t, "UPDATE jobs SET blocked_by = 0, run_at = now() WHERE id = ?", job.ID)
		_, err = s.Releaser.Due(t.Context())
		require.NoError(t, err)
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
	})

	t.Run("FailsTheJobWithTheReasonTheImageIsInvalid", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for reason, serve := range map[string]http.HandlerFunc{
			"cannot be fetched: it answered 404": answering(http.StatusNotFound),
			"cannot be fetched: it answered 302": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
			},
			"cannot be used: it is SVG: convert it to JPEG, PNG or WebP": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "image/png")
				_, _ = w.Write([]byte("<svg><script/></svg>"))
			},
			"cannot be fetched: it was sent compressed": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
			},
		} {
			from := newSite(t, serve)
			job := submitFrom(t, s, from.url)

			fetch(t, s)

			failed := s.Reload(t, job.ID)
			require.Equal(t, models.JobFailed, failed.Status, reason)
			require.Equal(t, models.FailInvalidInput, failed.FailureClass)
			require.Contains(t, failed.FailureReason, reason)
			require.NotContains(t, failed.FailureReason, "hush")
			require.EqualValues(t, 1, from.calls.Load())
		}
	})

	t.Run("IsRetriedAFewTimesWhileTheSiteIsUnreachable", func(t *testing.T) {
		t.Parallel()

		s, from := jobstest.New(t), newSite(t, answering(http.StatusServiceUnavailable))
		lost, found := submitFrom(t, s, from.url), submitFrom(t, s, from.url)
		for range 4 {
			fetch(t, s)
		}
		waits, err := s.WaitingFor(t, lost.ID)
		require.NoError(t, err)
		s.Exec(t, "UPDATE input_fetches SET claimed_until = 'infinity' WHERE job_id = ?", found.ID)

		fetch(t, s)
		whole := serving(jobstest.Picture(t, color.White))
		from.serve.Store(&whole)
		s.Exec(t, "UPDATE input_fetches SET claimed_until = '-infinity'")
		fetch(t, s)

		require.Contains(t, waits[lost.ID][0].Message, "attempt 4 of 5 failed: it answered 503")
		require.Equal(t, models.JobFailed, s.Reload(t, lost.ID).Status)
		require.Equal(t, models.JobQueued, s.Reload(t, found.ID).Status)
	})

	t.Run("ContinuesInAnotherProcessAfterACrash", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		reached, hang := make(chan struct{}), make(chan struct{})
		from := newSite(t, func(_ http.ResponseWriter, r *http.Request) {
			close(reached)
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		})
		defer close(hang)
		job := submitFrom(t, s, from.url)
		dying, kill := context.WithCancel(context.Background())
		deaf := &inputs.Inputs{DB: s.DB, Objects: s.Objects, Remote: s.Inputs.Remote}
		ended := make(chan error, 1)
		go func() {
			_, err := (&inputs.InputFetcher{Inputs: deaf, Notifier: s.Notifier, Catalogue: s.Submitter.Catalogue}).Pass(dying)
			ended <- err
		}()
		<-reached
		held := fetch(t, s)
		// A killed process does not release its claim: it expires.
		s.Exec(t, "UPDATE input_fetches SET claimed_until = '-infinity'")
		whole := serving(jobstest.Picture(t, color.White))
		from.serve.Store(&whole)

		taken := fetch(t, s)
		kill()
		require.NoError(t, <-ended)

		require.Equal(t, []int{0, 1}, []int{held, taken})
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		require.Len(t, filesOf(t, s, job.ID), 1)
		s.RequireInvariants(t)
	})

	t.Run("IsReleasedByAProcessThatShutsDown", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		reached := make(chan struct{})
		from := newSite(t, func(_ http.ResponseWriter, r *http.Request) { close(reached); <-r.Context().Done() })
		job := submitFrom(t, s, from.url)
		ending, end := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		due := periodic.NewWake()
		due.Send()
		go func() { ended <- s.Fetcher.Run(ending, due) }()
		<-reached

		end()
		require.NoError(t, <-ended)
		whole := serving(jobstest.Picture(t, color.White))
		from.serve.Store(&whole)

		require.Equal(t, 1, fetch(t, s))
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
	})

	t.Run("DoesNotChangeAJobThatHasEnded", func(t *testing.T) {
		t.Parallel()

		s, from := jobstest.New(t), newSite(t, serving(jobstest.Picture(t, color.White)))
		job := submitFrom(t, s, from.url)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		fetch(t, s)
		calls := from.calls.Load()
		_, err = s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
		require.NoError(t, err)
		again := s.Reload(t, job.ID).Status
		fetch(t, s)

		require.Zero(t, calls)
		require.Equal(t, models.JobBlocked, again)
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		require.Zero(t, s.Count(t, "input_fetches"))
	})

	t.Run("IsNotRepeatedForANewRun", func(t *testing.T) {
		t.Parallel()

		s, from := jobstest.New(t), newSite(t, serving(jobstest.Picture(t, color.White)))
		job := submitFrom(t, s, from.url)
		fetch(t, s)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		_, err = s.Retrier.Retry(t.Context(), s.Client, job.ID, false)

		require.NoError(t, err)
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		require.EqualValues(t, 1, from.calls.Load())
	})

	t.Run("CanBeReplacedByARedrive", func(t *testing.T) {
		t.Parallel()

		s, from := jobstest.New(t), newSite(t, answering(http.StatusNotFound))
		job := submitFrom(t, s, from.url)
		fetch(t, s)
		var letter models.DeadLetterID
		require.NoError(t, s.DB.NewRaw("SELECT id FROM dead_letters WHERE job_id = ?", job.ID).Scan(t.Context(), &letter))
		id := s.UploadInput(t, s.Client, jobstest.Picture(t, color.White))

		_, err1 := s.DeadLetters.Redrive(t.Context(), s.Admin, letter, operate.Edit{Params: fromImage(string(models.NewArtifactID())).Params})
		_, err2 := s.DeadLetters.Redrive(t.Context(), s.Admin, letter, operate.Edit{Params: fromImage(string(id)).Params})

		jobstest.RequireCode(t, err1, apierror.CodeNotFound)
		require.NoError(t, err2)
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("OfOneAccountDoesNotDelayOthers", func(t *testing.T) {
		t.Parallel()

		s, from := jobstest.New(t), newSite(t, serving(jobstest.Picture(t, color.White)))
		for range 6 {
			submitFrom(t, s, from.url)
		}
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierEnterprise), access.RoleClient)
		_, _, err := s.Submitter.Submit(t.Context(), other, fromImage(from.url))
		require.NoError(t, err)

		first, err := models.ClaimInputFetches(t.Context(), s.DB, 16, 4, time.Minute)
		require.NoError(t, err)
		second, err := models.ClaimInputFetches(t.Context(), s.DB, 16, 4, time.Minute)
		require.NoError(t, err)

		require.Len(t, first, 5)
		require.Empty(t, second)
	})

	t.Run("ReachesOnlyPublicAddresses", func(t *testing.T) {
		t.Parallel()

		s, from := jobstest.New(t), newSite(t, serving(jobstest.Picture(t, color.White)))
		accepted := submitFrom(t, s, from.url)
		s.Inputs.Remote = remote.New(outbound.Policy{})

		for _, url := range []string{
			from.url, "http://example.com/a.png", "https://169.254.169.254/", "https://[::ffff:10.0.0.1]/", "https://2130706433/",
			"https://metadata.google.internal/", "file:///etc/passwd", "data:image/png;base64,AAAA", "picture.png", "https://user:pw@example.com/",
		} {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, fromImage(url))
			jobstest.RequireInvalid(t, err, "params.referenceImage")
			require.NotContains(t, fmt.Sprint(err), "pw@")
		}
		fetch(t, s)

		require.Equal(t, models.JobFailed, s.Reload(t, accepted.ID).Status)
		require.Zero(t, from.calls.Load())
	})
}
