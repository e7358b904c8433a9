package console

import (
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// schedule makes a schedule of this name that fires at nine each day.
func (b *browser) schedule(t *testing.T, name string) *schedules.Schedule {
	t.Helper()
	s, err := b.Schedules.Create(t.Context(), b.Client, schedule.Input{
		Name: name, Cron: "0 9 * * *", Timezone: "Europe/Berlin", JitterSeconds: 30,
		Request: schedule.Request{Job: &submit.Submission{Model: "testcard", Prompt: "fog " + markup}},
	})
	require.NoError(t, err)
	return s
}

// filmSchedule makes a schedule of a workflow of two jobs.
func filmSchedule(t *testing.T, b *browser) *schedules.Schedule {
	t.Helper()
	s, err := b.Schedules.Create(t.Context(), b.Client, schedule.Input{Name: "nightly", EverySeconds: 3600,
		Request: schedule.Request{Workflow: &workflow.Input{
			Name: "harbour film", Jobs: []workflow.Node{
				{Key: "shots.s1", Job: submit.Submission{Model: "testcard", Prompt: "fog"}},
				{Key: "shots.s2", After: []string{"shots.s1"}, Job: submit.Submission{Model: "testcard", Prompt: "dawn " + markup}},
			},
		}}})
	require.NoError(t, err)
	return s
}

// reloaded reads a schedule again.
func (b *browser) reloaded(t *testing.T, s *schedules.Schedule) *schedules.Schedule {
	t.Helper()
	s, err := b.Schedules.Get(t.Context(), b.Admin, s.ID)
	require.NoError(t, err)
	return s
}

// formTo returns the form of a page that is sent to an address.
func (b *browser) formTo(t *testing.T, page, action string) *shownForm {
	t.Helper()
	for _, f := range b.posted(t, page) {
		if f.action == action {
			return f
		}
	}
	require.Fail(t, "no such form", "%s on %s", action, page)
	return nil
}

func TestSchedule(t *testing.T) {
	t.Parallel()

	t.Run("IsListedByName", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		require.Contains(t, b.get(t, "/schedules").Body, "reelay schedules apply -f")
		b.schedule(t, "zebra")
		s := b.schedule(t, "ant")
		for _, name := range []string{"paused", "ended"} {
			id := b.schedule(t, name).ID
			b.Exec(t, "UPDATE schedules SET next_slot = NULL, next_fire_at = NULL WHERE id = ?", id)
			if name == "paused" {
				b.Exec(t, "UPDATE schedules SET paused_at = now(), paused_by = 'ana@example.com' WHERE id = ?", id)
			}
		}

		got := b.get(t, "/schedules")

		require.Equal(t, http.StatusOK, got.Status, got.Body)
		require.Regexp(t, `(?s)is-active.*>ant<.*is-ended.*>ended<.*is-paused.*>paused<.*is-active.*>zebra<`, got.Body)
		require.Contains(t, got.Body, `data-row data-href="`+address.Schedule(s.ID)+`"`)
		require.Contains(t, got.Body, text.MomentInFull(s.NextFireAt.UTC(), time.Now()))
		require.Contains(t, got.Body, "Europe/Berlin")
		require.Contains(t, got.Body, ">never<")
		require.Contains(t, got.Body, b.Account.Name)
		require.Contains(t, b.get(t, "/jobs").Body, `href="/schedules"`)
		for _, page := range []string{got.Body, b.get(t, "/accounts").Body} {
			require.Regexp(t, `(?s)>Slots per minute<.*>Waiting slots<.*data-label="Slots per minute">\s*0\.1 of 3\x{202f}000 .*data-label="Waiting slots">\s*0 of 6\x{202f}000 `, page)
		}
	})

	t.Run("IsListedOnPages", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := b.schedule(t, "0")
		b.Exec(t, `INSERT INTO schedules SELECT (jsonb_populate_record(sc, jsonb_build_object('id', gen_random_uuid(), 'name', 'other ' || n))).*
			FROM schedules sc, generate_series(1, ?) n WHERE sc.id = ?`, 50, s.ID)

		first := b.get(t, "/schedules")
		next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(first.Body)
		require.NotNil(t, next, first.Body)
		second := b.get(t, next[1])

		require.Contains(t, first.Body, "/schedules/live")
		require.Equal(t, http.StatusOK, second.Status, second.Body)
		require.Contains(t, second.Body, ">other 9<")
		require.NotContains(t, first.Body, ">other 9<")
		require.NotContains(t, second.Body, "/schedules/live")
		require.NotContains(t, second.Body, `rel="next"`)
	})

	t.Run("IsShownOnceItIsMade", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		events := b.stream(t, "/schedules/live", "")
		require.Contains(t, <-events, "No schedules.")
		b.schedule(t, "news")
		require.Contains(t, <-events, ">news<")
	})

	t.Run("ShowsItsRulesItsNextTimesAndItsSlots", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := b.schedule(t, "news")
		slot, err := b.Schedules.FireNow(t.Context(), b.Client, s.ID, time.Time{})
		require.NoError(t, err)
		b.Exec(t, `INSERT INTO schedule_slots (schedule_id, slot, cause, state, reason, tier, ended_at) VALUES (?, now() - interval '1 day', 'CRON', 'REFUSED', 'the quota is used up', 'PRO', now())`, s.ID)

		got := b.get(t, address.Schedule(s.ID))

		require.Equal(t, http.StatusOK, got.Status, got.Body)
		for _, text := range []string{
			"news", "0 9 * * *", "Europe/<wbr>Berlin", "up to 30 s", "the last one fires, up to 24 h 00 min late", "both run",
			"fire once, when the clock is put forward", "fire the first time",
			string(s.ID), `href="/jobs/` + string(slot.JobID), "the quota is used up", "trigger", "/jobs?q=schedule%3A" + string(s.ID),
		} {
			require.Contains(t, got.Body, text)
		}
		upcoming, err := b.Schedules.Upcoming(t.Context(), s, 10)
		require.NoError(t, err)
		for _, at := range upcoming {
			require.Contains(t, got.Body, `datetime="`+at.UTC().Format(time.RFC3339Nano)+`"`)
		}
	})

	t.Run("ShowsAndFiresItsWorkflow", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := filmSchedule(t, b)
		require.Contains(t, b.get(t, "/schedules").Body, "harbour film, 2 jobs")
		f := b.formTo(t, address.Schedule(s.ID), address.Schedule(s.ID)+"/trigger")
		fired := b.post(t, f.action, f.fields)
		require.Equal(t, http.StatusSeeOther, fired.Status, fired.Body)
		slots, err := schedules.ListSlots(t.Context(), b.DB, s.ID, time.Time{}, 1)
		require.NoError(t, err)
		made := address.Workflow(slots[0].WorkflowID)

		page := b.get(t, address.Schedule(s.ID)).Body
		for _, text := range []string{"harbour film, 2 jobs", "shots.s2", "dawn ", `href="` + made, `href="/workflows?schedule=` + string(s.ID)} {
			require.Contains(t, page, text)
		}
		require.Regexp(t, `href="`+address.Schedule(s.ID)+`"[^>]*>nightly<`, b.get(t, made).Body, "its page links the schedule")
		other := b.SubmitWorkflow(t, b.Client, "other", "s1")
		list := b.get(t, "/workflows?schedule="+string(s.ID)).Body
		require.Contains(t, list, made)
		require.NotContains(t, list, string(other.ID))
		require.Equal(t, http.StatusNotFound, b.get(t, "/workflows?schedule=x").Status)
	})

	t.Run("IsPausedForAReasonAndResumed", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := b.schedule(t, "news")
		pause, resume := address.Schedule(s.ID)+"/pause", address.Schedule(s.ID)+"/resume"

		require.Contains(t, b.get(t, pause).Body, "Pause news?")
		require.Equal(t, http.StatusUnprocessableEntity, b.post(t, pause, url.Values{"reason": {"a\x07b"}}).Status)
		for _, reason := range []string{"the holidays", "again"} {
			got := b.post(t, pause, url.Values{"reason": {reason}})
			require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
			require.Equal(t, address.Schedule(s.ID), got.Header.Get("Location"))
		}
		require.Equal(t, "the holidays", b.reloaded(t, s).PauseReason, "a second click changes nothing")
		shown := b.get(t, address.Schedule(s.ID)).Body
		require.Contains(t, shown, "The schedule is paused.")
		require.Contains(t, shown, "the holidays")
		require.Regexp(t, `by <span title="key_[0-9a-f-]+">test OPERATOR</span>: the holidays`, shown)
		require.Contains(t, shown, "None while it is paused.")

		for range 2 {
			require.Equal(t, http.StatusSeeOther, b.post(t, resume, nil).Status)
		}
		require.False(t, b.reloaded(t, s).Paused())
		require.NotContains(t, b.get(t, address.Schedule(s.ID)).Body, "the holidays")
	})

	t.Run("FiresOnceForEachPage", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := b.schedule(t, "news")
		trigger := address.Schedule(s.ID) + "/trigger"
		before := b.Count(t, "jobs")

		require.Equal(t, http.StatusUnprocessableEntity, b.post(t, trigger, nil).Status)
		first := b.formTo(t, address.Schedule(s.ID), trigger)
		var clicks sync.WaitGroup
		for range 3 {
			clicks.Go(func() { assert.Equal(t, http.StatusSeeOther, b.post(t, trigger, first.fields).Status) })
		}
		clicks.Wait()
		require.Equal(t, http.StatusSeeOther, b.post(t, trigger, first.fields).Status)
		require.Equal(t, before+1, b.Count(t, "jobs"), "a second click fires nothing")
		require.Contains(t, b.get(t, address.Schedule(s.ID)).Body, "The schedule was triggered since this page was opened.")

		require.Equal(t, http.StatusSeeOther, b.post(t, trigger, b.formTo(t, address.Schedule(s.ID), trigger).fields).Status)
		require.Equal(t, before+2, b.Count(t, "jobs"), "a new page fires again")
	})

	t.Run("IsDeletedAfterAQuestion", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := b.schedule(t, "news")
		page := address.Schedule(s.ID) + "/delete"

		require.Contains(t, b.get(t, page).Body, "Delete this schedule?")
		require.False(t, b.reloaded(t, s).Paused(), "the question deletes nothing")
		for range 2 {
			got := b.post(t, page, nil)
			require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
			require.Equal(t, "/schedules", got.Header.Get("Location"))
		}
		require.Zero(t, b.Count(t, "schedules"))
		require.Contains(t, b.get(t, "/schedules").Body, "The schedule was deleted.")
	})

	t.Run("IsNotFound", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		for _, id := range []string{"x", "%00", string(models.NewScheduleID())} {
			for _, page := range []string{"", "/pause", "/delete"} {
				require.Equal(t, http.StatusNotFound, b.get(t, "/schedules/"+id+page).Status, id+page)
			}
			for _, verb := range []string{"/pause", "/resume"} {
				require.Equal(t, http.StatusNotFound, b.post(t, "/schedules/"+id+verb, nil).Status, id+verb)
			}
			require.Equal(t, http.StatusNotFound, b.post(t, "/schedules/"+id+"/trigger",
				url.Values{"since": {time.Now().Format(time.RFC3339Nano)}}).Status, id)
		}
	})

	t.Run("EscapesWhatStrangersFill", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := b.schedule(t, "news")
		b.Exec(t, "UPDATE schedules SET name = ?0, next_slot = NULL, next_fire_at = NULL, paused_at = now(), paused_by = ?0, pause_reason = ?0",
			markup)

		for _, path := range []string{"/schedules", address.Schedule(s.ID), address.Schedule(s.ID) + "/pause", address.Schedule(s.ID) +
			"/delete"} {
			got := b.get(t, path)
			require.Equal(t, http.StatusOK, got.Status, path)
			require.Contains(t, got.Body, "&lt;img class=pwned", path)
			require.NotContains(t, got.Body, "<img class=pwned", path)
			require.NotContains(t, got.Body, "\u202e", path)
		}
		require.Contains(t, b.get(t, address.Schedule(s.ID)).Body, "fog &#34;&gt;&lt;img")
	})

	t.Run("IsReadOnlyForViewers", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		s := b.schedule(t, "news")
		logInAs(t, b, access.RoleViewer)

		for path, buttons := range map[string]int{address.Schedule(s.ID): 1, address.Schedule(s.ID) + "/pause": 1, address.Schedule(s.ID) +
			"/delete": 1} {
			forms := b.posted(t, path)
			require.Len(t, forms, buttons, path)
			require.Contains(t, forms[0].buttons[0], "disabled", path)
		}
		for _, verb := range []string{"/pause", "/resume", "/trigger", "/delete"} {
			require.Equal(t, http.StatusForbidden, b.post(t, address.Schedule(s.ID)+verb, nil).Status, verb)
		}
		require.False(t, b.reloaded(t, s).Paused())
	})
}
