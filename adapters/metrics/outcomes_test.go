package metrics

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()

	running := models.Job{Model: "testcard", Status: models.JobRunning, Run: 1}
	draft := models.Job{Model: "testcard", Status: models.JobCompleted, Run: 1, DraftSteps: 6, LatestCheckpointID: "art_1"}
	change := func(from models.Job, edit func(*models.Job)) func(*Metrics) {
		return func(m *Metrics) {
			after := from
			edit(&after)
			m.Changed(&from, &after)
		}
	}
	deleted := func(j *models.Job) { j.DeletedAt, j.LatestCheckpointID = time.Now(), "" }
	for name, test := range map[string]struct {
		happens func(*Metrics)
		line    string // none: nothing is counted
	}{
		"Completed": {change(running, func(j *models.Job) { j.Status = models.JobCompleted }),
			`reelay_jobs_ended_total{model="testcard",status="COMPLETED"} 1`},
		"Reused": {change(models.Job{Model: "testcard", Status: models.JobQueued, Run: 1}, func(j *models.Job) {
			j.Status, j.ReusedFrom = models.JobCompleted, "job_1"
		}), "reelay_jobs_ended_total{model=\"testcard\",status=\"COMPLETED\"} 1\nreelay_jobs_reused_total{model=\"testcard\"} 1"},
		"Cancelled": {change(running, func(j *models.Job) { j.Status = models.JobCancelled }),
			`reelay_jobs_ended_total{model="testcard",status="CANCELLED"} 1`},
		"Defective": {change(running, func(j *models.Job) {
			j.Status, j.Failures, j.FailureClass = models.JobScheduled, 1, models.FailDefectiveResult
		}), `reelay_attempts_failed_total{class="DEFECTIVE_RESULT",model="testcard"} 1`},
		"Requeued":  {change(running, func(j *models.Job) { j.Status = models.JobQueued }), ""},
		"Retried":   {change(draft, func(j *models.Job) { j.Status, j.Run = models.JobQueued, 2 }), ""},
		"Preview":   {change(running, func(j *models.Job) { j.PreviewID = "art_2" }), `reelay_previews_total{model="testcard"} 1`},
		"DraftMade": {func(m *Metrics) { m.Submitted(&draft) }, `reelay_drafts_made_total{model="testcard"} 1`},
		"DraftContinued": {func(m *Metrics) { m.Submitted(&models.Job{Model: "testcard", Continues: "job_1"}) },
			`reelay_drafts_continued_total{model="testcard"} 1`},
		"DraftDiscarded": {change(draft, deleted), `reelay_drafts_discarded_total{model="testcard"} 1`},
		"Yielded": {func(m *Metrics) { m.Yielded("PRO", &models.Job{Lane: "BATCH"}, 2.5) },
			"reelay_yield_wasted_seconds_total{lane=\"BATCH\"} 2.5\nreelay_yields_total{lane=\"BATCH\",to=\"PRO\"} 1"},
		"ContinuedDeleted": {change(models.Job{Model: "testcard", Status: models.JobCompleted, DraftSteps: 6}, deleted), ""},
		"VideoDeleted":     {change(models.Job{Model: "testcard", Status: models.JobCompleted}, deleted), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := New(Sources{Queues: none})

			test.happens(m)

			if test.line == "" {
				require.Empty(t, scrape(t, m))
			} else {
				others := func(line string) bool {
					return strings.HasPrefix(line, "reelay_jobs_finished_total") || strings.HasPrefix(line, "reelay_submits_accepted_total")
				}
				require.Equal(t, strings.Split(test.line, "\n"), slices.DeleteFunc(scrape(t, m), others))
			}
		})
	}
}
