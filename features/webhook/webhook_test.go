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

	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/models/webhooks"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// ageWebhooks makes all timestamps of webhooks older.
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

// fieldNames returns the names in a document, in order.
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

	t.Run("ContainsTheVideoAsInREST", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		_, secret := jobstest.Hook(t, s, r)
		job := s.Submit(t)
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
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
		require.NotContains(t, string(got.Body), "lighthouse", "the event does not contain the prompt")
		res, err := http.Get(data["result_url"].(string))
		require.NoError(t, err)
		defer res.Body.Close()
		bytes, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "a video", string(bytes))
		d := jobstest.Deliveries(t, s, job.ID)
		require.Len(t, d, 1)
		require.True(t, d[0].Delivered())
		require.Equal(t, got.Id(), string(d[0].EventID))
		require.Zero(t, jobstest.Deliver(t, s), "it is told once")
		s.RequireInvariants(t)
	})

	t.Run("HasTheDocumentedFields", func(t *testing.T) {
		t.Parallel()

		page, err := os.ReadFile("../../docs/users/webhooks.md")
		require.NoError(t, err)
		_, example, _ := strings.Cut(string(page), "```json\n")
		example, _, _ = strings.Cut(example, "```")
		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		in := jobstest.Submission()
		in.UserID, in.Metadata = "ann", []byte(`{"order": 1234}`)
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		require.Equal(t, 1, jobstest.Deliver(t, s))

		data := r.All()[0].Data(t)
		require.Equal(t, "testcard", data["model"])
		require.Equal(t, "ann", data["user_id"])
		require.Equal(t, map[string]any{"order": 1234.0}, data["metadata"])
		require.Nil(t, data["schedule_id"])
		require.Nil(t, data["workflow_id"])
		require.Nil(t, data["node_key"])
		require.Equal(t, fieldNames(t, []byte(example)), fieldNames(t, r.All()[0].Body))
	})

	t.Run("TellsTheEndOfAWorkflow", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		in := workflow.Input{Name: "film", Output: "s1", CallbackURL: r.URL, Jobs: []workflow.Node{{
			Key: "s1", Job: submit.Submission{Model: "testcard", Prompt: "a lighthouse", Params: []byte(`{"durationSeconds": 1, "pace": 0}`)},
		}}}
		w, _, err := s.Workflows.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)

		require.Equal(t, 1, jobstest.Deliver(t, s), "the job has no callback of its own")

		got := r.All()[0]
		data := got.Data(t)
		require.Contains(t, string(got.Body), `"type":"workflow.completed"`)
		require.Contains(t, string(got.Body), `"schedule_id":null`)
		require.Equal(t, string(w.ID), data["workflow_id"])
		require.Equal(t, "completed", data["status"])
		require.EqualValues(t, 1, data["counts"].(map[string]any)["completed"])
		require.Contains(t, data["output"].(map[string]any)["result_url"], "http")
		require.NotContains(t, string(got.Body), "lighthouse", "the event does not contain the prompt")
		require.Zero(t, jobstest.Deliver(t, s), "it is told once")
		s.RequireInvariants(t)
	})

	t.Run("TellsThatANodeWaitsForAnAnswer", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r, "workflow.approval_requested")
		w := s.AskApproval(t, s.Client)

		require.Equal(t, 1, jobstest.Deliver(t, s))

		data := r.All()[0].Data(t)
		require.Contains(t, string(r.All()[0].Body), `"type":"workflow.approval_requested"`)
		require.Equal(t, []any{string(w.ID), "running", "pick"}, []any{data["workflow_id"], data["status"], data["node_key"]})
		asked := data["approval"].(map[string]any)
		require.Equal(t, "Which fog?", asked["question"])
		require.Contains(t, asked["url"], "/approve/job_")
		s.RequireInvariants(t)
	})

	t.Run("ReportsFailuresAndCancels", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		all, failures := jobstest.NewReceiver(t), jobstest.NewReceiver(t)
		jobstest.Hook(t, s, all)
		jobstest.Hook(t, s, failures, "job.failed")
		parent := s.Submit(t)
		child := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.DependsOn = []models.JobID{parent.ID} })
		grandchild := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.DependsOn = []models.JobID{child.ID} })

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
		late := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.DependsOn = []models.JobID{parent.ID} })
		require.Equal(t, models.JobFailed, late.Status)
		require.Equal(t, 2, jobstest.Deliver(t, s), "also of one that fails as it is submitted")
		s.RequireInvariants(t)
	})

	t.Run("CallsTheCallbackURLOfOneJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.CallbackURL = r.URL })
		jobstest.CancelledJob(t, s)
		secret, err := s.Webhooks.RotateAccountSecret(t.Context(), s.Client)
		require.NoError(t, err)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		require.Equal(t, 1, jobstest.Deliver(t, s))

		require.Len(t, r.All(), 1)
		verify(t, secret, r.All()[0])
		require.Equal(t, r.URL, jobstest.Deliveries(t, s, job.ID)[0].URL)
		endpoints, err := s.Reads.Webhooks.Endpoints(t.Context(), s.Client, "")
		require.NoError(t, err)
		require.Empty(t, endpoints, "the secret of callbacks is no endpoint")
	})

	t.Run("SupportsTheOpenAIFormat", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		_, secret, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, r.URL, webhooks.FormatOpenAI, nil)
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

	t.Run("TellsOfACompletedDraft", func(t *testing.T) {
		t.Parallel()

		s, r, other := jobstest.New(t), jobstest.NewReceiver(t), jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		_, _, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, other.URL, webhooks.FormatOpenAI, nil)
		require.NoError(t, err)
		draft := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 6} })
		jobstest.FinishDraft(t, s, s.Worker(t, "one"), draft)

		require.Equal(t, 1, jobstest.Deliver(t, s), "the Videos API's format has no drafts")

		var body struct{ Data map[string]any }
		require.NoError(t, json.Unmarshal(r.All()[0].Body, &body))
		data := body.Data
		require.Equal(t, "completed", data["status"])
		require.Nil(t, data["result_url"])
		require.Contains(t, data["preview_url"], "/objects/")
		require.InDelta(t, 6, data["draft"].(map[string]any)["steps"], 0)
	})

	t.Run("TellsOfOtherJobsInTheStandardFormatOnly", func(t *testing.T) {
		t.Parallel()

		s, r, other := jobstest.New(t), jobstest.NewReceiver(t), jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		_, _, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, other.URL, webhooks.FormatOpenAI, nil)
		require.NoError(t, err)
		job := jobstest.SubmitAs(t, s, s.Client, func(*submit.Submission) {})
		s.Exec(t, "UPDATE jobs SET type = 'http.call' WHERE id = ?", job.ID)
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)
		_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "no"})
		require.NoError(t, err)

		require.Equal(t, 1, jobstest.Deliver(t, s), "the Videos API shows only videos")
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

	t.Run("IsSentByOnlyOneProcess", func(t *testing.T) {
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

	t.Run("IsSentWhenTheProcessIsWoken", func(t *testing.T) {
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

	t.Run("IsAnnouncedToControl", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		told := make(chan struct{}, 10)
		defer s.Notifier.Notifications.Subscribe(t.Context(), change.TopicDue, func() { told <- struct{}{} })()
		jobstest.CancelledJob(t, s) // there is no endpoint yet
		jobstest.Hook(t, s, jobstest.NewReceiver(t))

		job := jobstest.CancelledJob(t, s)

		testrun.Receive(t, "the announcement", told)
		require.Empty(t, told)
		require.Len(t, jobstest.Deliveries(t, s, job.ID), 1)
	})

	t.Run("IsSentAgainAfterACrash", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		job := jobstest.CancelledJob(t, s)
		claimed, err := webhooks.ClaimDeliveries(t.Context(), s.DB, webhooks.Bounds{PerEndpoint: 1, PerAccount: 1, Failing: 1}, 10,
			time.Minute)
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
		job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.CallbackURL = r.URL + "?token=secret" })
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		_, err = s.Deleter.Delete(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		require.Equal(t, 2, jobstest.Deliver(t, s))

		require.Empty(t, r.All())
		for _, d := range jobstest.Deliveries(t, s, job.ID) {
			require.Equal(t, webhooks.DeliveryGivenUp, d.State)
			require.Equal(t, "The job was deleted.", d.LastError)
			require.NotContains(t, d.URL, "token")
			_, err := s.Webhooks.Redeliver(t.Context(), s.Client, d.ID)
			jobstest.RequireCode(t, err, apierror.CodeConflict)
		}
		s.RequireInvariants(t)
	})
}

func TestWebhook_NamesTheOriginOfAJob(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	r := jobstest.NewReceiver(t)
	jobstest.Hook(t, s, r)
	node := submit.Submission{Model: "testcard", Prompt: "a lighthouse", Metadata: []byte(`{"shot": 1}`)}
	every := schedule.Input{EverySeconds: 3600}
	every.Name, every.Request = "job", schedule.Request{Job: &node}
	single, err := s.Schedules.Create(t.Context(), s.Client, every)
	require.NoError(t, err)
	every.Name, every.Request = "film",
		schedule.Request{Workflow: &workflow.Input{Name: "film", Jobs: []workflow.Node{{Key: "shots.s1", Job: node}}}}
	film, err := s.Schedules.Create(t.Context(), s.Client, every)
	require.NoError(t, err)
	for _, one := range []*schedules.Schedule{single, film} {
		slot, err := s.Schedules.FireNow(t.Context(), s.Client, one.ID, time.Time{})
		require.NoError(t, err)
		ids := []models.JobID{slot.JobID}
		if slot.WorkflowID != "" {
			nodes, err := models.ListWorkflowNodes(t.Context(), s.DB, slot.WorkflowID)
			require.NoError(t, err)
			ids[0] = nodes[0].JobID
		}
		_, err = s.Canceller.Cancel(t.Context(), s.Client, ids[0])
		require.NoError(t, err)
	}

	jobstest.Deliver(t, s)

	for _, got := range r.All() {
		data := got.Data(t)
		switch data["workflow_id"] {
		case nil:
			require.Equal(t, string(single.ID), data["schedule_id"])
			require.Nil(t, data["node_key"])
		default:
			require.Equal(t, string(film.ID), data["schedule_id"])
			if data["job_id"] != nil {
				require.Equal(t, "shots.s1", data["node_key"])
				require.Equal(t, map[string]any{"shot": 1.0}, data["metadata"])
			}
		}
	}
	require.GreaterOrEqual(t, len(r.All()), 2)
}
