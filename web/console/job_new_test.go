package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

func (b *browser) jobs(t *testing.T) []*models.Job {
	t.Helper()
	page, err := b.Reads.Jobs.List(t.Context(), b.Admin, joblist.JobFilter{}, paging.Request{First: 10})
	require.NoError(t, err)
	return page.Items
}

func TestJobNew(t *testing.T) {
	t.Parallel()

	t.Run("HasAFieldForEachParameter", func(t *testing.T) {
		t.Parallel()

		got := operator(t).get(t, "/jobs/new")

		require.Equal(t, http.StatusOK, got.Status)
		require.Contains(t, got.Body, `<option value="720p">`)
		require.Contains(t, got.Body, `<option value="16:9" selected>`)
		require.Regexp(t, `<input id="params.fps" name="params.fps" type="number" step="1" min="1" max="60" value="24"`, got.Body)
	})

	t.Run("ListsAvailableModelsFirst", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		_, _, err := b.Registrar.Register(t.Context(), b.Enrolment, fleet.Registration{
			Provider: "static", ProviderInstanceID: "one", GPUCount: 1, Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"http.call"},
		})
		require.NoError(t, err)
		got := b.get(t, "/jobs/new?model=video.stitch")

		require.Contains(t, got.Body, `<textarea id="params.clips"`)
		require.Less(t, strings.Index(got.Body, `<option value="http.call"`), strings.Index(got.Body, `<option value="testcard"`))
	})

	t.Run("RefusesAnUnknownModel", func(t *testing.T) {
		t.Parallel()

		got := operator(t).get(t, "/jobs/new?model=%3Cb%3E")

		require.Equal(t, http.StatusUnprocessableEntity, got.Status)
		require.Contains(t, got.Body, "There is no model of that name")
	})
}

func TestJobSubmit(t *testing.T) {
	t.Parallel()

	form := func(changes ...string) url.Values {
		v := url.Values{"model": {"testcard"}, "prompt": {"a lighthouse\r\nin the fog"}, "params.fps": {"12"}, "params.resolution": {"720p"},
			"params.pace": {""}, "atMostOnce": {"true"},
			"maxPreemptions": {"0"}, "maxPricePerHour": {"0.5"}, "finishBy": {time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04")}}
		for i := 0; i < len(changes); i += 2 {
			v.Set(changes[i], changes[i+1])
		}
		return v
	}

	t.Run("MakesAJob", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		got := b.post(t, "/jobs/new", form())

		require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		made := b.jobs(t)
		require.Len(t, made, 1)
		require.Equal(t, "/jobs/"+string(made[0].ID), got.Header.Get("Location"))
		var params map[string]any
		require.NoError(t, json.Unmarshal(made[0].Params, &params))
		require.EqualValues(t, 12, params["fps"])
		require.Equal(t, "720p", params["resolution"])
		require.EqualValues(t, 1, params["pace"], "an empty field means the default")
		require.True(t, made[0].AtMostOnce)
		require.Equal(t, models.Needs("on-demand,price<=0.5"), made[0].Needs)
		require.WithinDuration(t, time.Now().Add(time.Hour), made[0].FinishBy, 2*time.Minute, "the form has whole minutes")
		require.Contains(t, b.get(t, got.Header.Get("Location")).Body, "on-demand only: its maxPreemptions is 0")
		require.Contains(t, b.get(t, got.Header.Get("Location")).Body, "never started twice")
		prompts, err := b.Edges(t, made[0].ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a lighthouse\nin the fog", prompts[made[0].ID].Text)
	})

	t.Run("ReusesTheResultOfAnEqualJob", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		again := form("atMostOnce", "", "maxPreemptions", "", "maxPricePerHour", "", "finishBy", "", "reuse", "true")
		refused := b.post(t, "/jobs/new", form("reuse", "true"))
		b.post(t, "/jobs/new", again)
		first := jobstest.CompleteNext(t, b.Stack, b.Worker(t, "one"))

		forecast := b.post(t, "/jobs/estimate", again)
		got := b.post(t, "/jobs/new", again)

		require.Contains(t, refused.Body, "leave out reuse or atMostOnce")
		require.Contains(t, forecast.Body, "an equal job, at once")
		page := b.get(t, got.Header.Get("Location")).Body
		require.Contains(t, page, "Result reused from")
		require.Contains(t, page, "/jobs/"+string(first.ID))
		require.Contains(t, b.get(t, "/jobs/new?from="+string(b.jobs(t)[0].ID)).Body, `value="true" selected>Use its result`)
	})

	t.Run("MakesOneJobOfAFormSentTwice", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		first := b.post(t, "/jobs/new", form("key", "once"))

		second := b.post(t, "/jobs/new", form("key", "once"))
		other := b.post(t, "/jobs/new", form("key", "once", "prompt", "another"))

		require.Equal(t, first.Header.Get("Location"), second.Header.Get("Location"))
		require.Equal(t, http.StatusUnprocessableEntity, other.Status)
		require.Contains(t, other.Body, "This form has already submitted a job")
		require.NotContains(t, other.Body, `value="once"`)
		require.Len(t, b.jobs(t), 1)
	})

	t.Run("SaysBesideAFieldWhatIsWrong", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		for name, bad := range map[string]string{
			"prompt":                 " ",
			"params.fps":             "-3",
			"params.durationSeconds": "1e9",
			"params.pace":            "NaN",
			"params.seed":            "0x10",
			"maxPreemptions":         "-1",
			"maxPricePerHour":        "NaN",
			"finishBy":               "2020-01-01T12:00",
			"params.resolution":      `"><script>alert(1)</script>`,
		} {
			got := b.post(t, "/jobs/new", form(name, bad))

			require.Equal(t, http.StatusUnprocessableEntity, got.Status, name)
			require.Contains(t, got.Body, `id="`+name+`-error"`, name)
			require.Contains(t, got.Body, `aria-describedby="`+name+`-error"`, name)
			require.NotContains(t, got.Body, "<script>alert", name)
			if name != "prompt" {
				require.Contains(t, got.Body, "a lighthouse", "what was entered must be kept")
			}
		}
		require.Empty(t, b.jobs(t))
	})

	t.Run("KeepsWhatWasTypedWhenAnotherModelIsChosen", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		got := b.post(t, "/jobs/new", form("model", "drill", "change", "1", "params.seed", "7", "tier", "PRO"))

		require.Equal(t, http.StatusOK, got.Status)
		require.Contains(t, got.Body, `<option value="drill" selected>`)
		require.Contains(t, got.Body, "a lighthouse\r\nin the fog</textarea>")
		require.Regexp(t, `name="params.seed"[^>]* value="7"`, got.Body)
		require.Contains(t, got.Body, `<option value="PRO" selected>`)
		require.Regexp(t, `name="params.steps"[^>]* value="10"`, got.Body, "its other fields have their defaults")
		require.NotContains(t, got.Body, `id="params.resolution"`, "it has no such field")
		require.Regexp(t, `type="hidden" name="params.resolution" value="720p"`, got.Body, "for the way back")
		require.Empty(t, b.jobs(t))
	})

	t.Run("BeginsAtTheFieldThatIsWrong", func(t *testing.T) {
		t.Parallel()

		got := operator(t).post(t, "/jobs/new", form("params.fps", "-3"))

		require.Equal(t, 1, strings.Count(got.Body, " autofocus"))
		require.Regexp(t, `<input id="params.fps"[^>]* autofocus`, got.Body)
	})

	t.Run("RefusesAPromptThatIsTooLong", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		long := b.post(t, "/jobs/new", form("prompt", strings.Repeat("x", 100_000)))
		huge := b.post(t, "/jobs/new", form("prompt", strings.Repeat("x", 1<<20)))

		require.Equal(t, http.StatusUnprocessableEntity, long.Status)
		require.Equal(t, http.StatusRequestEntityTooLarge, huge.Status)
		require.Empty(t, b.jobs(t))
	})
}
