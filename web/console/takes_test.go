package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// take submits two drafts and completes the first n of them. It returns them and the address
// of their page.
func (b *browser) take(t *testing.T, n int) (drafts []*models.Job, page string) {
	t.Helper()
	made, err := b.Submitter.Takes(t.Context(), b.Client, submit.Submission{Model: "testcard", Prompt: "a fox in the snow",
		Draft: &submit.Draft{Steps: 6}}, 2, []int64{7, 11})
	require.NoError(t, err)
	worker := b.Worker(t, "one")
	for i, one := range made {
		drafts = append(drafts, one.Job)
		if i < n {
			jobstest.FinishDraft(t, b.Stack, worker, one.Job)
		}
	}
	return drafts, "/takes/" + string(drafts[0].TakesID)
}

func TestTakes(t *testing.T) {
	t.Parallel()

	t.Run("ShowsDraftsSideBySide", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		drafts, page := b.take(t, 1)

		require.Contains(t, b.get(t, "/jobs").Body, `<span class="badge is-draft">draft</span>`)

		got := b.get(t, page).Body

		require.Contains(t, got, "a fox in the snow")
		require.Contains(t, got, "seed 7")
		require.Contains(t, got, "seed 11")
		require.Contains(t, got, `src="/artifacts/`+string(b.Reload(t, drafts[0].ID).PreviewID))
		require.Contains(t, got, `action="/jobs/`+string(drafts[0].ID)+`/continue"`)
		require.NotContains(t, got, `action="/jobs/`+string(drafts[1].ID)+`/continue"`, "it has not ended")
		require.NotContains(t, got, "Discard", "nothing is chosen yet")
	})

	t.Run("ContinuesOneAndDiscardsTheOthers", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		drafts, page := b.take(t, 2)

		got := b.post(t, "/jobs/"+string(drafts[1].ID)+"/continue", nil)
		require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		video := strings.TrimPrefix(got.Header.Get("Location"), "/jobs/")
		require.Equal(t, drafts[1].ID, b.Reload(t, models.JobID(video)).Continues)
		again := b.post(t, "/jobs/"+string(drafts[1].ID)+"/continue", nil)
		require.Equal(t, got.Header.Get("Location"), again.Header.Get("Location"), "a draft is continued once")
		shown := b.get(t, page).Body
		require.Contains(t, shown, `href="/jobs/`+video+`"`)
		require.Contains(t, shown, "Discard the other 1")
		require.NotContains(t, shown, `action="`+page+`/discard"`, "it asks first")
		require.Contains(t, b.get(t, page+"/discard").Body, "Discard the other draft?")
		require.True(t, b.Reload(t, drafts[0].ID).DeletedAt.IsZero(), "asking discards nothing")

		require.Equal(t, page, b.post(t, page+"/discard", nil).Header.Get("Location"))

		require.False(t, b.Reload(t, drafts[0].ID).DeletedAt.IsZero())
		require.True(t, b.Reload(t, drafts[1].ID).DeletedAt.IsZero())
		b.get(t, page) // says once what was done
		require.NotContains(t, b.get(t, page).Body, "Discard")
	})

	t.Run("CancelsDraftsThatHaveNotEnded", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		drafts, page := b.take(t, 1)
		b.post(t, "/jobs/"+string(drafts[0].ID)+"/continue", nil)

		b.post(t, page+"/discard", nil)

		require.Equal(t, models.JobCancelled, b.Reload(t, drafts[1].ID).Status)
	})

	t.Run("DiscardsNothingBeforeAChoice", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		drafts, page := b.take(t, 2)

		require.Equal(t, page, b.get(t, page+"/discard").Header.Get("Location"))
		b.post(t, page+"/discard", nil)

		require.True(t, b.Reload(t, drafts[0].ID).DeletedAt.IsZero())
	})

	for name, id := range map[string]string{"AnUnknownId": string(models.NewTakesID()), "NoId": "%3Cb%3E"} {
		t.Run("DoesNotKnow"+name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, http.StatusNotFound, operator(t).get(t, "/takes/"+id).Status)
		})
	}

	t.Run("RefusesToContinueAJobThatIsNoDraft", func(t *testing.T) {
		t.Parallel()
		b := operator(t)

		require.Equal(t, http.StatusConflict, b.post(t, "/jobs/"+string(b.Submit(t).ID)+"/continue", nil).Status)
	})
}

func TestTakesLive(t *testing.T) {
	t.Parallel()
	b := operator(t)
	drafts, page := b.take(t, 1)
	ctx, _ := b.open(t, page)

	jobstest.FinishDraft(t, b.Stack, b.Worker(t, "two"), drafts[1])

	require.NoError(t, chromedp.Run(ctx, chromedp.WaitReady(`form[action="/jobs/`+string(drafts[1].ID)+`/continue"]`)))
}

func TestSubmitTakes(t *testing.T) {
	t.Parallel()
	form := func(takes, steps string) url.Values {
		return url.Values{"model": {"testcard"}, "prompt": {"a fox"}, "takes": {takes}, "draftSteps": {steps}}
	}

	t.Run("LeadsToTheTakes", func(t *testing.T) {
		t.Parallel()
		b := operator(t)

		got := b.post(t, "/jobs/new", form("3", "6"))

		require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		require.Regexp(t, "^/takes/", got.Header.Get("Location"))
		require.Len(t, b.jobs(t), 3)
	})

	for name, test := range map[string]struct{ takes, steps, says string }{
		"NoSteps":      {"3", "", "Drafts need a number of steps."},
		"TooManySteps": {"3", "100000", "draft.steps must be from 1 to"},
		"TooManyTakes": {"65", "6", "1 to 64 takes"},
		"NoNumber":     {"many", "6", "This must be a whole number."},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			b := operator(t)

			got := b.post(t, "/jobs/new", form(test.takes, test.steps))

			require.Equal(t, http.StatusUnprocessableEntity, got.Status)
			require.Contains(t, got.Body, test.says)
			require.Empty(t, b.jobs(t))
		})
	}
}
