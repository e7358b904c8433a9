package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// TestKilledEngines makes videos with OpenAI's Python package on four engines of the Videos API, of which one
// after the other is killed. With real engines for tests it makes 1,000.
func TestKilledEngines(t *testing.T) {
	t.Parallel()

	folder, err := filepath.Abs("clients/python")
	require.NoError(t, err)
	python := filepath.Join(folder, "venv/bin/python")
	if _, err := os.Stat(python); err != nil {
		t.Skip("its packages are not there: `go tool task clients` fetches them")
	}
	n, every := 24, 2*time.Second
	if os.Getenv("REELAY_ENGINES") != "" {
		n, every = soakJobs(t, 1000), 20*time.Second
	}
	args, fakes := []string{"--agents", "0", "--engine-kind", "videos-api"}, []*enginetest.VideosAPI{}
	for range 4 {
		fake := enginetest.NewVideosAPI(t, enginetest.VLLMOmni())
		fake.Run(30 * time.Millisecond)
		fakes, args = append(fakes, fake), append(args, "--engine", fake.URL)
	}
	s := start(t, args...)
	s.lift(t)
	s.onEngines(t, "killed")
	cmd := testrun.Command(t, python, "-W", "ignore", filepath.Join(folder, "soak.py"), fmt.Sprint(n), "killed")
	cmd.Env = append(os.Environ(), "REELAY_ENDPOINT="+s.keys.Endpoint, "REELAY_API_KEY="+s.keys.ClientKey)
	cmd.Stderr = os.Stderr
	var said []byte
	done := make(chan error, 1)
	begun := time.Now()
	go func() {
		var err error
		said, err = cmd.Output()
		done <- err
	}()
	kills, down := 0, false // an engine is down for a quarter of the time
	quarter := time.NewTicker(every / 4)
	defer quarter.Stop()
	for tick, ended := 1, false; !ended; tick++ {
		select {
		case err := <-done:
			require.NoError(t, err, string(said))
			ended = true
		case <-quarter.C:
		}
		switch fake := fakes[kills%len(fakes)]; {
		case down:
			fake.Restart()
			down = false
			kills++
		case tick%4 == 0 && !ended:
			fake.Kill()
			down = true
		}
	}

	var seen struct {
		Completed int
		Failures  []string
		P50, Most float64
	}
	require.NoError(t, json.Unmarshal(said, &seen), string(said))
	require.Empty(t, seen.Failures)
	require.Equal(t, n, seen.Completed)
	require.Positive(t, kills)
	totals, err := s.client(t).JobTotals(t.Context(), client.JobFilter{})
	require.NoError(t, err)
	require.Equal(t, []client.StatusCount{{Status: client.JobStatusCompleted, Jobs: n}}, totals.Statuses)
	renders := 0
	for _, fake := range fakes {
		renders += fake.AllRenders()
	}
	t.Logf("%d videos in %s on four engines, %d kills, one every %s: 0 failures; %d renders; a video took %.1f s (p50), at most %.1f s",
		n, time.Since(begun).Round(time.Second), kills, every, renders, seen.P50, seen.Most)
}
