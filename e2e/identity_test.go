package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
	compute "google.golang.org/api/compute/v1"
)

// TestIdentity lets the scaler make a machine of Compute Engine, whose agent registers by the
// machine's identity token, without a key.
func TestIdentity(t *testing.T) {
	t.Parallel()
	cloud := fakegce.Start("us-central1-a")
	t.Cleanup(cloud.Close)
	issuer, err := fakegce.StartIssuer()
	require.NoError(t, err)
	t.Cleanup(issuer.Close)
	s, err := launchWith([]string{
		"REELAY_GCE_ENDPOINT=" + cloud.URL, "REELAY_GCE_IDENTITY_PROJECTS=" + fakegce.Project, "REELAY_GCE_IDENTITY_KEYS_URL=" + issuer.URL,
	}, dataDir(t), "--agents", "0")
	require.NoError(t, err)
	s.endWith(t)
	s.ask(t.Context(), t, s.keys.OperatorKey, `mutation ($source: String!) { applyPools(input: {source: $source}) { kind } }`,
		map[string]any{"source": `
pools:
  - name: spot
    provider: gce
    region: us-central1
    zones: [us-central1-a]
    gpuType: L4
    machineType: g2-standard-4
    models: [testcard]
    minWorkers: 1
    maxWorkers: 1
    settings: {project: ` + fakegce.Project +
			`, image: projects/p/global/images/worker, container: reelay-agent, serviceAccount: worker@p.iam.gserviceaccount.com}`}, &struct{}{})
	var machine *compute.Instance
	testrun.Eventually(t, "the scaler makes a machine", func() bool {
		all := cloud.Instances()
		if len(all) > 0 {
			machine = all[0]
		}
		return machine != nil
	})
	pools := struct{ Pools []struct{ ID, Name string } }{}
	s.ask(t.Context(), t, s.keys.OperatorKey, `{ pools { id name } }`, nil, &pools)
	pool := ""
	for _, p := range pools.Pools {
		if p.Name == "spot" {
			pool = p.ID
		}
	}
	metadata := fakegce.StartMetadata(issuer, machine)
	t.Cleanup(metadata.Close)
	log := filepath.Join(t.TempDir(), "agent.log")
	agent, err := localstack.StartChild(localstack.ChildConfig{
		Name: "agent", Path: reelay, Log: log, Grace: time.Minute,
		Args: []string{"agent", "--endpoint", s.keys.Endpoint, "--provider", "gce", "--instance-id", machine.Name, "--pool", pool, "--region",
			"us-central1", "--gpu-type", "L4", "--models", "testcard", "--work-dir", t.TempDir()},
		Env: append(os.Environ(), "GCE_METADATA_HOST="+metadata.Host, "REELAY_API_KEY="),
	})
	require.NoError(t, err)
	t.Cleanup(func() { agent.Stop(t.Context()) })

	c := s.client(t)
	job := submit(t, c, "by identity", 1, 0)
	until(t, c, job, func(job *client.Job) bool { return job.Status == client.JobStatusCompleted })
	worker := struct {
		Workers struct {
			Edges []struct {
				Node struct{ ID, Zone, Status string }
			}
		}
	}{}
	s.ask(t.Context(), t, s.keys.OperatorKey, `{ workers(first: 10) { edges { node { id zone status } } } }`, nil, &worker)
	require.Len(t, worker.Workers.Edges, 1, "the agent is the worker that the scaler waited for")
	require.Equal(t, "us-central1-a", worker.Workers.Edges[0].Node.Zone)

	doctor := testrun.Command(t, reelay, "doctor", "--gce", "--json", "--data", s.data)
	doctor.Dir, doctor.Env = t.TempDir(), append(os.Environ(), "REELAY_GCE_ENDPOINT="+cloud.URL)
	out, err := doctor.Output()
	require.Error(t, err, "the project has no image")
	var report struct {
		Findings []struct{ Check, Level string }
	}
	require.NoError(t, json.Unmarshal(out, &report), string(out))
	levels := map[string]string{}
	for _, f := range report.Findings {
		levels[f.Check] = f.Level
	}
	require.Equal(t, []string{"OK", "OK", "BROKEN"}, []string{levels["gce-credentials"], levels["gce-permissions"], levels["gce-image"]},
		string(out))

	token, err := issuer.Token(s.keys.Endpoint, machine)
	require.NoError(t, err)
	forged := token[:len(token)-20] + strings.Repeat("A", 20)
	input := map[string]any{
		"provider": "gce", "providerInstanceId": machine.Name, "poolId": pool, "region": "us-central1", "gpuType": "L4",
		"models": []string{"testcard"}, "agentVersion": "test",
	}
	for _, try := range []struct {
		token, header, holds string
		status               int
	}{
		{"", "", "UNAUTHENTICATED", http.StatusUnauthorized},
		{forged, "", "its signature or issuer is wrong", http.StatusUnauthorized},
		{token, s.keys.ClientKey, "FORBIDDEN", http.StatusOK},
		{forged, s.keys.WorkerKey, "its signature or issuer is wrong", http.StatusOK},
		{forged, token, "is not the token of the Authorization header", http.StatusOK},
		{token, "", `"workerToken":"rlw_`, http.StatusOK},
		{token, "", "has registered a worker before", http.StatusOK},
	} {
		input["identityToken"] = try.token
		status, answer := registerRaw(t, s.keys.Endpoint, try.header, input)
		require.Equal(t, try.status, status, answer)
		require.Contains(t, answer, try.holds)
		require.NotContains(t, answer, "eyJ", "no answer repeats a token")
	}
	require.NoError(t, filepath.WalkDir(s.data, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".log") {
			return err
		}
		text, err := os.ReadFile(path)
		require.NotContains(t, string(text), "eyJ", "%s holds a token", path)
		return err
	}))
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NotContains(t, string(text), "eyJ")
	require.NotContains(t, s.output(), "eyJ")
}

// registerRaw sends registerWorker with a header Authorization, or without if it is empty.
func registerRaw(t *testing.T, endpoint, header string, input map[string]any) (status int, answer string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"query": `mutation ($i: RegisterWorkerInput!) { registerWorker(input: $i) { workerToken } }`, "variables": map[string]any{"i": input},
	})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint+"/graphql", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	if header != "" {
		request.Header.Set("Authorization", "Bearer "+header)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}
