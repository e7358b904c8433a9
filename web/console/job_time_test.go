package console

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/submit"
	"github.com/stretchr/testify/require"
)

func TestJobTime(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhenAScheduledJobIsDue", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, err := b.Submitter.Submit(t.Context(), b.Client, submit.Submission{
			Model: "testcard", Prompt: "x", RunAt: new(time.Now().Add(23*time.Hour + time.Minute)),
		})
		require.NoError(t, err)

		for _, path := range []string{"/jobs", "/jobs/" + string(job.ID)} {
			require.Regexp(t, `(?i)due(</span>|</dt>)[^!]*?<time data-ago[^>]*>in 23 h`, b.get(t, path).Body, path)
		}
	})

	t.Run("ShowsWaitingAndRunningApart", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, _ := b.resumed(t)
		b.Exec(t, "UPDATE jobs SET queued_seconds = 128, leased_seconds = 3600")

		got := b.get(t, "/jobs/"+string(job.ID)).Body

		require.Regexp(t, `<dt>Waited</dt>\s*<dd>\s*2 min 08 s`, got)
		require.Regexp(t, `<dt>Ran</dt>\s*<dd>\s*<time data-elapsed[^>]*>1 h 00 min`, got)
		require.Regexp(t, `(?s)data-label="Waited">\s*2 min 08 s.*data-label="Ran">\s*<time data-elapsed[^>]*>1 h 00 min`, b.get(t, "/jobs").Body)
	})
}
