package command_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

// skypilot makes a provider whose program uses an imitation of SkyPilot's package.
func skypilot(t *testing.T, options string) *cloud {
	t.Helper()
	imitations, err := filepath.Abs("testdata/imitations")
	require.NoError(t, err)
	c := wrapped(t, "skypilot", options, map[string]string{"PYTHONPATH": imitations, "PYTHONDONTWRITEBYTECODE": "1",
		"SKYPILOT_API_SERVER_ENDPOINT": "http://sky.example", "AGENT_COMMAND": agentCommand})
	c.pool.MachineType = "H100:1"
	return c
}

// has gives the imitation clusters, by id with their status.
func (c *cloud) has(t *testing.T, statuses map[string]string) {
	t.Helper()
	clusters := lo.MapValues(statuses, func(status, _ string) any { return map[string]any{"status": status, "launched_at": 1764000000} })
	text, err := json.Marshal(map[string]any{"requests": map[string]any{}, "clusters": clusters, "launches": []any{}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(c.folder, "sky.json"), text, 0o600))
}

func TestSkyPilot(t *testing.T) {
	t.Parallel()

	t.Run("ConformsToTheProtocol", func(t *testing.T) {
		t.Parallel()
		c := skypilot(t, `{}`)

		report, err := conformWithin(t, c, 30*time.Second, `"options": {"infra": "aws", "waitSeconds": 5}, "timeoutSeconds": 30`)

		require.NoError(t, err)
		require.Empty(t, wrong(report))
	})

	t.Run("LaunchesOnce", func(t *testing.T) {
		t.Parallel()
		c := skypilot(t, `{"infra": "aws/us-east-1", "waitSeconds": 0}`)

		require.Equal(t, fleet.Transient, fleet.ClassOf(c.create(t, "spot-0000105e")[0].Err))
		require.Equal(t, []string{"spot-0000105e BOOTING"}, c.ids(t), "its launch has no cluster yet")
		for range 2 {
			require.NoError(t, c.create(t, "spot-0000105e", "spot-0000000a")[0].Err)
		}

		require.Equal(t, []string{"spot-0000105e RUNNING", "spot-0000000a RUNNING"}, c.ids(t))
		var kept struct {
			Launches []struct {
				Run, Name string
				Secrets   map[string]string
				Resources map[string]any
			}
		}
		require.NoError(t, json.Unmarshal([]byte(c.read(t, "sky.json")), &kept))
		require.Len(t, kept.Launches, 2)
		launch := kept.Launches[1]
		require.Equal(t, "exec "+agentCommand+" "+strings.Join(fleet.AgentArguments("command", c.pool, "spot-0000000a"), " "), launch.Run)
		require.Equal(t, c.wanted(), boot(t, launch.Run, "REELAY_ENDPOINT="+launch.Secrets["REELAY_ENDPOINT"],
			"REELAY_API_KEY="+launch.Secrets["REELAY_API_KEY"]))
		require.Equal(t, map[string]any{"infra": "aws/us-east-1", "accelerators": "H100:1", "disk_size": 100.0, "use_spot": true}, launch.Resources)
		c.delete(t, "spot-0000000a", "spot-0000000a", "spot-0000dead")
		testrun.Eventually(t, "the cluster is gone", func() bool { return len(c.ids(t)) == 1 })
	})

	t.Run("LeavesClustersOfOthersAlone", func(t *testing.T) {
		t.Parallel()
		c := skypilot(t, `{"waitSeconds": 5}`)
		for _, id := range []string{"spot-dev", "spot-b-0000000a", "spot-0000000A"} { // the imitation launches them
			require.NoError(t, c.create(t, id)[0].Err)
		}

		require.Empty(t, c.ids(t))
		c.delete(t, "spot-dev", "spot-b-0000000a", "spot-0000000A")

		require.NotContains(t, c.read(t, "sky.json"), "sky.down")
	})

	t.Run("SaysWhyALaunchFailed", func(t *testing.T) {
		t.Parallel()
		c := skypilot(t, `{"waitSeconds": 5}`)

		all := c.create(t, "spot-full", "spot-capped", "spot-denied", "spot-odd", "spot-0000000a")

		for i, class := range []fleet.ErrorClass{fleet.Stockout, fleet.Quota, fleet.Permission, fleet.Invalid} {
			require.Equal(t, class, fleet.ClassOf(all[i].Err), all[i].Err)
		}
		require.NoError(t, all[4].Err)
		require.Equal(t, []string{"spot-0000000a RUNNING"}, c.ids(t))
		require.NoError(t, os.WriteFile(filepath.Join(c.folder, "down"), nil, 0o600))
		_, err := c.List(t.Context(), c.pool)
		require.ErrorContains(t, err, "Could not connect to SkyPilot API server")
	})

	t.Run("SaysThatADeleteFailed", func(t *testing.T) {
		t.Parallel()
		c := skypilot(t, `{"waitSeconds": 5}`)
		c.has(t, map[string]string{"spot-0000fa11": "UP", "spot-0000901e": "UP", "spot-0000000a": "UP", "spot-0000510e": "UP"})
		require.NoError(t, os.WriteFile(filepath.Join(c.folder, "flaky"), nil, 0o600)) // one look fails

		failed := c.Delete(t.Context(), c.pool, []fleet.Instance{{ID: "spot-0000fa11"}, {ID: "spot-0000901e"}, {ID: "spot-0000000a"},
			{ID: "spot-0000510e"}, {ID: "spot-0000dead"}})

		require.Len(t, failed, 1)
		require.Equal(t, fleet.Transient, fleet.ClassOf(failed["spot-0000fa11"]))
		require.ErrorContains(t, failed["spot-0000fa11"], "the cloud says that it is busy")
		require.NoFileExists(t, filepath.Join(c.folder, "flaky"))
		require.ElementsMatch(t, []string{"spot-0000fa11 RUNNING", "spot-0000901e RUNNING", "spot-0000510e ENDING"}, c.ids(t))
	})

	t.Run("KnowsTheStatesOfClusters", func(t *testing.T) {
		t.Parallel()
		c := skypilot(t, `{}`)
		c.has(t, map[string]string{"spot-00000001": "INIT", "spot-00000002": "PENDING", "spot-00000003": "UP", "spot-00000004": "AUTOSTOPPING",
			"spot-00000005": "STOPPED", "spot-00000006": "UNHEARD_OF"})

		require.Equal(t, []string{"spot-00000001 BOOTING", "spot-00000002 BOOTING", "spot-00000003 RUNNING", "spot-00000004 ENDING",
			"spot-00000005 ENDED", "spot-00000006 RUNNING"}, c.ids(t))
	})

	t.Run("RefusesWhatItDoesNotKnow", func(t *testing.T) {
		t.Parallel()
		for _, options := range []string{`{"infra": "aws; true"}`, `{"infra": 7}`, `{"disk": "1"}`, `{"run": "true"}`, `{"waitSeconds": -1}`} {
			require.Equal(t, fleet.Invalid, fleet.ClassOf(skypilot(t, options).create(t, "spot-0000000a")[0].Err), options)
		}
		c := skypilot(t, `{}`)
		c.pool.Name = "7-spot"
		err := c.create(t, "7-spot-0000000a")[0].Err
		require.Equal(t, fleet.Invalid, fleet.ClassOf(err), "SkyPilot's names begin with a letter")
	})
}

// venv returns the folder of a virtual environment with real packages.
func venv(t *testing.T, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	bin := filepath.Join(cache, "reelay-clouds", name, "venv", "bin")
	if os.Getenv("REELAY_TEST_CLOUDS") == "" {
		t.Skip("takes minutes, and needs real packages: `go tool task test:clouds` fetches them, and runs this test")
	}
	return bin
}

// TestSkyPilotItself runs the program with the real package and a real API server, which has no cloud. So no cluster begins.
// Not parallel: it takes seconds of CPU.
func TestSkyPilotItself(t *testing.T) {
	bin, home, port := venv(t, "skypilot"), t.TempDir(), testrun.FreePort(t)

	t.Run("TheImitationTakesWhatItTakes", func(t *testing.T) {
		out, err := exec.Command(bin+"/python", "testdata/skypilot/check.py").CombinedOutput()
		require.NoError(t, err, string(out))
	})

	server := testrun.Command(t, bin+"/python", "-m", "sky.server.server", "--host", "127.0.0.1", "--port", port)
	server.Env = append(os.Environ(), "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"), "SKYPILOT_DISABLE_USAGE_COLLECTION=1")
	log, err := os.Create(filepath.Join(home, "server.log"))
	require.NoError(t, err)
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	c := wrapped(t, "skypilot", `{"infra": "kubernetes"}`, map[string]string{"PATH": bin + ":" + os.Getenv("PATH"), "HOME": home,
		"SKYPILOT_API_SERVER_ENDPOINT": "http://127.0.0.1:" + port, "AGENT_COMMAND": "agent"})
	c.pool.MachineType = "" // accelerators need the catalogue, which the package fetches
	testrun.Eventually(t, "the API server answers", func() bool { _, err := c.List(t.Context(), c.pool); return err == nil })

	require.Empty(t, c.ids(t))
	for range 2 {
		err = c.create(t, "spot-0000000a")[0].Err
		require.Equal(t, fleet.Permission, fleet.ClassOf(err), err)
		require.ErrorContains(t, err, "Cloud access is not set up")
	}
	require.Empty(t, c.ids(t))
	c.delete(t, "spot-0000000a", "spot-0000dead")
	for _, text := range []string{c.read(t, "skypilot"), strings.Join(logged.about("skypilot"), "")} {
		require.NotContains(t, text, c.key)
	}
}
