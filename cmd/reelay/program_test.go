package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/internal/version"
	"github.com/stretchr/testify/require"
)

// asProgram is the environment variable that makes this test's executable run as the program
// itself.
const asProgram = "REELAY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program returns a command line as a separate process, without a terminal.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := testrun.Command(t, self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// TestProgram covers what only a process has: signals, pipes and a command line that other
// users can see.
func TestProgram(t *testing.T) {
	t.Parallel()

	submits := func(t *testing.T, url string) (*exec.Cmd, *strings.Builder) {
		cmd := program(t, "submit", "--prompt", "fox", "--endpoint", url, "--key", "rl_x")
		errs := &strings.Builder{}
		cmd.Stderr = errs
		return cmd, errs
	}

	t.Run("ShowsHowToFindTheJobWhenInterrupted", func(t *testing.T) {
		t.Parallel()

		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			asked := make(chan struct{}, 1)
			server, url := serveFaulty(t, func(_ http.ResponseWriter, r *http.Request) {
				asked <- struct{}{}
				<-r.Context().Done()
			})
			cmd, errs := submits(t, url)
			require.NoError(t, cmd.Start())
			<-asked

			require.NoError(t, cmd.Process.Signal(signal))

			require.Error(t, cmd.Wait())
			require.Equal(t, terminal.ExitInterrupted, cmd.ProcessState.ExitCode(), errs)
			require.Len(t, server.received(), 1, "it asks no more")
			require.Contains(t, errs.String(), "--idempotency-key "+server.received()[0])
			require.NotContains(t, errs.String(), "\x1b", "there is no terminal")
		}
	})

	t.Run("SucceedsIfTheReaderHasGone", func(t *testing.T) {
		t.Parallel()

		_, url := serveFaulty(t, accepted)
		cmd, errs := submits(t, url)
		read, write, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, read.Close())
		cmd.Stdout = write

		err = cmd.Run()

		require.NoError(t, write.Close())
		require.NoError(t, err, errs)
		require.NotContains(t, errs.String(), "pipe")
	})

	t.Run("FailsIfItCannotWrite", func(t *testing.T) {
		t.Parallel()

		_, url := serveFaulty(t, accepted)
		cmd, errs := submits(t, url)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("this system has no /dev/full")
		}
		defer full.Close()
		cmd.Stdout = full

		require.Error(t, cmd.Run())

		require.Equal(t, terminal.ExitFailed, cmd.ProcessState.ExitCode())
		require.Contains(t, errs.String(), "no space left on device")
	})

	t.Run("WarnsOfAKeyThatOtherUsersCanSee", func(t *testing.T) {
		t.Parallel()

		_, url := serveFaulty(t, accepted)
		cmd, errs := submits(t, url)

		out, err := cmd.Output()

		require.NoError(t, err, errs)
		require.Equal(t, "job_1\n", string(out), "its output is a program's to read")
		require.Contains(t, errs.String(), "set REELAY_API_KEY instead")
		require.NotContains(t, errs.String(), "rl_x")
	})

	t.Run("NeedsAnAddressForLinksToItsOwnServer", func(t *testing.T) {
		t.Parallel()

		for _, store := range []string{"s3://clips?region=eu-1&links=api", "gs://clips?links=api"} {
			cmd := program(t, "control")
			cmd.Env = append(cmd.Env, "DATABASE_URL=postgres://127.0.0.1:1/x", "REDIS_URL=redis://127.0.0.1:1", "REELAY_STORE="+store,
				"REELAY_SECRETS_FILE="+filepath.Join(t.TempDir(), "none"))

			log, err := cmd.CombinedOutput()

			require.Error(t, err)
			require.Contains(t, string(log), "REELAY_PUBLIC_URL is not set: the links in webhooks need it", store)
		}
	})

	t.Run("LogsWhereTheAPIListens", func(t *testing.T) {
		t.Parallel()

		cmd := program(t, "api")
		cmd.Env = append(cmd.Env, "REELAY_LISTEN=127.0.0.1:0", "DATABASE_URL=postgres://127.0.0.1:1/x", "REDIS_URL=redis://127.0.0.1:1",
			"GCS_BUCKET=bucket", "REELAY_SECRETS_FILE="+filepath.Join(t.TempDir(), "none"))

		log, err := cmd.CombinedOutput()

		require.Error(t, err, "it has no secrets")
		require.Regexp(t, `msg="api runs" address=127\.0\.0\.1:\d+ url=http://127\.0\.0\.1:\d+ version=`+version.Number, string(log))
	})
}
