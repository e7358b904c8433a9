package jobs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/stretchr/testify/require"
)

func TestPrintJob(t *testing.T) {
	t.Parallel()

	at := func(seconds float64) time.Time {
		return time.Date(2026, 5, 4, 12, 0, 0, 0, time.Local).Add(time.Duration(seconds * float64(time.Second)))
	}
	asked := output.Moment(at(0))
	rendering := client.Progress{Percent: 17, Phase: client.PhaseRendering, Message: new("cancelling: the worker is being told")}
	over := client.Progress{Percent: 17, Phase: client.PhaseDone}
	tests := map[string]struct {
		job   client.JobHistory
		shows []string
		hides string
	}{
		"ShowsThatTheWorkerIsBeingNotified": {
			job: client.JobHistory{Job: client.Job{Status: client.JobStatusRunning, Progress: rendering,
				Cancellation: &client.Cancellation{RequestedAt: at(0)}}},
			shows: []string{"cancel     asked " + asked + " · its worker is being told\n", "progress   17 %  RENDERING\n"},
		},
		"ShowsThatTheWorkerWasNotified": {
			job: client.JobHistory{Job: client.Job{Status: client.JobStatusRunning, Progress: rendering,
				Cancellation: &client.Cancellation{RequestedAt: at(0), DeliveredAt: new(at(0.1))}}},
			shows: []string{"asked " + asked + " · worker told after 0.1 s · it is stopping\n"},
			hides: "being told",
		},
		"ShowsThatTheWorkerStopped": {
			job: client.JobHistory{Job: client.Job{Status: client.JobStatusCancelled, Progress: over,
				Cancellation: &client.Cancellation{RequestedAt: at(0), DeliveredAt: new(at(0.1)), StoppedAt: new(at(0.4))}}},
			shows: []string{"asked " + asked + " · worker told after 0.1 s · stopped after 0.4 s\n", "17 % when it was cancelled\n"},
		},
		"ShowsThatAWaitingJobStoppedAtOnce": {
			job: client.JobHistory{Job: client.Job{Status: client.JobStatusCancelled, Progress: over,
				Cancellation: &client.Cancellation{RequestedAt: at(0), StoppedAt: new(at(0)), By: "ana", Reason: new("wrong prompt")}}},
			shows: []string{"asked " + asked + " · stopped after 0.0 s\n", "asked by   ana: wrong prompt\n"},
		},
		"SaysWhichPriceIsUnknown": {
			job: client.JobHistory{Job: client.Job{Status: client.JobStatusCompleted, Progress: over}, Attempts: []client.Attempt{{AttemptNo: 1}},
				CostUnknown: new("the price book had no price of Google Veo (model film)")},
			shows: []string{"cost       unknown, since the price book had no price of Google Veo (model film)\n"},
		},
		"ShowsWhatItWaitsForAndUntilWhen": {
			job: client.JobHistory{Job: client.Job{Status: client.JobStatusScheduled, ExpiresAt: new(at(60))},
				WaitingFor: []client.WaitingReason{{Message: "It is due at noon."}, {Message: "3 jobs ahead."}}},
			shows: []string{"waits      It is due at noon.\nwaits      3 jobs ahead.\n", "expires    " + output.Moment(at(60))},
		},
		"ShowsThatNothingHoldsItBack": {
			job:   client.JobHistory{Job: client.Job{Status: client.JobStatusQueued}},
			shows: []string{"waits      Nothing holds it back"},
		},
		"ShowsNoWaitOnceItRuns": {
			job:   client.JobHistory{Job: client.Job{Status: client.JobStatusRunning, StartedAt: new(at(1)), ExpiresAt: new(at(60))}},
			hides: "waits",
		},
		"CountsAttemptsOverAllRunsAndFailuresPerRun": {
			job:   client.JobHistory{Job: client.Job{AttemptNo: 4, Run: 3, MaxAttempts: 2}},
			shows: []string{"attempts   4, in run 3 (most failures of a run: 2)\n"},
		},
		"ReportsWhyItFailed": {
			job: client.JobHistory{Job: client.Job{Id: "job_1", Status: client.JobStatusFailed, Progress: over,
				FailureClass: new(client.FailureClassPoison), FailureReason: new("three workers crashed")}},
			shows: []string{"why        POISON: three workers crashed\n", "progress   17 % when it failed\n"},
			hides: "DONE",
		},
		"ShowsThatTheReasonWasDeleted": {
			job: client.JobHistory{Job: client.Job{Status: client.JobStatusFailed, DeletedAt: new(at(9)),
				FailureClass: new(client.FailureClassPoison)}},
			shows: []string{"why        POISON: the job was deleted, together with the reason", "deleted    " + output.Moment(at(9))},
		},
		"ShowsHowToContinueADraft": {
			job:   client.JobHistory{Job: client.Job{Id: "job_1", Draft: &client.Draft{Steps: 6, KeptUntil: new(at(0))}}},
			shows: []string{"draft      ends after step 6; kept until " + asked + ": make its video with `reelay continue job_1`\n"},
		},
		"NamesTheVideoOfADraft": {
			job: client.JobHistory{Job: client.Job{Draft: &client.Draft{Steps: 6, KeptUntil: new(at(0)),
				ContinuedBy: &client.ContinuedBy{Id: "job_2"}}}},
			shows: []string{"draft      ends after step 6; its video is job_2\n"},
			hides: "reelay continue",
		},
		"ShowsWhatATaskMade": {
			job: client.JobHistory{Job: client.Job{Output: new(json.RawMessage(`{"status": 200}`))},
				Artifacts: []client.Artifact{{Type: client.ArtifactTypeThumbnail, SizeBytes: 2048, Url: "https://store/picture"}}},
			shows: []string{"output     {\"status\": 200}\n", "picture    2.0 KiB, https://store/picture\n"},
		},
		"ShowsWhyAnAttemptEndedAndItsLog": {
			job: client.JobHistory{Attempts: []client.Attempt{
				{AttemptNo: 1, FailureClass: new(client.FailureClassModelCrash), FailureReason: new("exit status 3, " + strings.Repeat("x", 100)),
					Log: &client.Artifact{SizeBytes: 2048}},
				{AttemptNo: 2},
			}},
			shows: []string{"2.0 KiB  MODEL_CRASH: exit status 3, xxx", "x…\n", "  -        -\n"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var out strings.Builder
			require.NoError(t, printJob(&out, &test.job))

			for _, text := range test.shows {
				require.Contains(t, out.String(), text)
			}
			if test.hides != "" {
				require.NotContains(t, out.String(), test.hides)
			}
		})
	}
}
