package console

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

var _ = alsoPages(func(t *testing.T, b *browser) map[string]string {
	return map[string]string{"new schedule": "/schedules/new", "edit a schedule": address.Schedule(b.schedule(t, "to edit").ID) + "/edit"}
})

func TestScheduleForm(t *testing.T) {
	t.Parallel()

	valid := func(more url.Values) url.Values {
		form := url.Values{
			"name": {"weather"}, "cron": {"30 9 * * MON"}, "timezone": {"Europe/Berlin"}, "startAt": {"2027-01-01T10:00"},
			"endAt": {"2027-06-01T00:00:00"},
			"model": {"testcard"}, "prompt": {"the weather"}, "params": {`{"seed": 7}`}, "tier": {"BATCH"},
			"catchUp": {"ALL"}, "catchUpWindowSeconds": {"600"}, "overlap": {"SKIP"}, "jitterSeconds": {"5"}, "dstGap": {"SKIP"},
			"dstOverlap": {"LAST"},
		}
		for name, values := range more {
			form[name] = values
		}
		return form
	}

	t.Run("OffersTheModelsOfTheAccountForWhichItSubmits", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := b.schedule(t, "theirs")
		shipped, err := catalogue.Shipped()
		require.NoError(t, err)
		var known []*catalogue.Model
		for name, account := range map[string]models.AccountID{"theirs-only": s.AccountID, "of-another-account": models.NewAccountID()} {
			limited := *shipped.Models[0]
			limited.Name, limited.Accounts = name, []models.AccountID{account}
			known = append(known, &limited)
		}
		b.Submitter.Catalogue.Replace(catalogue.New(append(known, shipped.Models[0])...))

		page := b.page(t, address.Schedule(s.ID)+"/edit")
		require.Contains(t, page, "theirs-only")
		require.NotContains(t, page, "of-another-account")
		page = b.page(t, "/schedules/new")
		require.Contains(t, page, "testcard")
		require.NotContains(t, page, "of-another-account")
	})

	t.Run("CreatesWhatItSaysAndEditsIt", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		preview := b.post(t, "/schedules/new", valid(url.Values{"preview": {"1"}}))
		require.Equal(t, http.StatusOK, preview.Status)
		require.Regexp(t, `(?s)It fires .*Monday.*2027-01-04T08:30:00Z.*2027-02-01T08:30:00Z`, preview.Body)
		require.Contains(t, preview.Body, "the weather", "it keeps what was entered")
		require.Zero(t, b.Count(t, "schedules"), "a preview stores nothing")
		require.Contains(t, b.post(t, "/schedules/preview", valid(nil)).Body, "2027-01-11T08:30:00Z")

		got := b.post(t, "/schedules/new", valid(nil))
		require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		path := got.Header.Get("Location")
		s, err := b.Schedules.Get(t.Context(), b.Admin, models.ScheduleID(path[len("/schedules/"):]))
		require.NoError(t, err)
		require.Equal(t, time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC), s.StartAt.UTC(), "in its zone")
		require.Equal(t, []any{schedules.CatchUpAll, 600, schedules.RunOverlapSkip, 5, schedules.DSTGapSkip, schedules.DSTOverlapLast,
			models.TierBatch},
			[]any{s.CatchUp, s.CatchUpWindowSeconds, s.Overlap, s.JitterSeconds, s.DSTGap, s.DSTOverlap, s.Tier})
		require.Equal(t, http.StatusUnprocessableEntity, b.post(t, "/schedules/new", valid(nil)).Status, "the name is taken")
		require.Equal(t, 1, b.Count(t, "schedules"))

		f := b.formTo(t, path+"/edit", path+"/edit")
		require.Equal(t, "2027-01-01T10:00:00", f.fields.Get("startAt"))
		f.fields.Set("cron", "")
		f.fields.Set("everySeconds", "90")
		require.Equal(t, http.StatusSeeOther, b.post(t, f.action, f.fields).Status)
		s = b.reloaded(t, s)
		require.Equal(t, 90, s.EverySeconds)
		request, err := b.Schedules.RequestOf(t.Context(), s)
		require.NoError(t, err)
		job := request.Job
		require.Equal(t, "the weather", job.Prompt)
		require.JSONEq(t, `{"seed": 7}`, string(job.Params))
	})

	t.Run("KeepsTheOwnerAndWhatItDoesNotShow", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s, err := b.Schedules.Create(t.Context(), b.Client, schedule.Input{Name: "theirs", EverySeconds: 60,
			Request: schedule.Request{Job: &submit.Submission{Model: "testcard", Prompt: "fog", Priority: 70, Metadata: []byte(`{"a": "b"}`)}}})
		require.NoError(t, err)
		path := address.Schedule(s.ID) + "/edit"
		f := b.formTo(t, path, path)
		f.fields.Set("prompt", "rain")
		require.Equal(t, http.StatusSeeOther, b.post(t, path, f.fields).Status)

		changed := b.reloaded(t, s)
		require.Equal(t, s.AccountID, changed.AccountID)
		require.Equal(t, s.Tier, changed.Tier, "that of its owner")
		request, err := b.Schedules.RequestOf(t.Context(), changed)
		require.NoError(t, err)
		job := request.Job
		require.Equal(t, "rain", job.Prompt)
		require.Equal(t, 70, job.Priority)
		require.JSONEq(t, `{"a": "b"}`, string(job.Metadata))
	})

	t.Run("KeepsTheWorkflowOfASchedule", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := filmSchedule(t, b)
		path := address.Schedule(s.ID) + "/edit"
		require.Contains(t, b.get(t, path).Body, "reelay schedules apply -f")
		f := b.formTo(t, path, path)
		require.Empty(t, f.fields["prompt"], "it has no fields of a job")
		f.fields.Set("everySeconds", "120")
		require.Equal(t, http.StatusSeeOther, b.post(t, path, f.fields).Status)

		changed := b.reloaded(t, s)
		require.Equal(t, 120, changed.EverySeconds)
		request, err := b.Schedules.RequestOf(t.Context(), changed)
		require.NoError(t, err)
		require.Equal(t, "fog", request.Workflow.Jobs[0].Job.Prompt)
	})

	t.Run("ShowsErrorsAtTheirFields", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		for field, form := range map[string]url.Values{
			"name": {"name": {""}}, "cron": {"cron": {"61 * * * *"}}, "everySeconds": {"cron": {""}, "everySeconds": {"soon"}},
			"timezone": {"timezone": {"+02:00"}},
			"startAt":  {"startAt": {"tomorrow"}}, "endAt": {"endAt": {"2026-12-31T00:00"}}, "jitterSeconds": {"jitterSeconds": {"3601"}},
			"catchUpWindowSeconds": {"catchUpWindowSeconds": {"-1"}},
			"catchUp":              {"catchUp": {"SOME"}}, "overlap": {"overlap": {"x"}}, "dstGap": {"dstGap": {"x"}},
			"dstOverlap": {"dstOverlap": {"x"}},
			"model":      {"model": {"nonesuch"}}, "params": {"params": {"{"}}, "prompt": {"prompt": {""}},
		} {
			refused := b.post(t, "/schedules/new", valid(form))
			require.Equal(t, http.StatusUnprocessableEntity, refused.Status, field)
			require.Contains(t, refused.Body, `id="`+field+`-error"`, field)
		}
		gold := b.post(t, "/schedules/new", valid(url.Values{"tier": {"GOLD"}}))
		require.Equal(t, http.StatusUnprocessableEntity, gold.Status)
		require.Contains(t, gold.Body, `class="error"`)
		require.Contains(t, b.post(t, "/schedules/preview", valid(url.Values{"cron": {"0 0 30 2 *"}})).Body, "cron expression is not valid")
		require.Zero(t, b.Count(t, "schedules"))
	})
}
