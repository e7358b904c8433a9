package webhook_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/jobs/webhook"
	"github.com/reelay/reelay/models"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// ageWebhooks makes all that is known of webhooks older.
func ageWebhooks(t *testing.T, s *jobstest.Stack, by time.Duration) {
	t.Helper()
	s.Exec(t, `UPDATE webhook_deliveries SET next_attempt_at = next_attempt_at - i, first_try_at = first_try_at - i,
		created_at = created_at - i, claimed_until = claimed_until - i, delivered_at = delivered_at - i
		FROM (SELECT make_interval(secs => ?) AS i) by`, by.Seconds())
	s.Exec(t, `UPDATE webhook_endpoints SET failing_since = failing_since - i, old_secret_until = old_secret_until - i
		FROM (SELECT make_interval(secs => ?) AS i) by`, by.Seconds())
}

func verify(t *testing.T, secret string, w jobstest.Received) {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, verifier.Verify(w.Body, w.Header))
}

// fieldNames are the names in a document, in its order.
func fieldNames(t *testing.T, document []byte) (names []string) {
	t.Helper()
	require.True(t, json.Valid(document), string(document))
	for _, found := range regexp.MustCompile(`"([a-z_]+)":`).FindAllSubmatch(document, -1) {
		names = append(names, string(found[1]))
	}
	return names
}

func TestWebhook(t *testing.T) {
	t.Parallel()

	t.Run("TellsOfAFilmAsRESTShowsIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		_, secret := jobstest.Hook(t, s, r)
		job := s.Submit(t)
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)
		film := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a film"))
		_, err := s.Holder.Complete(t.Context(), worker, fence, jobs.Completion{Video: &film})
		require.NoError(t, err)

		require.Equal(t, 1, jobstest.Deliver(t, s))

		require.Len(t, r.All(), 1)
		got := r.All()[0]
		verify(t, secret, got)
		data := got.Data(t)
		require.Contains(t, string(got.Body), `"type":"job.completed"`)
		require.Equal(t, string(job.ID), data["job_id"])
		require.Equal(t, "completed", data["status"])
		require.Equal(t, string(s.Account.ID), data["account"])
		require.EqualValues(t, 1, data["run"])
		require.NotContains(t, string(got.Body), "lighthouse", "the prompt is nobody's business")
		res, err := http.Get(data["result_url"].(string))
		require.NoError(t, err)
		defer res.Body.Close()
		bytes, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "a film", string(bytes))
		d := jobstest.Deliveries(t, s, job.ID)
		require.Len(t, d, 1)
		require.True(t, d[0].Delivered())
		require.Equal(t, got.Id(), string(d[0].EventID))
		require.Zero(t, jobstest.Deliver(t, s), "it is told once")
		s.RequireInvariants(t)
	})

	t.Run("HasTheFieldsThatItsPageShows", func(t *testing.T) {
		t.Parallel()

		page, err := os.ReadFile("../../docs/users/webhooks.md")
		require.NoError(t, err)
		_, example, _ := strings.Cut(string(page), "```json\n")
		example, _, _ = strings.Cut(example, "```")
		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		jobstest.CancelledJob(t, s)

		require.Equal(t, 1, jobstest.Deliver(t, s))

		require.Equal(t, fieldNames(t, []byte(example)), fieldNames(t, r.All()[0].Body))
	})

	t.Run("TellsOfFailuresAndCancels", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		all, failures := jobstest.NewReceiver(t), jobstest.NewReceiver(t)
		jobstest.Hook(t, s, all)
		jobstest.Hook(t, s, failures, "job.failed")
		parent := s.Submit(t)
		child := jobstest.SubmitAs(t, s, s.Client, func(in *jobs.Submission) { in.DependsOn = []models.JobID{parent.ID} })
		grandchild := jobstest.SubmitAs(t, s, s.Client, func(in *jobs.Submission) { in.DependsOn = []models.JobID{child.ID} })

		_, err := s.Canceller.Cancel(t.Context(), s.Client, parent.ID)
		require.NoError(t, err)
		jobstest.Deliver(t, s)

		types := map[string]string{}
		for _, w := range all.All() {
			data := w.Data(t)
			types[data["job_id"].(string)] = data["status"].(string)
		}
		require.Equal(t, map[string]string{string(parent.ID): "cancelled", string(child.ID): "failed", string(grandchild.ID): "failed"}, types)
		require.Len(t, failures.All(), 2, "it asked for failures only")
		late := jobstest.SubmitAs(t, s, s.Client, func(in *jobs.Submission) { in.DependsOn = []models.JobID{parent.ID} })
		require.Equal(t, models.JobFailed, late.Status)
		require.Equal(t, 2, jobstest.Deliver(t, s), "also of one that fails as it is submitted")
		s.RequireInvariants(t)
	})

	t.Run("CallsBackAboutOneJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		job := jobstest.SubmitAs(t, s, s.Client, func(in *jobs.Submission) { in.CallbackURL = r.URL })
		jobstest.CancelledJob(t, s)
		secret, err := s.Webhooks.RotateAccountSecret(t.Context(), s.Client)
		require.NoError(t, err)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		require.Equal(t, 1, jobstest.Deliver(t, s))

		require.Len(t, r.All(), 1)
		verify(t, secret, r.All()[0])
		require.Equal(t, r.URL, jobstest.Deliveries(t, s, job.ID)[0].URL)
		endpoints, err := s.Reader.WebhookEndpoints(t.Context(), s.Client, "")
		require.NoError(t, err)
		require.Empty(t, endpoints, "the secret of callbacks is no endpoint")
	})

	t.Run("SpeaksOpenAIsWords", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		_, secret, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, r.URL, models.FormatOpenAI, nil)
		require.NoError(t, err)
		job := jobstest.CancelledJob(t, s)

		jobstest.Deliver(t, s)

		got := r.All()[0]
		verify(t, secret, got)
		var body map[string]any
		require.NoError(t, json.Unmarshal(got.Body, &body))
		require.Equal(t, map[string]any{
			"id": got.Id(), "object": "event", "type": "video.failed", "created_at": float64(job.CompletedAt.Unix()),
			"data": map[string]any{"id": models.VideoID(job.ID)},
		}, body)
		require.True(t, strings.HasPrefix(got.Id(), "evt_"))
	})

	t.Run("KeepsTheOrderOfAJobsRuns", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r, other := jobstest.NewReceiver(t), jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		jobstest.Hook(t, s, other)
		r.AnswersStatus(http.StatusInternalServerError)
		job := jobstest.CancelledJob(t, s)
		require.Equal(t, 2, jobstest.Deliver(t, s))
		_, err := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
		require.NoError(t, err)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		require.Equal(t, 1, jobstest.Deliver(t, s), "only to the endpoint that took the first run's")

		require.Len(t, other.All(), 2)
		r.Answers(nil)
		ageWebhooks(t, s, time.Minute)
		require.Equal(t, 1, jobstest.Deliver(t, s))
		require.Equal(t, 1, jobstest.Deliver(t, s), "now the second run's")
		var runs []any
		for _, w := range r.All() {
			runs = append(runs, w.Data(t)["run"])
		}
		require.Equal(t, []any{1.0, 1.0, 2.0}, runs)
		require.Equal(t, "cancelled", r.All()[1].Data(t)["status"], "as it stood when its run ended")
		require.Equal(t, r.All()[0].Body, r.All()[1].Body, "every try has the same body")
	})

	t.Run("IsSentByOneProcessAtATime", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		for range 6 {
			jobstest.CancelledJob(t, s)
		}
		var passes sync.WaitGroup
		for range 4 {
			passes.Go(func() {
				if _, err := s.Deliverer.Pass(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		passes.Wait()
		jobstest.Deliver(t, s)

		ids := map[string]bool{}
		for _, w := range r.All() {
			ids[w.Id()] = true
		}
		require.Len(t, r.All(), 6)
		require.Len(t, ids, 6)
	})

	t.Run("IsSentAsSoonAsTheProcessIsWoken", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		arrived := make(chan struct{})
		r.Answers(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{} })
		jobstest.Hook(t, s, r)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Deliverer.Run(ctx) }()
		job := jobstest.CancelledJob(t, s)

		s.Deliverer.Wake()

		<-arrived
		stop()
		require.NoError(t, <-ended)
		require.True(t, jobstest.Deliveries(t, s, job.ID)[0].Delivered(), "what was under way is finished")
	})

	t.Run("ComesAgainAfterACrash", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		job := jobstest.CancelledJob(t, s)
		claimed, err := models.ClaimDeliveries(t.Context(), s.DB, models.WebhookBounds{PerEndpoint: 1, PerAccount: 1, Failing: 1}, 10, time.Minute)
		require.NoError(t, err)
		require.Len(t, claimed, 1)

		require.Zero(t, jobstest.Deliver(t, s), "it is another process's")

		ageWebhooks(t, s, time.Minute)
		require.Equal(t, 1, jobstest.Deliver(t, s))
		require.True(t, jobstest.Deliveries(t, s, job.ID)[0].Delivered())
	})

	t.Run("OfADeletedJobIsGivenUp", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		job := jobstest.SubmitAs(t, s, s.Client, func(in *jobs.Submission) { in.CallbackURL = r.URL + "?token=secret" })
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		_, err = s.Deleter.Delete(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		require.Equal(t, 2, jobstest.Deliver(t, s))

		require.Empty(t, r.All())
		for _, d := range jobstest.Deliveries(t, s, job.ID) {
			require.Equal(t, models.DeliveryGivenUp, d.State)
			require.Equal(t, "The job was deleted.", d.LastError)
			require.NotContains(t, d.URL, "token")
			_, err := s.Webhooks.Redeliver(t.Context(), s.Client, d.ID)
			jobstest.RequireCode(t, err, apierror.CodeConflict)
		}
		s.RequireInvariants(t)
	})
}

func TestWebhookRetry(t *testing.T) {
	t.Parallel()

	t.Run("GoesOnForADay", func(t *testing.T) {
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
			if d.State != models.DeliveryPending {
				break
			}
			now, err := models.Now(t.Context(), s.DB)
			require.NoError(t, err)
			wait := d.NextAttemptAt.Sub(now)
			require.Positive(t, wait)
			ageWebhooks(t, s, wait)
			life += wait
		}

		d := jobstest.Deliveries(t, s, job.ID)[0]
		require.Equal(t, models.DeliveryGivenUp, d.State)
		require.Equal(t, "It answered 502 Bad Gateway.", d.LastError)
		require.Greater(t, life, 21*time.Hour)
		require.LessOrEqual(t, life, 24*time.Hour)
		require.Equal(t, 12, d.Tries)
		require.Len(t, r.All(), 12)
		for _, w := range r.All() {
			verify(t, secret, w)
			require.Equal(t, r.All()[0].Id(), w.Id(), "every try has the same webhook-id")
		}
		tries, err := s.Reader.WebhookTries(t.Context(), []models.WebhookDeliveryID{d.ID})
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

	t.Run("WaitsAsLongAsTheReceiverAsks", func(t *testing.T) {
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

	t.Run("DoesNotHoldUpOthers", func(t *testing.T) {
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
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierPro), models.RoleClient)
		_, _, err := s.Webhooks.CreateEndpoint(t.Context(), other, r.URL, models.FormatStandard, nil)
		require.NoError(t, err)
		job := jobstest.SubmitAs(t, s, other, func(in *jobs.Submission) {})
		_, err = s.Canceller.Cancel(t.Context(), other, job.ID)
		require.NoError(t, err)

		claimed, err := models.ClaimDeliveries(t.Context(), s.DB, models.WebhookBounds{PerEndpoint: 8, PerAccount: 16, Failing: 1}, 2, time.Minute)

		require.NoError(t, err)
		require.ElementsMatch(t, []models.AccountID{s.Account.ID, other.AccountID}, []models.AccountID{claimed[0].AccountID, claimed[1].AccountID})
		claimed, err = models.ClaimDeliveries(t.Context(), s.DB, models.WebhookBounds{PerEndpoint: 8, PerAccount: 16, Failing: 1}, 100, time.Minute)
		require.NoError(t, err)
		require.Len(t, claimed, 15, "with the one before an account's whole share")
	})

	t.Run("DisablesAnEndpointThatIsGone", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, _ := jobstest.Hook(t, s, r)
		r.AnswersStatus(http.StatusGone)
		job := jobstest.CancelledJob(t, s)

		jobstest.Deliver(t, s)

		endpoint, err := s.Reader.WebhookEndpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.True(t, endpoint.Disabled())
		require.Equal(t, "It answered 410 Gone.", endpoint.DisabledReason)
		d := jobstest.Deliveries(t, s, job.ID)[0]
		require.Equal(t, models.DeliveryGivenUp, d.State)
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
		endpoint, err := s.Reader.WebhookEndpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.False(t, endpoint.Disabled(), "not for long yet")
		require.GreaterOrEqual(t, endpoint.FailedTries, 9)

		ageWebhooks(t, s, 24*time.Hour)
		require.Equal(t, 1, jobstest.Deliver(t, s), "one that fails is tried by one at a time")

		endpoint, err = s.Reader.WebhookEndpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.True(t, endpoint.Disabled())
		require.Contains(t, endpoint.DisabledReason, "tries failed for 24 hours; the last: It answered 500")
		require.Zero(t, jobstest.Deliver(t, s))
		for _, job := range jobs {
			require.Equal(t, models.DeliveryGivenUp, jobstest.Deliveries(t, s, job.ID)[0].State)
		}
	})

	t.Run("ForgivesAnEndpointThatWorksAgain", func(t *testing.T) {
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

		endpoint, err := s.Reader.WebhookEndpoint(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err)
		require.Zero(t, endpoint.FailedTries)
		require.True(t, endpoint.FailingSince.IsZero())
	})
}

func TestWebhookEndpoint(t *testing.T) {
	t.Parallel()

	t.Run("RefusesWhatIsNotToBeCalled", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		strict := &webhook.Endpoints{DB: s.DB, Sealer: s.Webhooks.Sealer}
		submitter := s.AnotherSubmitter()
		submitter.Outbound = outbound.Policy{}
		for _, url := range []string{
			"", "http://example.com", "ftp://example.com", "file:///etc/passwd", "//example.com", "/hook", "https://" + strings.Repeat("a", 2049),
			"https://user:pw@example.com", "https://example.com/#x", "https://example.com:0", "https://127.0.0.1/", "https://[::1]/",
			"https://localhost", "https://169.254.169.254/", "https://metadata.google.internal/", "https://[::ffff:127.0.0.1]/", "https://2130706433/", "https://10.0.0.1/",
		} {
			_, _, err := strict.CreateEndpoint(t.Context(), s.Client, url, models.FormatStandard, nil)
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

	t.Run("IsNotReachedWhereItMayNot", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		job := jobstest.CancelledJob(t, s)
		strict := webhook.NewDeliverer(s.DB, s.Reader, webhook.NewSender(outbound.Policy{}), s.Base)

		_, err := strict.Pass(t.Context())

		require.NoError(t, err)
		require.Empty(t, r.All())
		d := jobstest.Deliveries(t, s, job.ID)[0]
		require.Equal(t, 1, d.Tries)
		require.NotContains(t, d.LastError, "127.0.0.1")
		require.NotEmpty(t, d.LastError)
	})

	t.Run("KnowsItsEvents", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, c := range []struct {
			format models.WebhookFormat
			events []string
		}{
			{models.FormatStandard, []string{"job.done"}}, {models.FormatStandard, []string{"video.completed"}},
			{models.FormatOpenAI, []string{"job.completed"}}, {models.FormatStandard, []string{"job.completed\r\nX: y"}}, {"OTHER", []string{"job.failed"}},
		} {
			_, _, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, "https://example.com/", c.format, c.events)
			jobstest.RequireInvalid(t, err, "events")
		}

		endpoint, secret, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, "https://example.com/", models.FormatStandard, []string{"job.failed", "job.completed", "job.failed"})

		require.NoError(t, err)
		require.Equal(t, []string{"job.completed", "job.failed"}, endpoint.Events)
		require.True(t, strings.HasPrefix(secret, "whsec_"))
		for table, dump := range s.Dump(t) {
			require.NotContains(t, dump, strings.TrimPrefix(secret, "whsec_"), table)
		}
	})

	t.Run("IsOneOfTwentyAtMost", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		var last *models.WebhookEndpoint
		for range 20 {
			last, _ = jobstest.Hook(t, s, r)
		}
		_, _, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, r.URL, models.FormatStandard, nil)
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

	t.Run("IsForgottenWhenItIsDeleted", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, _ := jobstest.Hook(t, s, r)
		job := jobstest.CancelledJob(t, s)
		quick := jobstest.CancelledJob(t, s)
		claimed, err := models.ClaimDeliveries(t.Context(), s.DB, models.WebhookBounds{PerEndpoint: 1, PerAccount: 1, Failing: 1}, 1, time.Minute)
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

	t.Run("IsItsAccountsOwn", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		endpoint, _ := jobstest.Hook(t, s, jobstest.NewReceiver(t))
		d := jobstest.Deliveries(t, s, jobstest.CancelledJob(t, s).ID)[0]
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), models.RoleClient)
		worker := s.Worker(t, "one")

		for _, p := range []jobs.Principal{stranger, worker} {
			_, err := s.Reader.WebhookEndpoint(t.Context(), p, endpoint.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Reader.WebhookDelivery(t.Context(), p, d.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Reader.WebhookEndpoints(t.Context(), p, s.Account.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, _, err = s.Webhooks.RotateSecret(t.Context(), p, endpoint.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Webhooks.EnableEndpoint(t.Context(), p, endpoint.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			jobstest.RequireCode(t, s.Webhooks.DeleteEndpoint(t.Context(), p, endpoint.ID), apierror.CodeNotFound)
			_, err = s.Webhooks.Redeliver(t.Context(), p, d.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		page, err := s.Reader.WebhookDeliveries(t.Context(), stranger, models.WebhookDeliveryFilter{EndpointID: endpoint.ID}, paging.Request{First: 10})
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

	t.Run("SendsOnceMoreUnderTheSameID", func(t *testing.T) {
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
		require.Equal(t, models.DeliveryDelivered, d.State, "it has been taken before")
		require.Equal(t, 2, d.Tries)
		require.Equal(t, "It answered 500 Internal Server Error.", d.LastError)
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
		require.Equal(t, models.DeliveryPending, jobstest.Deliveries(t, s, job.ID)[0].State, "its tries go on")
	})
}

func TestTestWebhook(t *testing.T) {
	t.Parallel()

	t.Run("IsSignedAndSentAsAllOthers", func(t *testing.T) {
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
		tries, err := s.Reader.WebhookTries(t.Context(), []models.WebhookDeliveryID{d.ID})
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
		require.Equal(t, models.DeliveryGivenUp, d.State)
		require.Contains(t, d.LastError, "418")
		_, err = s.Webhooks.Test(t.Context(), s.Client, endpoint.ID)
		require.NoError(t, err, "after the first is over")
		s.RequireInvariants(t)
	})

	t.Run("IsForItsAccountsEnabledEndpoints", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		endpoint, _ := jobstest.Hook(t, s, r)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), models.RoleClient)

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
