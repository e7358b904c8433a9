package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// summing is the model of a runtime that adds up the numbers of its steps. It stays at step 40
// until it is asked for a checkpoint and stopped, and goes on when it resumes.
const summing = "summing"

type sum struct{ Step, Sum int }

func (sum) Load(context.Context, runtime.Model) error { return nil }

func (sum) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	var at sum
	last := 40
	if string(job.Params) != "{}" {
		last = 100
	}
	if len(job.Checkpoints) > 0 {
		state, err := os.ReadFile(job.Checkpoints[0].Path)
		if err == nil {
			err = json.Unmarshal(state, &at)
		}
		if err != nil {
			return runtime.Result{}, err
		}
		job.Resumed(job.Checkpoints[0], at.Step)
		last = 100
	}
	for at.Step < last {
		at.Step++
		at.Sum += at.Step
	}
	job.Progress(runtime.Progress{Percent: float64(at.Step), Step: at.Step, TotalSteps: 100, Phase: runtime.PhaseRendering})
	for n := 0; at.Step < 100; n++ {
		select {
		case <-ctx.Done():
			return runtime.Result{}, ctx.Err()
		case <-job.CheckpointAsked:
			path := filepath.Join(job.Workdir, fmt.Sprint("state-", n))
			state, err := json.Marshal(at)
			if err == nil {
				err = os.WriteFile(path, state, 0o600)
			}
			if err != nil {
				return runtime.Result{}, err
			}
			job.Checkpoint(runtime.Checkpoint{Path: path, Step: at.Step, Percent: float64(at.Step)})
		}
	}
	output, err := json.Marshal(at)
	return runtime.Result{Output: output}, err
}

// TestYield has a CRITICAL job wait while the only worker renders a BATCH job.
func TestYield(t *testing.T) {
	t.Parallel()
	s := common(t)
	c := s.dial(t, s.keys.AdminKey)
	self, err := os.Executable()
	require.NoError(t, err)
	_, err = c.ApplyModels(t.Context(), "models.yaml", `models: [{name: summing, type: summing.run, description: Sums that take long.,
		gpuTypes: [any], produces: output, timeoutSeconds: 600, gpuSecondsPerSecond: 1000, params: {type: object, properties: {
		durationSeconds: {type: integer}, whole: {type: boolean}}}}]`, false)
	require.NoError(t, err)
	s.workerOf(t, "summing", fmt.Sprintf("%s=env %s=%s %s", summing, asOutside, summing, self))
	submit := func(tier client.Tier, params string) string {
		submitted, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: summing, Tier: &tier, Params: new(json.RawMessage(params))})
		require.NoError(t, err)
		return submitted.Job.Id
	}
	batch := submit(client.TierBatch, `{}`)
	until(t, c, batch, beyond(40, 1))

	critical := submit(client.TierCritical, `{"whole": true}`)

	until(t, c, critical, completed)
	done := until(t, c, batch, completed)
	require.Equal(t, 2, done.AttemptNo)
	require.JSONEq(t, `{"Step": 100, "Sum": 5050}`, string(*done.Output))
	history, err := c.JobHistory(t.Context(), batch)
	require.NoError(t, err)
	gave, resumed := history.Attempts[0], history.Attempts[1]
	require.Equal(t, client.AttemptStatusReleased, gave.Status)
	require.Equal(t, client.FailureClassYielded, *gave.FailureClass)
	require.Equal(t, "preempted by a CRITICAL job", *gave.FailureReason)
	require.Equal(t, 40, *resumed.ResumedFromStep)
	require.Equal(t, gave.Worker.Id, resumed.Worker.Id)
}
