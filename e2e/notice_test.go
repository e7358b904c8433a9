package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// interruptible is the model of a runtime that renders until it is asked for a checkpoint, and
// ends when it resumes.
const interruptible = "interruptible"

type resuming struct{}

func (resuming) Load(context.Context, runtime.Model) error { return nil }

func (resuming) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	if len(job.Checkpoints) > 0 {
		job.Resumed(job.Checkpoints[0], job.Checkpoints[0].Step)
		return runtime.Result{Output: []byte(`{"resumed": true}`)}, nil
	}
	job.Progress(runtime.Progress{Percent: 40, Phase: runtime.PhaseRendering})
	for step := 7; ; step++ {
		select {
		case <-ctx.Done():
			return runtime.Result{}, ctx.Err()
		case <-job.CheckpointAsked:
			path := filepath.Join(job.Workdir, fmt.Sprint("state-", step))
			if err := os.WriteFile(path, []byte("state"), 0o600); err != nil {
				return runtime.Result{}, err
			}
			job.Checkpoint(runtime.Checkpoint{Path: path, Step: step, Percent: 40})
		}
	}
}

// TestPreemption has the metadata server of a machine with two workers announce its preemption.
func TestPreemption(t *testing.T) {
	t.Parallel()
	s := common(t)
	c := s.client(t)
	self, err := os.Executable()
	require.NoError(t, err)
	_, err = s.dial(t, s.keys.AdminKey).ApplyModels(t.Context(), "models.yaml",
		`models: [{name: interruptible, type: interruptible.run, description: Work that is interrupted.,
		gpuTypes: [any], produces: output, timeoutSeconds: 600, gpuSecondsPerSecond: 1, params: {type: object}}]`, false)
	require.NoError(t, err)
	preempted := make(chan struct{})
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, etag := "FALSE", "1"
		if r.URL.Query().Get("last_etag") == etag {
			select {
			case <-preempted:
			case <-r.Context().Done():
				return
			}
			value, etag = "TRUE", "2"
		}
		w.Header().Set("Metadata-Flavor", r.Header.Get("Metadata-Flavor"))
		w.Header().Set("ETag", etag)
		if strings.HasSuffix(r.URL.Path, "/instance/preempted") {
			fmt.Fprintln(w, value)
		}
	}))
	t.Cleanup(cloud.Close)
	t.Cleanup(cloud.CloseClientConnections)
	command := fmt.Sprintf("%s=env %s=%s %s", interruptible, asOutside, interruptible, self)
	first := s.workerOf(t, "preempted", command, "REELAY_AGENT_WORKERS=2", "REELAY_AGENT_NOTICES=gce", "GCE_METADATA_HOST="+
		strings.TrimPrefix(cloud.URL, "http://"))
	var ids []string
	for range 2 { // a job for each worker of the machine
		submitted, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: interruptible})
		require.NoError(t, err)
		ids = append(ids, submitted.Job.Id)
	}
	for _, id := range ids {
		until(t, c, id, beyond(5, 1))
	}

	close(preempted)

	<-first.Done()
	require.Zero(t, first.ExitCode())
	s.workerOf(t, "next", command)
	for _, id := range ids {
		done := until(t, c, id, completed)
		require.Equal(t, 2, done.AttemptNo)
		require.JSONEq(t, `{"resumed": true}`, string(*done.Output))
		history, err := c.JobHistory(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, client.AttemptStatusReleased, history.Attempts[0].Status)
		var why []string
		for _, edge := range history.Events.Edges {
			if edge.Node.Type == client.JobEventTypeReleased {
				why = append(why, string(edge.Node.Payload))
			}
		}
		require.Len(t, why, 1)
		require.JSONEq(t, `{"reason": "PREEMPTED", "why": "Compute Engine preempts this machine"}`, why[0])
	}
}
