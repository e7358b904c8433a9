package webhook_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

func TestWebhookRetry(t *testing.T) {
	t.Parallel()

	t.Run("ContinuesForADay", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		_, secret := jobstest.Hook(t, s, r)
		r.AnswersStatus(http.StatusBadGateway)
		job := jobstest.CancelledJob(t, s)
		life := time.Duration(0)
		for {
			require.Equal(t, 1, jobstest.Deliver(t, s))
			require.Zero(t, jobstest.Deliver(t, s), "the next try waits for its time")
			d := jobstest.Deliveries(t, s, job.ID)[0]
			if d.State != webhooks.DeliveryPending {
				break
			}
			now, err := postgres.Now(t.Context(), s.DB)
			require.NoError(t, err)
			wait := d.NextAttemptAt.Sub(now)
			require.Positive(t, wait)
			ageWebhooks(t, s, wait)
			life += wait
		}

		d := jobstest.Deliveries(t, s, job.ID)[0]
		require.Equal(t, webhooks.DeliveryGivenUp, d.State)
		require.Equal(t, "The endpoint responded with status 502 Bad Gateway.", d.LastError)
		require.Greater(t, life, 21*time.Hour)
		require.LessOrEqual(t, life, 24*time.Hour)
		require.Equal(t, 12, d.Tries)
		require.Len(t, r.All(), 12)
		for _, w := range r.All() {
			verify(t, secret, w)
			require.Equal(t, r.All()[0].Id(), w.Id(), "every try has the same webhook-id")
		}
		tries, err := s.Reads.Webhooks.Tries(t.Context(), jobs.Host, d)
		require.NoError(t, err)
		require.Len(t, tries, 12)
		require.Equal(t, 502, *tries[11].StatusCode)
		s.RequireInvariants(t)
	})

	t.Run("FollowsTheTable", func(t *testing.T) {
		t.Parallel()

		for name, c := range map[string]struct {
			tries           int
			age, retryAfter time.Duration
			jitter          float64
			wait            time.Duration
			more            bool
		}{
			"the second try":                   {tries: 1, wait: 5 * time.Second, more: true},
			"with jitter":                      {tries: 1, jitter: 1, wait: 5500 * time.Millisecond, more: true},
			"and less":                         {tries: 8, jitter: -1, wait: 108 * time.Minute, more: true},
			"the twelfth":                      {tries: 11, wait: 10 * time.Hour, more: true},
			"none after that":                  {tries: 12},
			"at the end of its life":           {tries: 11, age: 20 * time.Hour, wait: 4 * time.Hour, more: true},
			"none after its life":              {tries: 2, age: 24 * time.Hour},
			"when the receiver asks for it":    {tries: 1, retryAfter: time.Hour, wait: time.Hour, more: true},
			"not sooner than the table":        {tries: 7, retryAfter: time.Second, wait: time.Hour, more: true},
			"not after its life, whoever asks": {tries: 1, age: 23 * time.Hour, retryAfter: 24 * time.Hour, wait: time.Hour, more: true},
		} {
			wait, more := webhook.PlanRetry(c.tries, c.age, c.retryAfter, c.jitter)

			require.Equal(t, c.more, more, name)
			require.InDelta(t, c.wait, wait, float64(time.Millisecond), name)
		}
	})

	t.Run("HonorsRetryAfter", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		r.Answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		job := jobstest.CancelledJob(t, s)

		jobstest.Deliver(t, s)

		d := jobstest.Deliveries(t, s, job.ID)[0]
		require.WithinDuration(t, d.FirstTryAt.Add(24*time.Hour), d.NextAttemptAt, time.Minute, "but no longer than it lives")
	})

	t.Run("DoesNotDelayOtherEndpoints", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		slow, quick := jobstest.NewReceiver(t), jobstest.NewReceiver(t)
		arrived, release := make(chan struct{}, 30), make(chan struct{})
		slow.Answers(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release })
		jobstest.Hook(t, s, slow)
		jobstest.Hook(t, s, quick)
		for range 20 {
			jobstest.CancelledJob(t, s)
		}
		first := make(chan error, 1)
		go func() {
			_, err := s.Deliverer.Pass(context.Background())
			first <- err
		}()
		for range 8 {
			<-arrived
		}

		for len(quick.All()) < 20 {
			jobstest.Deliver(t, s)
		}

		require.Len(t, slow.All(), 8, "no more than so many at once")
		close(release)
		require.NoError(t, <-first)
		s.RequireInvariants(t)
	})

	t.Run("IsFairBetweenAccounts", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		for range 5 {
			jobstest.Hook(t, s, r)
		}
		for range 4 {
			jobstest.CancelledJob(t, s)
		}
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierPro), access.RoleClient)
		_, _, err := s.Webhooks.CreateEndpoint(t.Context(), other, r.URL, webhooks.FormatStandard, nil)
		require.NoError(t, err)
		job := jobstest.SubmitAs(t, s, other, func(in *submit.Submission) {})
		_, err = s.Canceller.Cancel(t.Context(), other, job.ID)
		require.NoError(t, err)

		claimed, err := webhooks.ClaimDeliveries(t.Context(), s.DB, webhooks.Bounds{PerEndpoint: 8, PerAccount: 16, Failing: 1}, 2,
			time.Minute)

		require.NoError(t, err)
		require.ElementsMatch(t, []models.AccountID{s.Account.ID, other.AccountID},
			[]models.AccountID{claimed[0].AccountID, claimed[1].AccountID})
		claimed, err = webhooks.ClaimDeliveries(t.Context(), s.DB, webhooks.Bounds{PerEndpoint: 8, PerAccount: 16, Failing: 1}, 100,
			time.Minute)
		require.NoError(t, err)
		require.Len(t, claimed, 15, "with the one before an account's whole share")
	})

	t.Run("DisablesAnEndpointThatAnswersGone", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, _ := jobstest.Hook(t, s, r)
		r.AnswersStatus(http.StatusGone)
		job := jobstest.CancelledJob(t, s)

		jobstest.Deliver(t, s)

		endpoint, err := s.Reads.Webhooks.Endpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.True(t, endpoint.Disabled())
		require.Equal(t, "The endpoint responded with status 410 Gone.", endpoint.DisabledReason)
		d := jobstest.Deliveries(t, s, job.ID)[0]
		require.Equal(t, webhooks.DeliveryGivenUp, d.State)
		require.Equal(t, 1, d.Tries)
		quiet := jobstest.CancelledJob(t, s)
		require.Empty(t, jobstest.Deliveries(t, s, quiet.ID))
		_, err = s.Webhooks.Redeliver(t.Context(), s.Client, d.ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		s.RequireInvariants(t)

		r.Answers(nil)
		endpoint, err = s.Webhooks.EnableEndpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.False(t, endpoint.Disabled())
		_, err = s.Webhooks.Redeliver(t.Context(), s.Client, d.ID)
		require.NoError(t, err)
		require.Equal(t, 1, jobstest.Deliver(t, s))
		require.True(t, jobstest.Deliveries(t, s, job.ID)[0].Delivered())
		require.Len(t, jobstest.Deliveries(t, s, jobstest.CancelledJob(t, s).ID), 1)
	})

	t.Run("DisablesAnEndpointThatFailedForADay", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, _ := jobstest.Hook(t, s, r)
		r.AnswersStatus(http.StatusInternalServerError)
		jobs := make([]*models.Job, 12)
		for i := range jobs {
			jobs[i] = jobstest.CancelledJob(t, s)
		}
		for range 9 {
			require.LessOrEqual(t, jobstest.Deliver(t, s), 8)
			ageWebhooks(t, s, time.Minute)
		}
		endpoint, err := s.Reads.Webhooks.Endpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.False(t, endpoint.Disabled(), "not for long yet")
		require.GreaterOrEqual(t, endpoint.FailedTries, 9)

		ageWebhooks(t, s, 24*time.Hour)
		require.Equal(t, 1, jobstest.Deliver(t, s), "one that fails is tried by one at a time")

		endpoint, err = s.Reads.Webhooks.Endpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.True(t, endpoint.Disabled())
		require.Contains(t, endpoint.DisabledReason, "tries failed for 24 hours; the last: The endpoint responded with status 500")
		require.Zero(t, jobstest.Deliver(t, s))
		for _, job := range jobs {
			require.Equal(t, webhooks.DeliveryGivenUp, jobstest.Deliveries(t, s, job.ID)[0].State)
		}
	})

	t.Run("StopsAtAnEndpointThatWasDisabledByHand", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, _ := jobstest.Hook(t, s, r)
		pending := jobstest.CancelledJob(t, s)

		for range 2 {
			off, err := s.Webhooks.DisableEndpoint(t.Context(), s.Client, endpoint.ID)
			require.NoError(t, err)
			require.True(t, off.Disabled())
			require.Equal(t, "It was disabled by hand.", off.DisabledReason)
		}
		missed := jobstest.CancelledJob(t, s)

		require.Zero(t, jobstest.Deliver(t, s))
		require.Equal(t, webhooks.DeliveryGivenUp, jobstest.Deliveries(t, s, pending.ID)[0].State)
		require.Empty(t, jobstest.Deliveries(t, s, missed.ID))
		on, err := s.Webhooks.EnableEndpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.False(t, on.Disabled())
		next := jobstest.CancelledJob(t, s)
		require.Equal(t, 1, jobstest.Deliver(t, s))
		require.True(t, jobstest.Deliveries(t, s, next.ID)[0].Delivered())
		require.Empty(t, jobstest.Deliveries(t, s, missed.ID), "what ended in the meantime is not sent")
	})

	t.Run("ResetsTheFailuresOfAnEndpointThatWorksAgain", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, _ := jobstest.Hook(t, s, r)
		r.AnswersStatus(http.StatusInternalServerError)
		jobstest.CancelledJob(t, s)
		jobstest.Deliver(t, s)
		r.Answers(nil)
		ageWebhooks(t, s, time.Minute)

		require.Equal(t, 1, jobstest.Deliver(t, s))

		endpoint, err := s.Reads.Webhooks.Endpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.Zero(t, endpoint.FailedTries)
		require.True(t, endpoint.FailingSince.IsZero())
	})
}
