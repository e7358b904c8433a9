package submit_test

import (
	"context"
	"encoding/json"
	"image/color"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/moderation"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

// moderated is a stack whose jobs a server decides about: it refuses prompts with the word "gun".
type moderated struct {
	*jobstest.Stack
	mu    sync.Mutex
	asked []submit.Content
	// answer replaces the server's own, if it is not nil.
	answer http.HandlerFunc
}

func newModerated(t *testing.T) *moderated {
	t.Helper()
	m := &moderated{Stack: jobstest.New(t)}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.Submitter.Moderator = moderation.New(moderation.Config{URL: server.URL, Timeout: 10 * time.Second})
	return m
}

func (m *moderated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answer != nil {
		m.answer(w, r)
		return
	}
	var c submit.Content
	if json.NewDecoder(r.Body).Decode(&c) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	m.asked = append(m.asked, c)
	if strings.Contains(c.Prompt, "gun") {
		w.Write([]byte(`{"allowed": false, "reason": "It shows a weapon.", "category": "violence"}`))
		return
	}
	w.Write([]byte(`{"allowed": true}`))
}

// questions returns how many were asked since the last call.
func (m *moderated) questions() []submit.Content {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.asked
	m.asked = nil
	return asked
}

func prompt(text string) func(*submit.Submission) {
	return func(in *submit.Submission) { in.Prompt = text }
}

func TestModeration(t *testing.T) {
	t.Parallel()

	t.Run("LearnsWhatAJobIsMadeOf", func(t *testing.T) {
		t.Parallel()
		m := newModerated(t)
		picture := jobstest.Picture(t, color.Black)
		art := m.UploadInput(t, m.Client, picture)

		job := jobstest.SubmitWith(t, m.Stack, func(in *submit.Submission) {
			in.UserID = "ann"
			in.Params = []byte(`{"durationSeconds": 1, "referenceImage": "` + string(art) + `"}`)
		})

		asked := m.questions()
		require.Len(t, asked, 1)
		params := asked[0].Params
		asked[0].Params = nil
		require.Equal(t, submit.Content{JobID: job.ID, AccountID: m.Account.ID, UserID: "ann", JobType: "video.generate", Model: "testcard",
			Prompt: "a lighthouse", Inputs: []submit.ContentInput{{Param: "referenceImage", Reference: string(art), ContentType: "image/png",
				SizeBytes: int64(len(picture)), CRC32C: jobstest.Checksum(picture)}}}, asked[0])
		require.JSONEq(t, string(job.Params), string(params), "with the defaults")
	})

	t.Run("RefusesOneOfMany", func(t *testing.T) {
		t.Parallel()
		m := newModerated(t)
		all := []submit.Submission{jobstest.Submission(), jobstest.Submission(), jobstest.Submission()}
		all[1].Prompt = "a gun"

		answers, err := m.Submitter.SubmitMany(t.Context(), m.Client, all)

		require.NoError(t, err)
		require.Equal(t, apierror.CodeContentPolicy, answers[1].Refused.Code)
		require.Equal(t, "The content policy of this installation does not allow this job (violence): It shows a weapon. Change what it asks for.",
			answers[1].Refused.Message)
		require.NotNil(t, answers[0].Job)
		require.NotNil(t, answers[2].Job)
		require.Equal(t, 2, m.Count(t, "jobs"))
		m.RequireInvariants(t)
	})

	t.Run("DoesNotAskAgainAboutARepeatedRequest", func(t *testing.T) {
		t.Parallel()
		m := newModerated(t)
		keyed := func(in *submit.Submission) { in.IdempotencyKey = new("one") }
		first := jobstest.SubmitWith(t, m.Stack, keyed)
		require.Len(t, m.questions(), 1)
		m.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }

		again, deduplicated, err := jobstest.TrySubmit(t.Context(), m.Stack, keyed)

		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, again.ID)
		_, _, err = jobstest.TrySubmit(t.Context(), m.Stack, func(in *submit.Submission) { keyed(in); in.Prompt = "a gun" })
		jobstest.RequireCode(t, err, apierror.CodeIdempotencyConflict)
		_, _, err = jobstest.TrySubmit(t.Context(), m.Stack, prompt("a lighthouse"))
		jobstest.RequireCode(t, err, apierror.CodeUnavailable)
		require.Empty(t, m.questions())
		require.Equal(t, 1, m.Count(t, "jobs"))
	})

	t.Run("AsksAgainAfterARefusal", func(t *testing.T) {
		t.Parallel()
		m := newModerated(t)
		for range 2 {
			_, _, err := jobstest.TrySubmit(t.Context(), m.Stack, func(in *submit.Submission) {
				in.Prompt, in.IdempotencyKey = "a gun", new("one")
			})
			jobstest.RequireCode(t, err, apierror.CodeContentPolicy)
		}
		require.Len(t, m.questions(), 2)
		jobstest.SubmitWith(t, m.Stack, func(in *submit.Submission) { in.IdempotencyKey = new("one") })
	})

	t.Run("AsksOutsideATransaction", func(t *testing.T) {
		t.Parallel()
		m := newModerated(t)
		m.DB.SetMaxOpenConns(1)
		m.answer = func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
			defer cancel()
			if _, err := m.DB.ExecContext(ctx, "SELECT 1"); err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			w.Write([]byte(`{"allowed": true}`))
		}

		jobstest.SubmitWith(t, m.Stack, func(in *submit.Submission) { in.IdempotencyKey, in.RunAt = new("one"), new(time.Now().Add(time.Hour)) })
	})

	t.Run("DoesNotAskAboutAWrongRequest", func(t *testing.T) {
		t.Parallel()
		m := newModerated(t)
		for _, params := range []string{`{"durationSeconds": -1}`, `{"referenceImage": "` + string(models.NewArtifactID()) + `"}`} {
			_, _, err := jobstest.TrySubmit(t.Context(), m.Stack, func(in *submit.Submission) { in.Params = []byte(params) })
			require.Error(t, err)
		}
		require.Empty(t, m.questions())
	})

	t.Run("DoesNotAskAgainAboutADraftThatIsContinued", func(t *testing.T) {
		t.Parallel()
		m := newModerated(t)
		draft := jobstest.SubmitAs(t, m.Stack, m.Client, draftOf(6))
		jobstest.FinishDraft(t, m.Stack, m.Worker(t, "one"), draft)
		require.Len(t, m.questions(), 1)
		m.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }

		_, _, err := m.Submitter.Continue(t.Context(), m.Client, draft.ID)

		require.NoError(t, err)
	})

	t.Run("RefusesAWholeWorkflow", func(t *testing.T) {
		t.Parallel()
		m := newModerated(t)
		w := workflow.Input{Name: "film", IdempotencyKey: new("film"), Jobs: []workflow.Node{
			{Key: "a", Job: jobstest.Submission()}, {Key: "b", After: []string{"a"}, Job: jobstest.Submission()},
		}}
		w.Jobs[1].Job.Prompt = "a gun"

		_, _, err := m.Workflows.Submit(t.Context(), m.Client, w)

		jobstest.RequireCode(t, err, apierror.CodeContentPolicy)
		require.Contains(t, err.Error(), "The node b: ")
		require.Zero(t, m.Count(t, "jobs"))
		require.Zero(t, m.Count(t, "workflows"))
		m.questions()

		w.Jobs[1].Job.Prompt = "a rose"
		first, _, err := m.Workflows.Submit(t.Context(), m.Client, w)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"a lighthouse in the fog", "a rose"},
			lo.Map(m.questions(), func(c submit.Content, _ int) string { return c.Prompt }))
		again, known, err := m.Workflows.Submit(t.Context(), m.Client, w)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, first.ID, again.ID)
		require.Empty(t, m.questions())

		m.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		w.IdempotencyKey = nil
		_, _, err = m.Workflows.Submit(t.Context(), m.Client, w)
		jobstest.RequireCode(t, err, apierror.CodeUnavailable)
		require.NotContains(t, err.Error(), "node")
	})
}
