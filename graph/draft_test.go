package graph_test

import (
	"encoding/json"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const (
	submitTakes = `mutation ($i: SubmitJobInput!, $count: Int, $seeds: [Int64!]) { submitTakes(input: $i, count: $count, seeds: $seeds) {
		accepted rejected results { deduplicated error { code field message } job { id params draft { steps keptUntil takes preview { id } continuedBy { id } } } } } }`
	continueJob = `mutation ($id: ID!) { continueJob(id: $id) { deduplicated job { id params modelVersion draft { steps } continues { id } } } }`
)

// take asks for drafts of the test card, whose video has 48 steps.
func take(steps any, more map[string]any) map[string]any {
	in := map[string]any{"model": "testcard", "prompt": "a fox", "draft": map[string]any{"steps": steps}}
	for name, value := range more {
		in[name] = value
	}
	return in
}

// drafted returns a completed draft.
func drafted(t *testing.T, a *api, worker jobs.Principal) *models.Job {
	t.Helper()
	return jobstest.FinishDraft(t, a.Stack, worker, jobstest.SubmitAs(t, a.Stack, a.Client,
		func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 6} }))
}

// refusal is an answer as text, to look for what it says.
func refusal(t *testing.T, a answer) string {
	t.Helper()
	raw, err := json.Marshal([]any{a.Data, a.Errors})
	require.NoError(t, err)
	return string(raw)
}

func TestDraftUsage(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	worker := a.Worker(t, "one")
	var made []*models.Job
	for range 4 { // undecided, continued, deleted, expired
		made = append(made, drafted(t, a, worker))
	}
	_, _, err := a.Submitter.Continue(t.Context(), a.Client, made[1].ID)
	require.NoError(t, err)
	_, err = a.Deleter.Delete(t.Context(), a.Client, made[2].ID)
	require.NoError(t, err)
	a.Exec(t, "UPDATE jobs SET kept_until = clock_timestamp() WHERE id = ?", made[3].ID)
	a.Exec(t, "UPDATE job_attempts SET gpu_seconds = 2")
	_, stranger, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: a.NewAccount(t, "stranger", models.TierPro).ID,
		Role: access.RoleClient, Name: "stranger"})
	require.NoError(t, err)
	const usage = `query ($days: Int) { draftUsage(days: $days) { undecided { drafts gpuSeconds } continued { drafts gpuSeconds } discarded { drafts gpuSeconds } } }`
	sum := func(drafts float64) map[string]any { return map[string]any{"drafts": drafts, "gpuSeconds": 2 * drafts} }

	want := map[string]any{"undecided": sum(1), "continued": sum(1), "discarded": sum(2)}
	require.Equal(t, want, a.client(t, usage, nil)["draftUsage"])
	require.Equal(t, want, a.as(t, access.RoleOperator, usage, map[string]any{"days": 90})["draftUsage"])
	none := map[string]any{"undecided": sum(0), "continued": sum(0), "discarded": sum(0)}
	require.Equal(t, none, ask(t, a.url, stranger, usage, nil).Data["draftUsage"])
	for _, days := range []int{0, 91, -1} {
		require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, a.Secrets[access.RoleClient], usage, map[string]any{"days": days}).codes())
	}
}

func TestSubmitTakes(t *testing.T) {
	t.Parallel()

	t.Run("MakesDraftsOfOneRequest", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		ask := map[string]any{"i": take(6, map[string]any{"idempotencyKey": "k"}), "seeds": []int{11, 7}}

		made := at[map[string]any](t, a.client(t, submitTakes, ask), "submitTakes")

		require.InDelta(t, 2, made["accepted"], 0)
		var ids, takes []any
		for i, seed := range []float64{11, 7} {
			job := at[map[string]any](t, made["results"].([]any)[i].(map[string]any), "job")
			require.InDelta(t, seed, at[float64](t, job, "params", "seed"), 0)
			require.InDelta(t, 6, at[float64](t, job, "draft", "steps"), 0)
			for _, absent := range []string{"keptUntil", "preview", "continuedBy"} {
				require.Nil(t, at[map[string]any](t, job, "draft")[absent], absent)
			}
			ids, takes = append(ids, job["id"]), append(takes, at[string](t, job, "draft", "takes"))
		}
		require.Equal(t, takes[0], takes[1])
		again := at[[]any](t, a.client(t, submitTakes, ask), "submitTakes", "results")
		for i, one := range again {
			require.Equal(t, true, one.(map[string]any)["deduplicated"])
			require.Equal(t, ids[i], at[string](t, one.(map[string]any), "job", "id"))
		}
		listed := at[[]any](t, a.client(t, `query ($id: ID!) { takes(id: $id) { id } }`, map[string]any{"id": takes[0]}), "takes")
		require.Equal(t, []any{map[string]any{"id": ids[0]}, map[string]any{"id": ids[1]}}, listed)
	})

	t.Run("RefusesWhatIsNoTake", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		for name, test := range map[string]struct {
			ask         map[string]any
			field, says string
		}{
			"no steps":         {map[string]any{"i": take(0, nil)}, "steps", "from 1 to"},
			"beyond the total": {map[string]any{"i": take(1000, nil)}, "steps", "from 1 to"},
			"no draft":         {map[string]any{"i": map[string]any{"model": "testcard", "prompt": "a fox"}}, "draft", "set draft.steps"},
			"no takes":         {map[string]any{"i": take(6, nil), "count": 0}, "count", "1 to 64 takes"},
			"65 takes":         {map[string]any{"i": take(6, nil), "count": 65}, "count", "1 to 64 takes"},
			"equal seeds":      {map[string]any{"i": take(6, nil), "seeds": []int{7, 7}}, "seeds", "equal"},
			"no seed": {map[string]any{"i": take(1, map[string]any{"model": "video.thumbnail", "prompt": nil})}, "model",
				"no parameter seed"},
		} {
			// A refusal of each draft is a result; a refusal of the request is an error.
			raw := refusal(t, ask(t, a.url, a.Secrets[access.RoleClient], submitTakes, test.ask))
			require.Contains(t, raw, "INVALID_INPUT", name)
			require.Contains(t, raw, `"`+test.field+`"`, name)
			require.Contains(t, raw, test.says, name)
		}
		require.Zero(t, a.Count(t, "jobs"))
	})
}

func TestContinueJob(t *testing.T) {
	t.Parallel()

	t.Run("MakesTheVideoOnce", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		draft := drafted(t, a, a.Worker(t, "one"))

		made := at[map[string]any](t, a.client(t, continueJob, map[string]any{"id": draft.ID}), "continueJob")
		again := at[map[string]any](t, a.client(t, continueJob, map[string]any{"id": draft.ID}), "continueJob")

		require.Equal(t, string(draft.ID), at[string](t, made, "job", "continues", "id"))
		require.Nil(t, at[map[string]any](t, made, "job")["draft"])
		require.Equal(t, []any{false, true}, []any{made["deduplicated"], again["deduplicated"]})
		require.Equal(t, made["job"], again["job"])
		shown := at[map[string]any](t,
			a.client(t, `query ($id: ID!) { job(id: $id) { draft { keptUntil preview { type } continuedBy { id } } } }`,
				map[string]any{"id": draft.ID}), "job", "draft")
		require.NotNil(t, shown["keptUntil"])
		require.Equal(t, map[string]any{"type": "PREVIEW"}, shown["preview"])
		require.Equal(t, map[string]any{"id": at[string](t, made, "job", "id")}, shown["continuedBy"])
	})

	t.Run("RefusesOthers", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		worker := a.Worker(t, "one")
		expired, deleted, kept := drafted(t, a, worker), drafted(t, a, worker), drafted(t, a, worker)
		a.Exec(t, "UPDATE jobs SET kept_until = clock_timestamp() - interval '1 second' WHERE id = ?", expired.ID)
		_, err := a.Deleter.Delete(t.Context(), a.Client, deleted.ID)
		require.NoError(t, err)
		for name, test := range map[string]struct {
			id         models.JobID
			code, says string
		}{
			"unknown": {models.NewJobID(), "NOT_FOUND", ""},
			"video":   {a.Submit(t).ID, "CONFLICT", "not a draft"},
			"queued": {jobstest.SubmitAs(t, a.Stack, a.Client, func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 6} }).ID, "CONFLICT",
				"once it is COMPLETED"},
			"expired": {expired.ID, "CONFLICT", "kept until"},
			"deleted": {deleted.ID, "CONFLICT", "deleted"},
		} {
			raw := refusal(t, ask(t, a.url, a.Secrets[access.RoleClient], continueJob, map[string]any{"id": test.id}))
			require.Contains(t, raw, `"`+test.code+`"`, name)
			require.Contains(t, raw, test.says, name)
		}
		_, stranger, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: a.NewAccount(t, "stranger", models.TierPro).ID,
			Role: access.RoleClient, Name: "stranger"})
		require.NoError(t, err)
		require.Equal(t, []string{"NOT_FOUND"}, ask(t, a.url, stranger, continueJob, map[string]any{"id": kept.ID}).codes(),
			"a draft of another account")
		edited := ask(t, a.url, a.Secrets[access.RoleClient], `mutation ($id: ID!) { continueJob(id: $id, prompt: "a dog") { job { id } } }`,
			map[string]any{"id": kept.ID})
		require.Contains(t, refusal(t, edited), "prompt", "a draft is continued as it is")
		require.Equal(t, 5, a.Count(t, "jobs"), "nothing was submitted")
	})
}
