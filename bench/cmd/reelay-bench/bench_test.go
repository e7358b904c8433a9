package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// programs is the folder of reelay and reelay-bench, built once for all tests.
var programs string

// root is the checkout.
const root = "../../.."

func TestMain(m *testing.M) {
	testrun.Main(func() int {
		dir, err := os.MkdirTemp("", "bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		programs = dir
		for _, folder := range []string{root + "/cmd/reelay", "."} {
			build := exec.Command("go", "build", "-C", folder, "-o", dir+"/", ".")
			build.Stderr = os.Stderr
			if build.Run() != nil {
				return 1
			}
		}
		// reelay looks for it beside itself; go tool task setup:s3 builds it.
		s3, err := filepath.Abs(root + "/bin/versitygw")
		if err == nil {
			err = os.Symlink(s3, dir+"/versitygw")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	})
}

// command returns a run of the program in the checkout, with small sizes.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := testrun.Command(t, filepath.Join(programs, "reelay-bench"),
		append([]string{"--small", "--rounds", "1", "--seconds", "0.2", "--minutes", "0.02"}, args...)...)
	cmd.Dir = root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}

func TestBench(t *testing.T) {
	t.Parallel()

	t.Run("MeasuresEverythingBesideTheLimitAndThePeers", func(t *testing.T) {
		t.Parallel()

		var out, errs bytes.Buffer
		cmd := command(t, "--json", "--peers", t.TempDir())
		cmd.Stdout, cmd.Stderr = &out, &errs
		require.NoError(t, cmd.Run(), "a missed target must not fail the command\n%s", errs.String())

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

		// A PostgreSQL that root starts runs as another user, who must be able to enter.
		temporary, err := os.MkdirTemp("", "bench-")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(temporary) })
		require.NoError(t, os.Chmod(temporary, 0o711))
		cmd := command(t, "heartbeat", "--rounds", "100", "--seconds", "5", "--peers", "")
		cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
		said, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		begun := make([]byte, 1000)
		n, err := said.Read(begun)
		require.NoError(t, err)

		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()

		require.Equal(t, 128+int(syscall.SIGINT), cmd.ProcessState.ExitCode(), "%s", begun[:n])
		left, err := os.ReadDir(temporary)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

func TestUsage(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"RefusesAnUnknownMeasurement": {[]string{"x"}, "there is no measurement"},
		"RefusesAnUnknownFlag":        {[]string{"--nothing"}, "unknown flag"},
		"RefusesNoRounds":             {[]string{"--rounds", "0"}, "--rounds is 0"},
		"RefusesAShortHistory":        {[]string{"lists", "--rows", "1"}, "--rows is 1"},
		"RefusesFewPages":             {[]string{"pages", "--times", "1"}, "--times is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var errs strings.Builder

			require.Equal(t, exitUsage, execute(t.Context(), test.args, &errs, &errs))
			require.Contains(t, errs.String(), test.says)
		})
	}
}
