package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// bench runs `reelay bench` in the checkout, everything small.
func bench(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := testrun.Command(t, reelay, append([]string{"bench", "--small", "--rounds", "1", "--seconds", "0.2", "--minutes", "0.02"}, args...)...)
	cmd.Dir = ".."
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}

func TestBench(t *testing.T) {
	t.Parallel()

	t.Run("MeasuresEverythingBesideTheLimitAndThePeers", func(t *testing.T) {
		t.Parallel()

		var out, errs bytes.Buffer
		cmd := bench(t, "--json", "--peers", t.TempDir())
		cmd.Stdout, cmd.Stderr = &out, &errs
		require.NoError(t, cmd.Run(), "a missed target is no failure\n%s", errs.String())

		var report struct {
			Targets []struct {
				Name  string
				Ratio *float64
			}
			Results []struct {
				Title       string
				Contestants []struct{ Name, Role string }
			}
			Missing []string
		}
		require.NoError(t, json.Unmarshal(out.Bytes(), &report))
		require.Empty(t, report.Missing)
		require.NotEmpty(t, report.Targets)
		for _, target := range report.Targets {
			require.NotNil(t, target.Ratio, target.Name)
		}
		seen := map[string]bool{}
		for _, result := range report.Results {
			for _, c := range result.Contestants {
				seen[c.Name] = true
			}
		}
		for _, name := range []string{"Reelay", "pgbench insert", "River Insert", "River InsertManyFast", "asynq", "Faktory", "gqlgen"} {
			require.True(t, seen[name], name)
		}
	})

	t.Run("LeavesNothingWhenItIsInterrupted", func(t *testing.T) {
		t.Parallel()

		temporary := dataDir(t)
		cmd := bench(t, "heartbeat", "--rounds", "100", "--seconds", "5", "--peers", "")
		cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
		said, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = said.Read(make([]byte, 1)) // it has begun
		require.NoError(t, err)

		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()

		require.Equal(t, 128+int(syscall.SIGINT), cmd.ProcessState.ExitCode())
		left, err := os.ReadDir(temporary)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}
