package submit_test

import (
	"slices"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestFallback(t *testing.T) {
	t.Parallel()

	t.Run("IsTheRequestsOrTheModels", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		card := s.AddTwins(t, "a", "b")
		list := func(shape func(*submit.Submission)) *models.Fallback {
			return s.Reload(t, jobstest.SubmitWith(t, s, shape).ID).Fallback
		}
		require.Nil(t, list(func(*submit.Submission) {}))
		require.Equal(t, []string{"b", "a"}, list(func(in *submit.Submission) { in.Fallback = []string{"b", "a"} }).Models)

		usual := *card
		usual.Fallback = []string{"gone", "drill", "b"} // drill does not take the params
		known := s.Submitter.Catalogue.Current().Models()
		s.Submitter.Catalogue.Replace(catalogue.New(append(known[1:len(known):len(known)], &usual)...))
		found := list(func(*submit.Submission) {})
		require.Equal(t, []string{"b"}, found.Models)
		require.Contains(t, found.Defaulted, "fps")
		require.NotContains(t, found.Defaulted, "durationSeconds")
		require.Nil(t, list(func(in *submit.Submission) { in.Fallback = []string{} }))
		require.Nil(t, list(func(in *submit.Submission) { in.AtMostOnce = true }))
		require.Nil(t, list(func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 3} }))
	})

	t.Run("CanStandInParams", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.AddTwins(t, "a")
		in := jobstest.Submission()
		in.IdempotencyKey = new("k")
		in.Params = []byte(`{"seed": 9007199254740991, "fallback": ["a"]}`)
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, first.FallbackModels())
		require.Contains(t, string(first.Params), "9007199254740991")
		require.NotContains(t, string(first.Params), "fallback")

		in.Params, in.Fallback = []byte(`{"seed": 9007199254740991}`), []string{"a"}
		same, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, same.ID)

		in.Fallback = nil
		_, _, err = s.Submitter.Submit(t.Context(), s.Client, in)
		require.Equal(t, apierror.CodeIdempotencyConflict, submit.Refusal(err).Code)
	})

	t.Run("RefusesBadInput", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.AddTwins(t, "a", "b", "c", "d", "e", "f")
		s.AddTwin(t, "secret", func(m *catalogue.Model) { m.Accounts = []models.AccountID{models.NewAccountID()} })
		named := func(names ...string) func(*submit.Submission) {
			return func(in *submit.Submission) { in.Fallback = names }
		}
		params := func(text string) func(*submit.Submission) {
			return func(in *submit.Submission) { in.Params = []byte(text) }
		}
		for name, c := range map[string]struct {
			field, says string
			spoil       func(*submit.Submission)
		}{
			"6 names":           {"fallback", "may name 5 models; it names 6", named("a", "b", "c", "d", "e", "f")},
			"its own model":     {"fallback", "names testcard, the job's own model", named("a", "testcard")},
			"a name twice":      {"fallback", "names a twice", named("a", "b", "a")},
			"an unknown model":  {"fallback", "fallback names sora-9. There is no model", named("sora-9")},
			"of others":         {"fallback", "fallback names secret. There is no model", named("secret")},
			"1,000 names":       {"fallback", "may name 5 models; it names 1000", named(slices.Repeat([]string{"a"}, 1000)...)},
			"an empty name":     {"fallback", "There is no model", named("")},
			"other params":      {"fallback", "The model drill, which fallback names, refuses the job: Unknown parameter", named("drill")},
			"another type":      {"fallback", "The model http.call, which fallback names, refuses the job: Its type is", named("http.call")},
			"at most once":      {"fallback", "leave out fallback", func(in *submit.Submission) { in.Fallback, in.AtMostOnce = []string{"a"}, true }},
			"a draft":           {"fallback", "leave out fallback", func(in *submit.Submission) { in.Fallback, in.Draft = []string{"a"}, &submit.Draft{Steps: 3} }},
			"text in params":    {"params.fallback", "must be a list", params(`{"fallback": "a"}`)},
			"numbers in params": {"params.fallback", "must be a list", params(`{"fallback": [1]}`)},
			"in both":           {"params.fallback", "Unknown parameter", func(in *submit.Submission) { in.Params, in.Fallback = []byte(`{"fallback": ["b"]}`), []string{"a"} }},
		} {
			in := jobstest.Submission()
			c.spoil(&in)
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
			refused := submit.Refusal(err)
			require.NotNil(t, refused, name)
			require.Equal(t, apierror.CodeInvalidInput, refused.Code, name)
			require.Contains(t, refused.Field, c.field, name)
			require.Contains(t, refused.Message, c.says, name)
		}
		require.Zero(t, s.Count(t, "jobs"))
	})
}
