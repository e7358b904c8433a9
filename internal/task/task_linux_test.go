package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/orphans"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// These environment variables make this test binary another program: task itself with another
// grace, or one that follows.
const (
	asTask     = "TASK_TEST_GRACE"
	asFollower = "TASK_TEST_FOLLOWER" // the file that it writes when it ends in order
)

func TestMain(m *testing.M) {
	if file := os.Getenv(asFollower); file != "" {
		ctx, err := localstack.Follow(context.Background(), os.Getenv(follow))
		if err != nil {
			panic(err)
		}
		<-ctx.Done()
		_ = os.WriteFile(file, nil, 0o600)
		return
	}
	if grace := os.Getenv(asTask); grace != "" {
		graceOthers, _ = time.ParseDuration(grace)
		main()
	}
	testrun.Main(m.Run)
}

// tasks are those of the tests. The follower has the variable as in Reelay's own Taskfile.
const tasks = `version: "3"
silent: true
tasks:
  hold: { deps: [sleep, nest, follow] }
  sleep: sleep 1001
  nest: sh -c '(sleep 1002; true) & setsid sleep 1003 & wait'
  follow: REELAY_FOLLOW="$$ $PPID" TASK_TEST_FOLLOWER="$ENDED" "$SELF"
  stubborn: |
    sh -c 'trap "touch asked" TERM; while true; do sleep 0.05; done'
  test: cd "$ROOT" && REELAY_FOLLOW="$$ $PPID" "$TOTALS" -count=1 -vet off -ldflags '-s -w' ./internal/testtotals/testdata/victim
  echo: 'cat; printf "%s\n" "{{.CLI_ARGS}}"; exit 7'
`

// started is a run of task.
type started struct {
	cmd *exec.Cmd
	dir string // the folder of the Taskfile
	out bytes.Buffer
}

// command returns a run of the tasks by a program, which has not begun.
func command(t *testing.T, program []string, args ...string) *started {
	t.Helper()
	s := &started{dir: t.TempDir()}
	file := filepath.Join(s.dir, "Taskfile.yml")
	require.NoError(t, os.WriteFile(file, []byte(tasks), 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	args = append(append(program[1:len(program):len(program)], "--exit-code", "--taskfile", file), args...)
	s.cmd = testrun.Command(t, program[0], args...)
	s.cmd.Env = append(os.Environ(), "SELF="+self, "ROOT="+root, "ENDED="+filepath.Join(s.dir, "ended"))
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.WaitDelay = time.Second // the children of a killed run also hold its output
	return s
}

var goTool = []string{"go", "tool", "task"}

// below waits until there is a process below the run for each command line, and returns all.
func (s *started) below(t *testing.T, lines ...string) (all []orphans.Process) {
	t.Helper()
	testrun.Eventually(t, "everything runs", func() bool {
		all = orphans.Below(s.cmd.Process.Pid)
		for _, line := range lines {
			if find(all, line) == 0 {
				return false
			}
		}
		return true
	})
	return all
}

// find returns the id of the first process with a text in its command line, or 0.
func find(all []orphans.Process, text string) int {
	for _, p := range all {
		if strings.Contains(p.String(), text) {
			return p.Pid
		}
	}
	return 0
}

// requireEnded waits until none of the processes runs.
func requireEnded(t *testing.T, all []orphans.Process) {
	t.Helper()
	testrun.Eventually(t, "all processes have ended", func() bool {
		for _, p := range all {
			if p.String() != fmt.Sprintf("%d ", p.Pid) { // a zombie has no command line
				return false
			}
		}
		return true
	})
}

func TestAbort(t *testing.T) {
	t.Parallel()

	const goTaskLine = "bin/task_"
	for name, c := range map[string]struct {
		whom   string // empty is the go command
		signal syscall.Signal
		status int // 0: the go command does not tell
	}{
		"Interrupt":       {"", syscall.SIGINT, 130},
		"Terminate":       {"", syscall.SIGTERM, 143},
		"HangUp":          {"", syscall.SIGHUP, 129},
		"GoKilled":        {"", syscall.SIGKILL, 0},
		"OuterKilled":     {"/task --exit-code", syscall.SIGKILL, 0},
		"OuterTerminated": {"/task --exit-code", syscall.SIGTERM, 143},
		"InnerKilled":     {innerName, syscall.SIGKILL, 137},
		"InnerTerminated": {innerName, syscall.SIGTERM, 143},
		"GoTaskKilled":    {goTaskLine, syscall.SIGKILL, 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := command(t, goTool, "hold")
			require.NoError(t, s.cmd.Start())
			self, err := os.Executable()
			require.NoError(t, err)
			all := s.below(t, "/task --exit-code", innerName, goTaskLine, "sleep 1001", "sleep 1002", "sleep 1003", self)
			pid := s.cmd.Process.Pid
			if c.whom != "" {
				pid = find(all, c.whom)
			}

			require.NoError(t, syscall.Kill(pid, c.signal))

			_ = s.cmd.Wait()
			requireEnded(t, all)
			if c.status != 0 {
				require.Equal(t, c.status, s.cmd.ProcessState.ExitCode(), s.out.String())
			}
			require.FileExists(t, filepath.Join(s.dir, "ended"), "a program that follows must end in its own order")
		})
	}
}

// TestAbortOfTests ends a run whose test has started servers.
func TestAbortOfTests(t *testing.T) {
	t.Parallel()
	totals := filepath.Join(t.TempDir(), "testtotals")
	said, err := exec.CommandContext(t.Context(), "go", "build", "-o", totals, "../testtotals").CombinedOutput()
	require.NoError(t, err, string(said))

	for name, c := range map[string]struct {
		whom   string // empty is the go command
		signal syscall.Signal
	}{
		"Interrupt":        {"", syscall.SIGINT},
		"GoTaskKilled":     {"bin/task_", syscall.SIGKILL},
		"TotalsKilled":     {totals, syscall.SIGKILL},
		"GoTestKilled":     {"go test -json", syscall.SIGKILL},
		"TestBinaryKilled": {"victim.test", syscall.SIGKILL},
	} {
		if name != "Interrupt" && !testrun.Nightly() { // each starts all servers
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := command(t, goTool, "test")
			s.cmd.Env = append(s.cmd.Env, "TOTALS="+totals)
			require.NoError(t, s.cmd.Start())
			all := s.below(t, "postgres -D", "redis-server", "sleep 1000", "victim.test", "go test")
			pid := s.cmd.Process.Pid
			if c.whom != "" {
				pid = find(all, c.whom)
			}

			require.NoError(t, syscall.Kill(pid, c.signal))

			require.Error(t, s.cmd.Wait(), s.out.String())
			requireEnded(t, all)
		})
	}
}

func TestStubborn(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)

	// start asks a run to end whose program ignores that.
	start := func(t *testing.T, grace string) (*started, []orphans.Process) {
		s := command(t, []string{self}, "stubborn")
		s.cmd.Env = append(s.cmd.Env, asTask+"="+grace)
		require.NoError(t, s.cmd.Start())
		all := s.below(t, "touch asked")
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		testrun.Eventually(t, "the program was asked to end", func() bool {
			_, err := os.Stat(filepath.Join(s.dir, "asked"))
			return err == nil
		})
		return s, all
	}

	t.Run("IsKilledAfterItsGrace", func(t *testing.T) {
		t.Parallel()

		s, all := start(t, "500ms")

		require.Error(t, s.cmd.Wait())
		requireEnded(t, all)
		require.Equal(t, 143, s.cmd.ProcessState.ExitCode(), s.out.String())
	})

	t.Run("IsKilledByASecondRequest", func(t *testing.T) {
		t.Parallel()
		s, all := start(t, "1h")
		ended := make(chan error, 1)
		go func() { ended <- s.cmd.Wait() }()

		testrun.Eventually(t, "it ends", func() bool {
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
			return len(ended) > 0
		})

		require.Error(t, <-ended)
		requireEnded(t, all)
		require.Equal(t, 143, s.cmd.ProcessState.ExitCode(), s.out.String())
	})
}

func TestPassesArgumentsInputAndStatusOn(t *testing.T) {
	t.Parallel()
	s := command(t, goTool, "echo", "--", "two words", "-x")
	s.cmd.Stdin = strings.NewReader("input\n")

	require.Error(t, s.cmd.Run())

	require.Equal(t, 7, s.cmd.ProcessState.ExitCode(), s.out.String())
	require.True(t, strings.HasPrefix(s.out.String(), "input\n'two words' -x\n"), s.out.String())
}
