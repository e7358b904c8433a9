package hooks_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/hooks"
	"github.com/stretchr/testify/require"
)

// site is an API that takes webhooks.
type site struct {
	*jobstest.Stack
	webhooks *hosted.Webhooks

	mu      sync.Mutex
	results map[hosted.WebhookResult]int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Stack: jobstest.New(t), results: map[hosted.WebhookResult]int{}}
	s.webhooks = &hosted.Webhooks{DB: s.DB, Notifications: s.Notifier.Notifications, Keys: blob.OneKey([]byte(strings.Repeat("k", 32))),
		Observe: func(r hosted.WebhookResult) { s.mu.Lock(); defer s.mu.Unlock(); s.results[r]++ }}
	mux := http.NewServeMux()
	mux.Handle(hooks.Pattern, hooks.Handler(s.webhooks))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.webhooks.URL = server.URL
	return s
}

// lease makes a pool of Kling, and leases a job for it.
func (s *site) lease(t *testing.T, pool string) (jobs.Principal, *lease.Lease) {
	t.Helper()
	made, err := s.Pools.Create(t.Context(), s.Admin, capacity.PoolSpec{
		Name: pool, Provider: engine.Provider, EngineKind: "kling", Models: []string{"testcard"},
	})
	require.NoError(t, err)
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: engine.Provider, ProviderInstanceID: pool + "@kling#1", GPUCount: 1, PoolID: made.ID,
		Region: "local", GPUType: "any", CapacityClass: models.CapacityOnDemand, AgentVersion: "test",
	})
	require.NoError(t, err)
	worker, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	s.Submit(t)
	granted, _, err := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID})
	require.NoError(t, err)
	require.NotNil(t, granted)
	return worker, granted
}

func (s *site) address(t *testing.T, job models.JobID) string {
	t.Helper()
	address, err := s.webhooks.Address(t.Context(), s.Enrolment, job)
	require.NoError(t, err)
	return address
}

// send sends a webhook, and returns the status of the answer.
func send(t *testing.T, address, body string) int {
	t.Helper()
	answer, err := http.Post(address, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

// come returns how many webhooks about a job were counted.
func (s *site) come(t *testing.T, job models.JobID) int {
	t.Helper()
	state, err := capacity.GetWebhookState(t.Context(), s.DB, job)
	require.NoError(t, err)
	return state.Webhooks
}

func (s *site) requireResults(t *testing.T, want map[hosted.WebhookResult]int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, want, maps.Clone(s.results))
}

func TestWebhooks(t *testing.T) {
	t.Parallel()

	t.Run("ChangeNothingWhateverTheySay", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		_, l := s.lease(t, "kling")
		address := s.address(t, l.Job.ID)
		before := s.Reload(t, l.Job.ID)

		for _, body := range []string{
			`{"id": "another", "status": "succeeded", "outputs": [{"url": "https://example.com/film.mp4"}]}`, `{"status": "failed"}`, "", "<html>",
			strings.Repeat("x", 100<<10),
		} {
			require.Equal(t, http.StatusAccepted, send(t, address, body), body)
		}

		require.Equal(t, 5, s.come(t, l.Job.ID))
		require.Equal(t, before, s.Reload(t, l.Job.ID))
		s.requireResults(t, map[hosted.WebhookResult]int{hosted.WebhookTaken: 5})
	})

	t.Run("AreRefusedAtAddressesThatNobodyWasGiven", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		_, l := s.lease(t, "kling")
		address := s.address(t, l.Job.ID)
		other := *s.webhooks
		other.Keys = blob.OneKey([]byte(strings.Repeat("o", 32)))
		foreign, err := other.Address(t.Context(), s.Enrolment, l.Job.ID)
		require.NoError(t, err)
		token := strings.TrimPrefix(address, s.webhooks.URL+hosted.WebhookPath)
		parts := strings.Split(token, ".")
		bare := s.webhooks.URL + hosted.WebhookPath

		forged := []string{
			foreign, address + "A", address[:len(address)-1], bare + "x", bare + "a.b.c", bare + parts[0] + "." + parts[1] + ".",
			bare + string(models.NewJobID()) + "." + parts[1] + "." + parts[2], bare + parts[0] + "." + parts[0] + "." + parts[2],
			bare + strings.Repeat("a", 4000),
		}
		for _, forged := range forged {
			require.Equal(t, http.StatusNotFound, send(t, forged, "{}"), forged)
		}

		require.Zero(t, s.come(t, l.Job.ID))
		s.requireResults(t, map[hosted.WebhookResult]int{hosted.WebhookUnknown: len(forged)})
		answer, err := http.Get(address)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
	})

	t.Run("CountOnlyTenTimes", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		_, l := s.lease(t, "kling")
		address := s.address(t, l.Job.ID)

		var sending sync.WaitGroup
		for range 30 {
			sending.Go(func() { send(t, address, `{"status": "succeeded"}`) })
		}
		sending.Wait()
		require.Equal(t, http.StatusAccepted, send(t, address, "{}"), "or its provider would send it again")

		require.Equal(t, 10, s.come(t, l.Job.ID))
		s.requireResults(t, map[hosted.WebhookResult]int{hosted.WebhookTaken: 10, hosted.WebhookSurplus: 21})
	})

	t.Run("AreAcceptedWithoutEffectAfterTheEndOfTheJob", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		worker, l := s.lease(t, "kling")
		address := s.address(t, l.Job.ID)
		_, err := s.Attempts.Fail(t.Context(), worker, jobstest.FenceOf(l), lease.Failure{Class: models.FailInvalidInput, Message: "No."})
		require.NoError(t, err)
		ended := s.Reload(t, l.Job.ID)

		require.Equal(t, http.StatusAccepted, send(t, address, `{"status": "succeeded"}`))

		require.Equal(t, ended, s.Reload(t, l.Job.ID))
		s.requireResults(t, map[hosted.WebhookResult]int{hosted.WebhookLate: 1})
		_, err = s.webhooks.Address(t.Context(), s.Enrolment, l.Job.ID)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})

	t.Run("OfTheAccountBeforeHaveNoEffect", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		_, l := s.lease(t, "kling")
		address := s.address(t, l.Job.ID)
		other, err := s.Pools.Create(t.Context(), s.Admin, capacity.PoolSpec{
			Name: "second", Provider: engine.Provider, EngineKind: "kling", Models: []string{"testcard"},
		})
		require.NoError(t, err)
		s.Exec(t, "UPDATE provider_slots SET pool_id = ?", other.ID) // as if another account had the job now

		require.Equal(t, http.StatusAccepted, send(t, address, "{}"))

		require.Zero(t, s.come(t, l.Job.ID))
		s.requireResults(t, map[hosted.WebhookResult]int{hosted.WebhookLate: 1})
	})

	t.Run("AreSentAgainWhilePostgreSQLIsAway", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		_, l := s.lease(t, "kling")
		address := s.address(t, l.Job.ID)
		require.NoError(t, s.DB.Close())

		require.GreaterOrEqual(t, send(t, address, "{}"), 500)
	})

	t.Run("AreForAgents", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		worker, l := s.lease(t, "kling")
		for _, job := range []models.JobID{models.NewJobID(), "x", "", "pol_1"} {
			_, err := s.webhooks.Address(t.Context(), s.Enrolment, job)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		_, err := s.webhooks.Address(t.Context(), worker, l.Job.ID)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		err = s.Watcher.Webhooks(t.Context(), worker, l.Job.ID, nil)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		err = s.Watcher.Webhooks(t.Context(), s.Enrolment, "x", nil)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})
}

func TestWatcher_Webhooks(t *testing.T) {
	t.Parallel()

	t.Run("TellsOfThoseThatCameBeforeAndOfEachLater", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		worker, l := s.lease(t, "kling")
		address := s.address(t, l.Job.ID)
		require.Equal(t, http.StatusAccepted, send(t, address, "{}"))
		require.Equal(t, http.StatusAccepted, send(t, address, "{}"))
		told, ended := make(chan int, 20), make(chan error, 1)
		go func() {
			ended <- s.Watcher.Webhooks(t.Context(), s.Enrolment, l.Job.ID, func(n int) error { told <- n; return nil })
		}()

		require.Equal(t, 2, <-told)
		require.Equal(t, http.StatusAccepted, send(t, address, "{}"))
		require.Equal(t, 3, <-told)
		_, err := s.Attempts.Fail(t.Context(), worker, jobstest.FenceOf(l), lease.Failure{Class: models.FailInvalidInput, Message: "No."})
		require.NoError(t, err)
		require.NoError(t, <-ended)
		require.Empty(t, told)
	})

	t.Run("EndsWithItsReader", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		_, l := s.lease(t, "kling")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Watcher.Webhooks(ctx, s.Enrolment, l.Job.ID, nil) }()

		stop()

		require.Error(t, <-ended)
	})
}
