package query_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

func TestParseSearch(t *testing.T) {
	t.Parallel()

	facet := func(column string, values ...string) joblist.Facet {
		return joblist.Facet{Column: column, Values: values}
	}
	terms := func(facets ...joblist.Facet) joblist.JobTerms { return joblist.JobTerms{Facets: facets} }
	words := func(texts ...string) (t joblist.JobTerms) {
		for _, text := range texts {
			t.Words = append(t.Words, joblist.Word{Text: text})
		}
		return t
	}
	not := func(f joblist.Facet) joblist.Facet { f.Not = true; return f }
	begins := func(f joblist.Facet) joblist.Facet { f.Prefix = true; return f }
	for text, want := range map[string]query.Search{
		"":                                {},
		" \t ":                            {},
		"status:failed":                   {Terms: terms(facet("status", "FAILED"))},
		"Status:Failed,QUEUED":            {Terms: terms(facet("status", "FAILED", "QUEUED"))},
		"-status:completed -class:poison": {Terms: terms(not(facet("status", "COMPLETED")), not(facet("failure_class", "POISON")))},
		"tier:free,batch model:ltx":       {Terms: terms(facet("tier", "FREE", "BATCH"), begins(facet("model", "ltx")))},
		`user:"a b","c,d"`:                {Terms: terms(facet("user_id", "a b", "c,d"))},
		"age:>1h age:<2d age:>5m":         {OlderThan: time.Hour, YoungerThan: 48 * time.Hour},
		"waste:>60 waste:>1.5":            {Terms: joblist.JobTerms{WasteOver: new(60.0)}},
		"account:acme":                    {Account: "acme"},
		"pool:a,b zone:z":                 {Terms: joblist.JobTerms{Pools: []string{"a", "b"}, Zones: []string{"z"}}},
		"lane:critical":                   {Terms: terms(facet("lane", "CRITICAL"))},
		"checkpoint:>1h checkpoint:<2h":   {Terms: joblist.JobTerms{CheckpointOver: time.Hour, CheckpointUnder: 2 * time.Hour}},
		`meta:"a=b c"`: {Terms: joblist.JobTerms{Words: []joblist.Word{{Text: "b c"}},
			Metadata: []joblist.MetadataField{{Key: "a", Value: "b c"}}}},
		"bulk:bulk_7e75f612-9f58-3b65-6699-d3e99707f311": {Terms: joblist.JobTerms{BulkID: "bulk_7e75f612-9f58-3b65-6699-d3e99707f311"}},
		`"-"`:                          {Terms: words("-")},
		`autumn "two words" a,b "x:y"`: {Terms: words("autumn", "two words", "a,b", "x:y")},
		"worker:wrk_7e75f612-9f58-3b65-6699-d3e99707f311": {Terms: joblist.JobTerms{WorkerID: "wrk_7e75f612-9f58-3b65-6699-d3e99707f311"}},
		"job_0198": {Terms: joblist.JobTerms{Words: []joblist.Word{{
			From: "job_01980000-0000-0000-0000-000000000000", To: "job_0198ffff-ffff-ffff-ffff-ffffffffffff"}}}},
		"job_01988A2B-1c": {Terms: joblist.JobTerms{Words: []joblist.Word{{
			From: "job_01988a2b-1c00-0000-0000-000000000000", To: "job_01988a2b-1cff-ffff-ffff-ffffffffffff"}}}},
		"video_01988a2b1c": {Terms: joblist.JobTerms{Words: []joblist.Word{{
			From: "job_01988a2b-1c00-0000-0000-000000000000", To: "job_01988a2b-1cff-ffff-ffff-ffffffffffff"}}}},
		"01988a2b": {Terms: joblist.JobTerms{Words: []joblist.Word{{Text: "01988a2b",
			From: "job_01988a2b-0000-0000-0000-000000000000", To: "job_01988a2b-ffff-ffff-ffff-ffffffffffff"}}}},
		"job_title":             {Terms: words("job_title")},
		"01988a2":               {Terms: words("01988a2")},
		"0198-8a2b":             {Terms: words("0198-8a2b")},
		strings.Repeat("a", 33): {Terms: words(strings.Repeat("a", 33))},
	} {
		got, err := query.ParseSearch(text)

		require.NoError(t, err, text)
		require.Equal(t, &want, got, text)
	}

	for text, says := range map[string]string{
		"stat:failed":                "character 1: there is no key \"stat\"; the keys are status,",
		"ok status:broken":           "character 4: there is no status \"broken\"; there are scheduled,",
		"status:":                    "character 1: a value is missing",
		"status:failed,":             "character 1: a value is missing",
		":x":                         "character 1: a colon has no key",
		`é "open`:                    "character 3: the quotation mark is not closed",
		`"a"b`:                       "character 4: a space is missing",
		"meta:a":                     "meta takes a field",
		"bulk:x":                     "bulk takes the id",
		"checkpoint:1h":              "checkpoint takes > or <",
		"-pool:x":                    "pool cannot have a minus",
		"-":                          "character 1: a minus stands right before a key",
		"ok - status:failed":         "character 4: a minus stands right before a key",
		"-\u2028":                    "character 1: a minus stands",
		"-word":                      "character 1: only status, model,",
		"-age:>1h":                   "age cannot have a minus",
		"age:1h":                     "age takes > or <",
		"age:>h":                     "age takes > or <",
		"age:>1y":                    "age takes > or <",
		"age:>99999999999999999999s": "age takes > or <",
		"age:>99999w":                "age takes > or <",
		"waste:60":                   "waste takes >",
		"waste:>NaN":                 "waste takes >",
		"waste:>-1":                  "waste takes >",
		"worker:wrk_1":               "worker takes the id",
		"account:a account:b":        "account can be said once",
		"account:a,b":                "account takes one value",
		"a\x00b":                     "character 2: this character is invisible",
		"a\xffb":                     "character 2: this character is invisible",
		strings.Repeat("a ", 21):     "a search may have 20 terms",
		strings.Repeat("a", 501):     "can have at most 500 characters; this one has 501",
	} {
		_, err := query.ParseSearch(text)

		require.ErrorIs(t, err, apierror.New(apierror.CodeInvalidInput, ""), text)
		require.Contains(t, err.Error(), says, text)
	}
}

func FuzzParseSearch(f *testing.F) {
	for _, seed := range []string{
		"status:failed model:ltx tier:free,batch class:model_crash age:>1h waste:>60 account:acme worker:wrk_7e75f612-9f58-3b65-6699-d3e99707f311",
		`-user:"a b",c "x:y" job_0198 video_01988a2b1c 01988a2b-`, "\x00", `"`, "a:\u2028", "-", "--", ":", "age:>1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		search, err := query.ParseSearch(text)

		if err != nil {
			var refused *apierror.Error
			require.True(t, errors.As(err, &refused))
			require.True(t, utf8.ValidString(refused.Message), refused.Message)
			return
		}
		require.LessOrEqual(t, len(search.Terms.Facets)+len(search.Terms.Words), 20)
		for _, word := range search.Terms.Words {
			require.True(t, word.Text != "" || word.From != "")
			require.LessOrEqual(t, word.From, word.To)
			require.True(t, word.From == "" || word.From.Valid() && word.To.Valid())
		}
	})
}

func TestSearchNote(t *testing.T) {
	t.Parallel()

	for text, says := range map[string]bool{"": false, "status:failed": false, "user:ann age:<1h": false, "lighthouse": true,
		"model:ltx lighthouse": true} {
		search, err := query.ParseSearch(text)
		require.NoError(t, err)
		require.Equal(t, says, strings.Contains(search.Note(), "Prompts"), text)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	submitted := func(in submit.Submission) *models.Job {
		in.Model, in.Prompt = "testcard", "a lighthouse"
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		return job
	}
	plainJob := submitted(submit.Submission{})
	keyed := submitted(submit.Submission{IdempotencyKey: new("order-17")})
	tagged := submitted(submit.Submission{Metadata: []byte(`{"campaign": "autumn", "shot": 7, "deep": {"x": "hidden"}}`)})
	s.Exec(t, "UPDATE jobs SET created_at = created_at - interval '9 minutes' WHERE id = ?", plainJob.ID)
	find := func(p jobs.Principal, search string) []models.JobID {
		page, err := s.Reads.Jobs.List(t.Context(), p, joblist.JobFilter{Search: search}, paging.Request{First: 50})
		require.NoError(t, err, search)
		n, err := s.Reads.Jobs.Count(t.Context(), p, joblist.JobFilter{Search: search})
		require.NoError(t, err, search)
		require.Len(t, page.Items, n, search)
		var ids []models.JobID
		for _, job := range page.Items {
			ids = append(ids, job.ID)
		}
		return ids
	}
	all := []models.JobID{tagged.ID, keyed.ID, plainJob.ID}

	t.Run("FindsJobsByIDAndMetadata", func(t *testing.T) {
		for search, want := range map[string][]models.JobID{
			"":               all,
			string(keyed.ID): {keyed.ID},
			keyed.ID.UUID():  {keyed.ID},
			"video_" + strings.ReplaceAll(keyed.ID.UUID(), "-", ""): {keyed.ID},
			"job_0":                                  all,
			"order-17":                               {keyed.ID},
			"order":                                  nil,
			"autumn":                                 {tagged.ID},
			"autumn 7":                               {tagged.ID},
			"autumn order-17":                        nil,
			"hidden":                                 nil,
			"status:queued model:TEST":               nil,
			"status:queued model:test":               all,
			"-status:queued":                         nil,
			"age:>5m":                                {plainJob.ID},
			"age:<5m":                                {tagged.ID, keyed.ID},
			"waste:>0":                               nil,
			"account:" + string(s.Client.AccountID):  all,
			"worker:" + string(models.NewWorkerID()): nil,
		} {
			require.Equal(t, want, find(s.Client, search), search)
			require.Equal(t, want, find(s.Admin, search), search)
		}
	})

	t.Run("FindsNoJobsOfOtherAccounts", func(t *testing.T) {
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierFree), access.RoleClient)
		for _, search := range []string{"", string(keyed.ID), "order-17", "autumn", "job_0", "status:queued"} {
			require.Empty(t, find(stranger, search), search)
		}
		_, err := s.Reads.Jobs.List(t.Context(), stranger, joblist.JobFilter{Search: "account:" + string(s.Client.AccountID)},
			paging.Request{First: 1})
		require.ErrorIs(t, err, apierror.New(apierror.CodeNotFound, ""))
	})

	t.Run("FiltersBulkOperations", func(t *testing.T) {
		op, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel, Filter: joblist.JobFilter{Search: "autumn"}})

		require.NoError(t, err)
		require.Equal(t, 1, op.Matched)
		require.Contains(t, string(op.Filter), `"search": "autumn"`)
	})

	t.Run("DoesNotFindDeletedMetadata", func(t *testing.T) {
		_, err := s.Canceller.Cancel(t.Context(), s.Client, tagged.ID)
		require.NoError(t, err)
		_, err = s.Deleter.Delete(t.Context(), s.Client, tagged.ID)
		require.NoError(t, err)

		require.Empty(t, find(s.Client, "autumn"))
	})
}
