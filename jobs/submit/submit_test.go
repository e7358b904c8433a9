package submit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestSubmit(t *testing.T) {
	t.Parallel()

	t.Run("RefusesInvalidInputAndStoresNothing", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		before := s.Dump(t)
		params := func(raw string) func(*submit.Submission) {
			return func(in *submit.Submission) { in.Params = json.RawMessage(raw) }
		}
		price := func(limit float64) func(*submit.Submission) {
			return func(in *submit.Submission) { in.MaxPricePerHour = &limit }
		}
		metadata := func(raw string) func(*submit.Submission) {
			return func(in *submit.Submission) { in.Metadata = json.RawMessage(raw) }
		}
		prompt := func(text string) func(*submit.Submission) {
			return func(in *submit.Submission) { in.Prompt = text }
		}
		var keys []string
		for i := range 65 {
			keys = append(keys, fmt.Sprintf(`"k%d": 1`, i))
		}
		for name, c := range map[string]struct {
			field string
			spoil func(*submit.Submission)
		}{
			"empty prompt":                {"prompt", prompt("")},
			"blank prompt":                {"prompt", prompt(" \n\t ")},
			"prompt of 10,001 characters": {"prompt", prompt(strings.Repeat("x", 10_001))},
			"prompt of 100 kB":            {"prompt", prompt(strings.Repeat("x", 100_000))},
			"prompt with 31 marks":        {"prompt", prompt("a" + strings.Repeat("\u0301", 31))},
			"prompt of marks":             {"prompt", prompt(strings.Repeat("\u0e49\u20dd", 4_000))},
			"prompt with NUL":             {"prompt", prompt("a\x00b")},
			"prompt that is not UTF-8":    {"prompt", prompt("a\xffb")},
			"prompt with a surrogate":     {"prompt", prompt("a\xed\xa0\x80b")},
			"prompt with U+FFFE":          {"prompt", prompt("a\ufffeb")},
			"prompt with U+FFFF":          {"prompt", prompt("a\uffffb")},
			"prompt with U+FDD0":          {"prompt", prompt("a\ufdd0b")},
			"prompt with U+10FFFE":        {"prompt", prompt("a\U0010fffeb")},
			"no model":                    {"model", func(in *submit.Submission) { in.Model = "" }},
			"unknown model":               {"model", func(in *submit.Submission) { in.Model = "sora-9" }},
			"model in the wrong case":     {"model", func(in *submit.Submission) { in.Model = "TestCard" }},
			"type of another model":       {"type", func(in *submit.Submission) { in.Type = "audio.generate" }},
			"negative duration":           {"params.durationSeconds", params(`{"durationSeconds": -1}`)},
			"10^9 seconds":                {"params.durationSeconds", params(`{"durationSeconds": 1000000000}`)},
			"duration as text":            {"params.durationSeconds", params(`{"durationSeconds": "4"}`)},
			"infinite duration":           {"params.durationSeconds", params(`{"durationSeconds": 1e400}`)},
			"NaN":                         {"params", params(`{"durationSeconds": NaN}`)},
			"unknown resolution":          {"params.resolution", params(`{"resolution": "8k"}`)},
			"fps with a fraction":         {"params.fps", params(`{"fps": 23.976}`)},
			"seed beyond 2^53":            {"params.seed", params(`{"seed": 9223372036854775808}`)},
			"unknown property":            {"params.width", params(`{"width": 640}`)},
			"property with NUL":           {"params", params(`{"a\u0000": 1}`)},
			"params that are a list":      {"params", params(`[]`)},
			"params that are truncated":   {"params", params(`{"fps": `)},
			"params with trailing data":   {"params", params(`{} {}`)},
			"params of 17 kB":             {"params", params(`{"seed": ` + strings.Repeat(" ", 17<<10) + `1}`)},
			"priority 101":                {"priority", func(in *submit.Submission) { in.Priority = 101 }},
			"priority -101":               {"priority", func(in *submit.Submission) { in.Priority = -101 }},
			"no attempts":                 {"maxAttempts", func(in *submit.Submission) { in.MaxAttempts = new(0) }},
			"21 attempts":                 {"maxAttempts", func(in *submit.Submission) { in.MaxAttempts = new(21) }},
			"once, but 2 attempts":        {"maxAttempts", func(in *submit.Submission) { in.AtMostOnce, in.MaxAttempts = true, new(2) }},
			"once, with delays":           {"retry", func(in *submit.Submission) { in.AtMostOnce, in.Retry = true, &models.RetryPolicy{} }},
			"-1 preemptions":              {"maxPreemptions", func(in *submit.Submission) { in.MaxPreemptions = new(-1) }},
			"1001 preemptions":            {"maxPreemptions", func(in *submit.Submission) { in.MaxPreemptions = new(1001) }},
			"negative price":              {"maxPricePerHour", price(-0.01)},
			"price that is NaN":           {"maxPricePerHour", price(math.NaN())},
			"infinite price":              {"maxPricePerHour", price(math.Inf(1))},
			"price of 10,001":             {"maxPricePerHour", price(10_001)},
			"done in the past":            {"finishBy", func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(-time.Second)) }},
			"done at year 0":              {"finishBy", func(in *submit.Submission) { in.FinishBy = &time.Time{} }},
			"done in two years":           {"finishBy", func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(2 * 366 * 24 * time.Hour)) }},
			"done before the start": {"finishBy", func(in *submit.Submission) {
				in.FinishBy, in.RunAt = new(time.Now().Add(time.Minute)), new(time.Now().Add(time.Hour))
			}},
			"no time":                   {"timeoutSeconds", func(in *submit.Submission) { in.TimeoutSeconds = new(0) }},
			"more than 5 h":             {"timeoutSeconds", func(in *submit.Submission) { in.TimeoutSeconds = new(5*60*60 + 1) }},
			"empty key":                 {"idempotencyKey", func(in *submit.Submission) { in.IdempotencyKey = new("") }},
			"key of 256 characters":     {"idempotencyKey", func(in *submit.Submission) { in.IdempotencyKey = new(strings.Repeat("k", 256)) }},
			"key with a control":        {"idempotencyKey", func(in *submit.Submission) { in.IdempotencyKey = new("a\nb") }},
			"user id of 256 characters": {"userId", func(in *submit.Submission) { in.UserID = strings.Repeat("u", 256) }},
			"user id with NUL":          {"userId", func(in *submit.Submission) { in.UserID = "a\x00" }},
			"metadata that is a list":   {"metadata", metadata(`[1]`)},
			"metadata that is text":     {"metadata", metadata(`"a"`)},
			"metadata that is not JSON": {"metadata", metadata(`{`)},
			"metadata of 17 kB":         {"metadata", metadata(`{"a": "` + strings.Repeat("x", 17<<10) + `"}`)},
			"metadata of 65 keys":       {"metadata", metadata("{" + strings.Join(keys, ",") + "}")},
			"metadata with NUL":         {"metadata.a", metadata(`{"a": "\u0000"}`)},
			"metadata with a NUL name":  {"metadata", metadata(`{"\u0000": 1}`)},
			"metadata with 1e400000":    {"metadata.a", metadata(`{"a": 1e400000}`)},
			"metadata with 1e-400000":   {"metadata.a", metadata(`{"a": 1e-400000}`)},
			"metadata of 65 keys, inside": {"metadata", metadata(`{"a": {` + strings.Join(keys[1:33], ",") + `}, "b": [{` +
				strings.Join(keys[33:], ",") + `}]}`)},
			"metadata with a long key":  {"metadata.a.0", metadata(`{"a": [{"` + strings.Repeat("k", 129) + `": 1}]}`)},
			"metadata with a long text": {"metadata.a.0", metadata(`{"a": ["` + strings.Repeat("x", 4097) + `"]}`)},
			"metadata nested 6 deep":    {"metadata.a.b.c.d.e", metadata(`{"a": {"b": {"c": {"d": {"e": {}}}}}}`)},
			"metadata with lists in it": {"metadata.a.0.0.0.0", metadata(`{"a": [[[[[]]]]]}`)},
			"metadata with __proto__":   {"metadata.a.__proto__", metadata(`{"a": {"__proto__": {"isAdmin": true}}}`)},
			"metadata with \\u005f":     {"metadata.__proto__", metadata(`{"\u005f_proto__": 1}`)},
			"metadata nested 7,000 deep": {"metadata.a" + strings.Repeat(".0", 59) + "…",
				metadata(`{"a": ` + strings.Repeat("[", 7000) + strings.Repeat("]", 7000) + `}`)},
		} {
			in := jobstest.Submission()
			c.spoil(&in)

			_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)

			require.Error(t, err, name)
			jobstest.RequireInvalid(t, err, c.field)
			require.Less(t, len(err.Error()), 600, "%s: a message repeats the input", name)
		}
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("AcceptsParametersUpToTheirMaximum", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		in := jobstest.Submission()
		in.Params = json.RawMessage(`{"durationSeconds": 60, "resolution": "1080p", "fps": 60, "pace": 600, "seed": 9007199254740992}`)

		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)

		require.NoError(t, err)
		stored := s.Reload(t, job.ID)
		require.Equal(t, 60.0*600*1.5+1, stored.EstimatedGPUSeconds)
		require.Equal(t, 5*60*60, stored.TimeoutSeconds)
		for param, most := range map[string]string{"durationSeconds": "60", "fps": "60", "pace": "600", "seed": "9007199254740992"} {
			for _, beyond := range []string{"9007199254740993", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e308",
				"1.7976931348623157e308"} {
				in.Params = json.RawMessage(`{"` + param + `": ` + beyond + `}`)

				_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)

				jobstest.RequireInvalid(t, err, "params."+param)
				require.ErrorContains(t, err, "at most "+most, beyond)
			}
			for _, none := range []string{"1e309", "-1e309", "1e400", `"NaN"`, `"Infinity"`, `"1"`, "true", "[1]"} {
				in.Params = json.RawMessage(`{"` + param + `": ` + none + `}`)

				_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)

				jobstest.RequireInvalid(t, err, "params."+param)
			}
		}
		in.Params = json.RawMessage(`{"seed": -0.0, "pace": -0}`)
		job, _, err = s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		require.Contains(t, string(s.Reload(t, job.ID).Params), `"seed": 0`, "there is one zero")
		require.Equal(t, 2, s.Count(t, "jobs"))
	})

	t.Run("KeepsNumbersAsTheyAreWritten", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for params, says := range map[string]string{
			`{"durationSeconds": 1000000000000000}`: ", not 1000000000000000.",
			`{"durationSeconds": 12345.5}`:          ", not 12345.5.",
			`{"durationSeconds": -0.25}`:            ", not -0.25.",
			`{"durationSeconds": "long"}`:           "params.durationSeconds must be a number, not a string.",
			`{"foo": 1}`:                            `Unknown parameter "foo". The model testcard has the parameters aspectRatio, `,
			`{"duration_seconds": 1}`:               `Unknown parameter "duration_seconds"; did you mean "durationSeconds"?`,
			`{"resolution": "720"}`:                 `; did you mean "720p"?`,
			`{"fps": 1e300}`:                        "1e+300",
		} {
			in := jobstest.Submission()
			in.Params = json.RawMessage(params)

			_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)

			jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
			require.ErrorContains(t, err, says)
		}
	})

	t.Run("AcceptsUnusualButValidInput", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		in := jobstest.Submission()
		in.Prompt = "<script>alert(1)</script> \u202e \ufeff =cmd() {{.}} \x1b[31m\r\n e" + strings.Repeat("\u0301", 30) +
			" क्षि \U0001F468\u200D\U0001F469\uFE0F " + strings.Repeat("é", 9_800)
		in.Metadata = json.RawMessage(`{"prototype": {"a": [1, -0.0, 1e308]}, "text": "\\u000 \ud800", "big": 12345678901234567890}`)
		in.UserID = strings.Repeat("ü", 255)
		in.IdempotencyKey = new(strings.Repeat("k", 255))

		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)

		require.NoError(t, err)
		prompts, err := s.Edges(t, job.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Equal(t, query.Prompt{Text: in.Prompt}, prompts[job.ID])
		require.JSONEq(t, `{"prototype": {"a": [1, -0.0, 1e308]}, "text": "\\u000 \ufffd", "big": 12345678901234567890}`,
			string(s.Reload(t, job.ID).Metadata))
	})

	t.Run("WritesTheJobWithItsEventAndMessage", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		in := jobstest.Submission()
		in.Params, in.Priority = nil, 7

		job, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, in)

		require.NoError(t, err)
		require.False(t, deduplicated)
		stored := s.Reload(t, job.ID)
		require.Equal(t, models.JobQueued, stored.Status)
		require.Equal(t, models.TierEnterprise, stored.Lane)
		require.Equal(t, 5, stored.MaxAttempts)
		require.JSONEq(t, `{"durationSeconds": 4, "resolution": "480p", "aspectRatio": "16:9", "fps": 24, "seed": 0, "pace": 1}`,
			string(stored.Params))
		require.Equal(t, []models.JobEventType{models.EventQueued}, jobstest.EventTypes(t, s, job.ID))
		s.RequireInvariants(t)
	})

	t.Run("StoresThePromptEncrypted", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		in := jobstest.Submission()
		in.Prompt = "PLAINTEXTCANARY"

		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)

		require.NoError(t, err)
		for table, rows := range s.Dump(t) {
			require.NotContains(t, rows, in.Prompt, table)
			require.NotContains(t, rows, fmt.Sprintf("%x", in.Prompt), table)
		}
		other := s.Submit(t)
		s.Exec(t, "UPDATE job_inputs a SET ciphertext = b.ciphertext, wrapped_key = b.wrapped_key FROM job_inputs b WHERE a.job_id = ? AND b.job_id = ?", other.ID, job.ID)
		both, err := s.Edges(t, job.ID, other.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Error(t, both[other.ID].Err, "a prompt opens under its own job's id only")
		require.Equal(t, query.Prompt{Text: in.Prompt}, both[job.ID], "and spoils no other")
		s.Exec(t, "UPDATE job_inputs SET wrapped_key = NULL")
		prompts, err := s.Edges(t, job.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Empty(t, prompts)
	})

	t.Run("ReturnsOneJobForOneKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		in := jobstest.Submission()
		in.IdempotencyKey = new("order 7")
		const callers = 50
		ids := make([]models.JobID, callers)
		repeated := make([]bool, callers)
		errs := make([]error, callers)
		processes := []*submit.Submitter{s.AnotherSubmitter(), s.AnotherSubmitter(), s.AnotherSubmitter()}

		var calls sync.WaitGroup
		for i := range callers {
			calls.Go(func() {
				var job *models.Job
				if job, repeated[i], errs[i] = processes[i%3].Submit(t.Context(), s.Client, in); errs[i] == nil {
					ids[i] = job.ID
				}
			})
		}
		calls.Wait()

		firsts := 0
		for i := range callers {
			require.NoError(t, errs[i])
			require.Equal(t, ids[0], ids[i])
			if !repeated[i] {
				firsts++
			}
		}
		require.Equal(t, 1, firsts)
		require.Equal(t, 1, s.Count(t, "jobs"))
		s.RequireInvariants(t)
	})

	t.Run("ComparesRequestsIncludingDefaults", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		in := jobstest.Submission()
		in.IdempotencyKey, in.Metadata = new("order 7"), json.RawMessage(`{"a": 1, "b": 2}`)
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		before := s.Dump(t)

		spelt := in
		spelt.Type, spelt.Tier, spelt.MaxAttempts, spelt.TimeoutSeconds = "video.generate", models.TierEnterprise, new(5), new(600)
		spelt.Params = json.RawMessage(`{"pace": 0, "fps": 24, "seed": 0, "resolution": "480p", "aspectRatio": "16:9", "durationSeconds": 1.0}`)
		spelt.Metadata = json.RawMessage(` {"b": 2, "a": 1} `)
		same, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, spelt)

		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, job.ID, same.ID)
		for name, change := range map[string]func(*submit.Submission){
			"prompt":   func(in *submit.Submission) { in.Prompt += "!" },
			"params":   func(in *submit.Submission) { in.Params = nil },
			"tier":     func(in *submit.Submission) { in.Tier = models.TierFree },
			"priority": func(in *submit.Submission) { in.Priority = 1 },
			"attempts": func(in *submit.Submission) { in.MaxAttempts = new(4) },
			"timeout":  func(in *submit.Submission) { in.TimeoutSeconds = new(60) },
			"user":     func(in *submit.Submission) { in.UserID = "u" },
			"metadata": func(in *submit.Submission) { in.Metadata = nil },
			"once":     func(in *submit.Submission) { in.AtMostOnce = true },
			"losses":   func(in *submit.Submission) { in.MaxPreemptions = new(0) },
			"price":    func(in *submit.Submission) { in.MaxPricePerHour = new(1.0) },
			"deadline": func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(time.Hour)) },
		} {
			other := in
			change(&other)
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, other)
			require.Error(t, err, name)
			jobstest.RequireCode(t, err, apierror.CodeIdempotencyConflict)
		}
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("KeepsKeysSeparateByAccount", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		in := jobstest.Submission()
		in.IdempotencyKey = new("order 7")

		mine, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		theirs, deduplicated, err := s.Submitter.Submit(t.Context(), stranger, in)

		require.NoError(t, err)
		require.False(t, deduplicated)
		require.NotEqual(t, mine.ID, theirs.ID)
	})

	t.Run("RefusesATierAboveTheAccounts", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		before := s.Dump(t)
		in := jobstest.Submission()
		in.Tier = models.TierCritical

		_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)

		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		require.Equal(t, before, s.Dump(t))
		in.Tier = models.TierBatch
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		require.Equal(t, models.TierBatch, job.Lane)
		require.Equal(t, 3, job.MaxAttempts)
	})

	t.Run("EnforcesTheQuotaButAcceptsARepeatedKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_queued = 3 WHERE id = ?", s.Account.ID)
		in := jobstest.Submission()
		in.IdempotencyKey = new("the first")
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)

		// All calls arrive while the account is locked.
		held := holdAccount(t, s, s.Account.ID)
		const processes, callers = 3, 6
		var calls sync.WaitGroup
		refused := make(chan error, callers)
		for range processes {
			submitter := s.AnotherSubmitter()
			for range callers / processes {
				calls.Go(func() {
					if _, _, err := submitter.Submit(t.Context(), s.Client, jobstest.Submission()); err != nil {
						refused <- err
					}
				})
			}
		}
		s.WaitForLocks(t, processes) // the other calls wait for these
		require.NoError(t, held.Rollback())
		calls.Wait()
		close(refused)

		require.Len(t, refused, callers-2)
		for err := range refused {
			jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
		}
		require.Equal(t, 3, s.Count(t, "jobs"))
		s.RequireInvariants(t)
		again, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, again.ID)
	})
}

// slowIndex is a slow index.
type slowIndex struct {
	jobs.ReadyIndex
	let chan struct{}
}

func (x slowIndex) Add(ctx context.Context, ready ...jobs.ReadyJob) error {
	select {
	case <-x.let:
	case <-ctx.Done():
	}
	return x.ReadyIndex.Add(ctx, ready...)
}

func TestSubmit_DoesNotWaitForTheIndex(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	index := slowIndex{s.Notifier.Index, make(chan struct{})}
	s.Notifier.Aside, s.Notifier.Index = nil, index
	worker := s.Worker(t, "one")
	given := make(chan *lease.Lease, 1)
	go func() {
		lease, _, _ := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
		given <- lease
	}()
	testrun.Eventually(t, "a call waits", func() bool { return s.Notifier.Waiters.Waiting() == 1 })

	job := s.Submit(t)
	close(index.let)

	lease := <-given
	require.NotNil(t, lease, "who waits for a job hears of it")
	require.Equal(t, job.ID, lease.Job.ID)
}
