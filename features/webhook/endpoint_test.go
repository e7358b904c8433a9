package webhook_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/webhooks"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

func TestWebhookEndpoint(t *testing.T) {
	t.Parallel()

	t.Run("RefusesURLsThatMustNotBeCalled", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		strict := &webhook.Endpoints{DB: s.DB, Sealer: s.Webhooks.Sealer}
		submitter := s.AnotherSubmitter()
		submitter.Outbound = outbound.Policy{}
		for _, url := range []string{
			"", "http://example.com", "ftp://example.com", "file:///etc/passwd", "//example.com", "/hook", "https://" + strings.Repeat("a", 2049),
			"https://user:pw@example.com", "https://example.com/#x", "https://example.com:0", "https://127.0.0.1/", "https://[::1]/",
			"https://localhost", "https://169.254.169.254/", "https://metadata.google.internal/", "https://[::ffff:127.0.0.1]/",
			"https://2130706433/", "https://10.0.0.1/",
		} {
			_, _, err := strict.CreateEndpoint(t.Context(), s.Client, url, webhooks.FormatStandard, nil)
			jobstest.RequireInvalid(t, err, "url")
			if url == "" {
				continue
			}
			in := jobstest.Submission()
			in.CallbackURL = url
			_, _, err = submitter.Submit(t.Context(), s.Client, in)
			jobstest.RequireInvalid(t, err, "callbackUrl")
		}
		require.Zero(t, s.Count(t, "webhook_endpoints"))
		require.Zero(t, s.Count(t, "jobs"))
	})

	t.Run("IsNotCalledAtAForbiddenAddress", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		job := jobstest.CancelledJob(t, s)
		strict := webhook.NewDeliverer(s.DB, s.Webhooks.Sealer, wire.New(s.Reads), webhook.NewSender(outbound.Policy{}), s.Base)

		_, err := strict.Pass(t.Context())

		require.NoError(t, err)
		require.Empty(t, r.All())
		d := jobstest.Deliveries(t, s, job.ID)[0]
		require.Equal(t, 1, d.Tries)
		require.NotContains(t, d.LastError, "127.0.0.1")
		require.NotEmpty(t, d.LastError)
	})

	t.Run("AcceptsOnlyTheEventsOfItsFormat", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, c := range []struct {
			format webhooks.Format
			events []string
		}{
			{webhooks.FormatStandard, []string{"job.done"}}, {webhooks.FormatStandard, []string{"video.completed"}},
			{webhooks.FormatOpenAI, []string{"job.completed"}}, {webhooks.FormatStandard, []string{"job.completed\r\nX: y"}},
			{"OTHER", []string{"job.failed"}},
		} {
			_, _, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, "https://example.com/", c.format, c.events)
			jobstest.RequireInvalid(t, err, "events")
		}

		endpoint, secret, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, "https://example.com/", webhooks.FormatStandard,
			[]string{"job.failed", "job.completed", "job.failed"})

		require.NoError(t, err)
		require.Equal(t, []string{"job.completed", "job.failed"}, endpoint.Events)
		require.True(t, strings.HasPrefix(secret, "whsec_"))
		for table, dump := range s.Dump(t) {
			require.NotContains(t, dump, strings.TrimPrefix(secret, "whsec_"), table)
		}
	})

	t.Run("IsLimitedToTwentyPerAccount", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		var last *webhooks.Endpoint
		for range 20 {
			last, _ = jobstest.Hook(t, s, r)
		}
		_, _, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, r.URL, webhooks.FormatStandard, nil)
		jobstest.RequireCode(t, err, apierror.CodeConflict)

		require.NoError(t, s.Webhooks.DeleteEndpoint(t.Context(), s.Client, last.ID))

		jobstest.Hook(t, s, r)
	})

	t.Run("SignsWithBothSecretsForADay", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, old := jobstest.Hook(t, s, r)
		_, secret, err := s.Webhooks.RotateSecret(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.NotEqual(t, old, secret)
		jobstest.CancelledJob(t, s)

		jobstest.Deliver(t, s)

		verify(t, old, r.All()[0])
		verify(t, secret, r.All()[0])
		ageWebhooks(t, s, 25*time.Hour)
		jobstest.CancelledJob(t, s)
		jobstest.Deliver(t, s)
		verify(t, secret, r.All()[1])
		verifier, err := standardwebhooks.NewWebhook(old)
		require.NoError(t, err)
		require.ErrorIs(t, verifier.Verify(r.All()[1].Body, r.All()[1].Header), standardwebhooks.ErrNoMatchingSignature)
	})

	t.Run("IsRemovedWithItsSecrets", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, _ := jobstest.Hook(t, s, r)
		job := jobstest.CancelledJob(t, s)
		quick := jobstest.CancelledJob(t, s)
		claimed, err := webhooks.ClaimDeliveries(t.Context(), s.DB, webhooks.Bounds{PerEndpoint: 1, PerAccount: 1, Failing: 1}, 1, time.Minute)
		require.NoError(t, err)
		require.Equal(t, job.ID, claimed[0].JobID)

		require.NoError(t, s.Webhooks.DeleteEndpoint(t.Context(), s.Client, endpoint.ID))

		jobstest.RequireCode(t, s.Webhooks.DeleteEndpoint(t.Context(), s.Client, endpoint.ID), apierror.CodeNotFound)
		given := jobstest.Deliveries(t, s, quick.ID)[0]
		require.Equal(t, "The endpoint was deleted.", given.LastError)
		ageWebhooks(t, s, time.Minute)
		require.Equal(t, 1, jobstest.Deliver(t, s), "the one that somebody was at")
		require.Equal(t, "The endpoint was deleted.", jobstest.Deliveries(t, s, job.ID)[0].LastError)
		require.Empty(t, r.All())
		_, err = s.Webhooks.Redeliver(t.Context(), s.Client, given.ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		s.RequireInvariants(t)
	})

	t.Run("IsHiddenFromOtherAccounts", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		endpoint, _ := jobstest.Hook(t, s, jobstest.NewReceiver(t))
		d := jobstest.Deliveries(t, s, jobstest.CancelledJob(t, s).ID)[0]
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		worker := s.Worker(t, "one")

		for _, p := range []jobs.Principal{stranger, worker} {
			_, err := s.Reads.Webhooks.Endpoint(t.Context(), p, endpoint.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Reads.Webhooks.Delivery(t.Context(), p, d.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Reads.Webhooks.Endpoints(t.Context(), p, s.Account.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, _, err = s.Webhooks.RotateSecret(t.Context(), p, endpoint.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Webhooks.EnableEndpoint(t.Context(), p, endpoint.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Webhooks.DisableEndpoint(t.Context(), p, endpoint.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			jobstest.RequireCode(t, s.Webhooks.DeleteEndpoint(t.Context(), p, endpoint.ID), apierror.CodeNotFound)
			_, err = s.Webhooks.Redeliver(t.Context(), p, d.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		page, err := s.Reads.Webhooks.Deliveries(t.Context(), stranger, webhooks.DeliveryFilter{EndpointID: endpoint.ID},
			paging.Request{First: 10})
		require.NoError(t, err)
		require.Empty(t, page.Items)
		_, err = s.Webhooks.Redeliver(t.Context(), s.Admin, d.ID)
		require.NoError(t, err)
		_, _, err = s.Webhooks.RotateSecret(t.Context(), s.Admin, endpoint.ID)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
	})
}

func TestRedeliver(t *testing.T) {
	t.Parallel()

	t.Run("SendsTheEventAgainUnderTheSameID", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		job := jobstest.CancelledJob(t, s)
		jobstest.Deliver(t, s)
		id := jobstest.Deliveries(t, s, job.ID)[0].ID
		r.AnswersStatus(http.StatusInternalServerError)

		_, err := s.Webhooks.Redeliver(t.Context(), s.Client, id)
		require.NoError(t, err)
		require.Equal(t, 1, jobstest.Deliver(t, s))

		d := jobstest.Deliveries(t, s, job.ID)[0]
		require.Equal(t, webhooks.DeliveryDelivered, d.State, "it has been taken before")
		require.Equal(t, 2, d.Tries)
		require.Equal(t, "The endpoint responded with status 500 Internal Server Error.", d.LastError)
		require.Equal(t, r.All()[0].Id(), r.All()[1].Id())
		ageWebhooks(t, s, 24*time.Hour)
		require.Zero(t, jobstest.Deliver(t, s), "one try")
		s.RequireInvariants(t)
	})

	t.Run("DoesNotWaitForTheNextTry", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		r.AnswersStatus(http.StatusInternalServerError)
		job := jobstest.CancelledJob(t, s)
		jobstest.Deliver(t, s)
		require.Zero(t, jobstest.Deliver(t, s))

		_, err := s.Webhooks.Redeliver(t.Context(), s.Client, jobstest.Deliveries(t, s, job.ID)[0].ID)

		require.NoError(t, err)
		require.Equal(t, 1, jobstest.Deliver(t, s))
		require.Equal(t, webhooks.DeliveryPending, jobstest.Deliveries(t, s, job.ID)[0].State, "its delivery is tried again")
	})
}

func TestTestWebhook(t *testing.T) {
	t.Parallel()

	t.Run("IsSignedAndSentLikeAnyWebhook", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, secret := jobstest.Hook(t, s, r, "job.failed")

		sent, err := s.Webhooks.Test(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.False(t, sent.Delivered())
		require.Equal(t, 1, jobstest.Deliver(t, s))

		got := r.All()[0]
		verify(t, secret, got)
		require.Equal(t, string(sent.EventID), got.Id())
		var body map[string]any
		require.NoError(t, json.Unmarshal(got.Body, &body))
		require.Equal(t, "webhook.test", body["type"])
		require.Equal(t, map[string]any{"id": string(endpoint.ID), "account": string(s.Client.AccountID)}, body["data"])
		d := jobstest.Deliveries(t, s, sent.JobID)[0]
		require.True(t, d.Delivered())
		tries, err := s.Reads.Webhooks.Tries(t.Context(), jobs.Host, d)
		require.NoError(t, err)
		require.Len(t, tries, 1)
		again, err := s.Webhooks.Redeliver(t.Context(), s.Client, d.ID)
		require.NoError(t, err)
		require.Equal(t, d.ID, again.ID)
		require.Equal(t, 1, jobstest.Deliver(t, s))
		s.RequireInvariants(t)
	})

	t.Run("IsTriedOnce", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		r.AnswersStatus(http.StatusTeapot)
		endpoint, _ := jobstest.Hook(t, s, r)
		sent, err := s.Webhooks.Test(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		_, twice := s.Webhooks.Test(t.Context(), s.Client, endpoint.ID)
		jobstest.RequireCode(t, twice, apierror.CodeConflict)

		jobstest.Deliver(t, s)

		ageWebhooks(t, s, time.Hour)
		require.Zero(t, jobstest.Deliver(t, s))
		d := jobstest.Deliveries(t, s, sent.JobID)[0]
		require.Equal(t, webhooks.DeliveryGivenUp, d.State)
		require.Contains(t, d.LastError, "418")
		_, err = s.Webhooks.Test(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err, "after the first is over")
		s.RequireInvariants(t)
	})

	t.Run("WorksOnlyForEnabledEndpointsOfTheAccount", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, _ := jobstest.Hook(t, s, r)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)

		_, foreign := s.Webhooks.Test(t.Context(), stranger, endpoint.ID)
		_, unknown := s.Webhooks.Test(t.Context(), s.Client, "whk_1")
		r.AnswersStatus(http.StatusGone)
		_, err := s.Webhooks.Test(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		jobstest.Deliver(t, s)
		_, disabled := s.Webhooks.Test(t.Context(), s.Client, endpoint.ID)

		jobstest.RequireCode(t, foreign, apierror.CodeNotFound)
		jobstest.RequireCode(t, unknown, apierror.CodeNotFound)
		jobstest.RequireCode(t, disabled, apierror.CodeConflict)
	})
}
