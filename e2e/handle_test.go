package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// asOutside is an environment variable that makes this test binary a runtime.
const asOutside = "REELAY_TEST_AS_OUTSIDE"

// outside is a runtime whose work goes on elsewhere. Its first attempt begins the work, and
// waits. One that adopts the work ends.
type outside struct{ model string }

func serveOutside(model string) error {
	if model == interruptible {
		return runtime.Serve(context.Background(), os.Stdin, os.Stdout, runtime.Ready{Runtime: "interruptible 1", Models: runtime.Offers(model)},
			resuming{})
	}
	if model == summing {
		return runtime.Serve(context.Background(), os.Stdin, os.Stdout, runtime.Ready{Runtime: "summing 1", Models: runtime.Offers(model)}, sum{})
	}
	return runtime.Serve(context.Background(), os.Stdin, os.Stdout, runtime.Ready{Runtime: "outside 1", Models: runtime.Offers(model)},
		outside{model})
}

func (outside) Load(context.Context, runtime.Model) error { return nil }

func (o outside) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	if job.Handle != "" {
		output, err := json.Marshal(map[string]string{"adopted": job.Handle})
		return runtime.Result{Output: output}, err
	}
	if err := job.StoreHandle(o.model + ", prediction 7"); err != nil {
		return runtime.Result{}, err
	}
	job.Progress(runtime.Progress{Percent: 10, Phase: runtime.PhaseRendering, Message: strconv.Itoa(os.Getpid())})
	<-ctx.Done()
	return runtime.Result{}, ctx.Err()
}

// outsidePython is the same with the kit for Python.
const outsidePython = `import os, time
from reelay_runtime import Model, Result, Step, serve

class Outside(Model):
    runtime = "outside 1"
    models = {"outside-python": "1"}

    def begin(self, job):
        self.job = job

    def steps(self, job):
        if job.handle:
            return Result(output={"adopted": job.handle})
        job.send_handle("outside-python, prediction 7")
        yield Step(1, 10, str(os.getpid()))
        while True:
            job.check_cancelled()
            time.sleep(0.01)

serve(Outside())
`

// workerOf starts an agent of a stack until the test ends.
func (s *stack) workerOf(t *testing.T, instance, runtime string, environment ...string) *localstack.Child {
	t.Helper()
	output, err := os.CreateTemp(t.TempDir(), "agent-*.log")
	require.NoError(t, err)
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: "agent", Path: reelay, Log: output.Name(), Env: append(append(os.Environ(), "REELAY_API_KEY="+s.keys.WorkerKey), environment...),
		Args: []string{"agent", "--endpoint", s.keys.Endpoint, "--instance-id", instance, "--work-dir", t.TempDir(), "--runtime", runtime},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		child.Stop(context.Background())
		if text, _ := io.ReadAll(output); t.Failed() {
			t.Logf("the agent:\n%s", text)
		}
		output.Close()
	})
	return child
}

func TestHandle(t *testing.T) {
	t.Parallel()

	self, err := os.Executable()
	require.NoError(t, err)
	kit, err := filepath.Abs("../gpu/runtimes/python")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "outside.py")
	require.NoError(t, os.WriteFile(program, []byte(outsidePython), 0o600))
	for model, command := range map[string]string{
		"outside-go":     fmt.Sprintf("env %s=outside-go %s", asOutside, self),
		"outside-python": fmt.Sprintf("env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=%s python3 %s", kit, program),
	} {
		t.Run("IsAdoptedAfterTheLossOf/"+model, func(t *testing.T) {
			t.Parallel()
			s := common(t)
			c := s.client(t)
			_, err := s.dial(t, s.keys.AdminKey).ApplyModels(t.Context(), "models.yaml", "models: [{name: "+model+
				`, type: outside.run, description: Work that goes on elsewhere.,
				gpuTypes: [any], produces: output, timeoutSeconds: 600, gpuSecondsPerSecond: 1, params: {type: object}}]`, false)
			require.NoError(t, err)
			first := s.workerOf(t, model, model+"="+command)
			submitted, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: model})
			require.NoError(t, err)
			id := submitted.Job.Id
			begun := until(t, c, id, beyond(5, 1))
			require.NotNil(t, begun.Progress.Message)
			process, err := strconv.Atoi(*begun.Progress.Message)
			require.NoError(t, err)
			testrun.Eventually(t, "the handle is stored", func() bool {
				_, answer := s.post(t, s.keys.ClientKey, "application/json", `{"query": "{ job(id: \"`+id+`\") { hasHandle } }"}`)
				return answer == `{"data":{"job":{"hasHandle":true}}}`
			})

			require.NoError(t, syscall.Kill(first.Pid(), syscall.SIGKILL))
			testrun.Eventually(t, "the runtime ends with its agent", func() bool { return syscall.Kill(process, 0) == syscall.ESRCH })
			// An agent that registers under the same instance tells the server that the first is lost.
			s.workerOf(t, model, model+"="+command)

			done := until(t, c, id, completed)
			require.Equal(t, 2, done.AttemptNo)
			require.JSONEq(t, `{"adopted": "`+model+`, prediction 7"}`, string(*done.Output))
			history, err := c.JobHistory(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, client.AttemptStatusLost, history.Attempts[0].Status)
		})
	}
}
