package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// pod is an agent as a manifest starts it: without an id, in a pool that is known by name.
type pod struct {
	*exec.Cmd
	t    *testing.T
	work string
	log  string // the file
}

// pod starts an agent with the work directory, which stands for the pod's file system.
func (s *stack) pod(t *testing.T, work string, args ...string) *pod {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "pod-*.log")
	require.NoError(t, err)
	defer log.Close()
	p := &pod{t: t, work: work, log: log.Name(), Cmd: exec.CommandContext(t.Context(), reelay,
		append([]string{"agent", "--pool", "pods", "--models", "testcard", "--work-dir", work, "--health", "127.0.0.1:0"}, args...)...)}
	p.Env = append(os.Environ(), "REELAY_ENDPOINT="+s.keys.Endpoint, "REELAY_API_KEY="+s.keys.WorkerKey)
	p.Stdout, p.Stderr = log, log
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
		if t.Failed() {
			t.Logf("a pod:\n%s", p.output())
		}
	})
	return p
}

func (p *pod) output() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

var servesProbes = regexp.MustCompile(`serves its probes" address=(\S+)`)

// probe returns the answer to a probe, or 0 while the agent does not listen.
func (p *pod) probe(path string) (status int, body string) {
	p.t.Helper()
	address := servesProbes.FindStringSubmatch(p.output())
	if address == nil {
		return 0, ""
	}
	answer, err := http.Get("http://" + address[1] + path)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// ready waits until the agent answers /readyz with 200.
func (p *pod) ready() {
	p.t.Helper()
	testrun.Eventually(p.t, "the agent is ready", func() bool { status, _ := p.probe("/readyz"); return status == http.StatusOK })
}

// TestPods runs agents as the manifests of the documentation do: they are started before their pool
// exists, and have no id.
func TestPods(t *testing.T) {
	t.Parallel()
	s := start(t, "--agents", "0")
	type node struct {
		ProviderInstanceID, Status string
		Pool                       struct{ Name string }
	}
	workers := func() (live, ended []node) {
		data := struct {
			Workers struct{ Edges []struct{ Node node } }
		}{}
		s.ask(t.Context(), t, s.keys.OperatorKey,
			`{ workers(first: 50) { edges { node { providerInstanceID: providerInstanceId status pool { name } } } } }`, nil, &data)
		for _, edge := range data.Workers.Edges {
			if edge.Node.Status == "TERMINATED" {
				ended = append(ended, edge.Node)
				continue
			}
			live = append(live, edge.Node)
		}
		return live, ended
	}
	first, second := s.pod(t, t.TempDir()), s.pod(t, filepath.Join(t.TempDir(), "new"))

	testrun.Eventually(t, "the agents wait for their pool", func() bool {
		status, body := first.probe("/readyz")
		return status == http.StatusServiceUnavailable &&
			strings.Contains(body, "worker 0 is not ready: it is not registered: There is no pool pods: create it (reelay pools apply)")
	})
	status, _ := first.probe("/healthz")
	require.Equal(t, http.StatusOK, status)
	s.ask(t.Context(), t, s.keys.OperatorKey, `mutation ($source: String!) { applyPools(input: {source: $source}) { kind } }`,
		map[string]any{"source": "pools: [{name: pods, provider: static, region: local, gpuType: none, models: [testcard], maxWorkers: 4}]"},
		&struct{}{})
	first.ready()
	second.ready()
	live, _ := workers()
	require.Len(t, live, 2, "neither took the place of the other")
	ids := []string{live[0].ProviderInstanceID, live[1].ProviderInstanceID}
	require.NotEqual(t, ids[0], ids[1])
	require.Equal(t, []string{"pods", "pods"}, []string{live[0].Pool.Name, live[1].Pool.Name})

	// One machine has one agent without an id.
	third := exec.CommandContext(t.Context(), reelay, "agent", "--pool", "pods", "--work-dir", first.work, "--models", "testcard")
	third.Env = first.Env
	said, err := third.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "another agent on this machine uses the id that --instance-id has by default")

	// An agent that was killed finds its own place again. It ends by itself, and the other one goes on.
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())
	again := s.pod(t, first.work, "--exit-when-idle", "2s")
	require.NoError(t, again.Wait(), "the exit status is 0")
	require.Contains(t, again.output(), `reason="it had no job (--exit-when-idle)"`)
	live, ended := workers()
	require.Len(t, live, 1)
	require.Len(t, ended, 2)
	require.Equal(t, ended[0].ProviderInstanceID, ended[1].ProviderInstanceID)
	require.ElementsMatch(t, ids, []string{live[0].ProviderInstanceID, ended[0].ProviderInstanceID})

	// It holds a job for longer than the limit, and leaves after it.
	require.NoError(t, second.Process.Signal(os.Interrupt))
	require.NoError(t, second.Wait())
	c := s.client(t)
	job := submit(t, c, "a pod", 4, 1.5)
	busy := s.pod(t, first.work, "--exit-when-idle", "1s")
	require.NoError(t, busy.Wait())
	done := until(t, c, job, func(job *client.Job) bool { return job.Status == client.JobStatusCompleted })
	require.Equal(t, 1, done.AttemptNo)
	live, _ = workers()
	require.Empty(t, live)
	for _, p := range []*pod{first, second, again, busy} {
		require.False(t, bytes.Contains([]byte(p.output()), []byte(s.keys.WorkerKey)))
	}
}
