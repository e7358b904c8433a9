package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/orphans"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// asProgram is an environment variable that makes this test binary testtotals itself. Its
// value holds hangTime and leaveGrace.
const asProgram = "TESTTOTALS_AS_PROGRAM"

func TestMain(m *testing.M) {
	if limit := os.Getenv(asProgram); limit != "" {
		hang, leave, _ := strings.Cut(limit, " ")
		hangTime, leaveGrace = duration(hang), duration(leave)
		main()
		os.Exit(0)
	}
	testrun.Main(m.Run)
}

// patient holds the limits for runs that neither hang nor leave processes behind.
const patient = "1h 1h"

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// victim is a run of testtotals over testdata/victim.
type victim struct {
	cmd *exec.Cmd
	out bytes.Buffer
	dir string // where it writes that everything has started
}

// startVictim starts a run whose test ends as end says, or never.
func startVictim(t *testing.T, end, limits string, args ...string) *victim {
	t.Helper()
	v := &victim{dir: t.TempDir()}
	self, err := os.Executable()
	require.NoError(t, err)
	v.cmd = testrun.Command(t, self, append(args, "-count=1", "-vet", "off", "-ldflags", "-s -w", "./testdata/victim")...)
	v.cmd.Env = append(os.Environ(), asProgram+"="+limits, "VICTIM_DIR="+v.dir, "VICTIM_END="+end)
	v.cmd.Stdout, v.cmd.Stderr = &v.out, &v.out
	v.cmd.WaitDelay = time.Second // the children of a killed run also hold its output
	require.NoError(t, v.cmd.Start())
	return v
}

// started waits until everything has started, and returns the processes.
func (v *victim) started(t *testing.T) (processes []orphans.Process) {
	t.Helper()
	testrun.Eventually(t, "the victim has started everything", func() bool {
		_, err := os.Stat(filepath.Join(v.dir, "started"))
		return err == nil
	})
	processes = orphans.Below(v.cmd.Process.Pid)
	names := fmt.Sprint(processes)
	for _, name := range []string{"postgres -D", "redis-server", "sleep 1000", "bash -c", "chrom", "victim.test", "go test"} {
		require.Contains(t, names, name)
	}
	return processes
}

// find returns the id of the process whose command line contains a text.
func find(t *testing.T, processes []orphans.Process, text string) int {
	t.Helper()
	for _, p := range processes {
		if strings.Contains(p.String(), text) {
			return p.Pid
		}
	}
	require.FailNow(t, "there is no such process", text)
	return 0
}

// requireNothingLeft waits until the processes and their shared memory are gone.
func requireNothingLeft(t *testing.T, processes []orphans.Process) {
	t.Helper()
	testrun.Eventually(t, "no process is left", func() bool {
		for _, p := range processes {
			if syscall.Kill(p.Pid, 0) == nil && p.String() != fmt.Sprintf("%d ", p.Pid) {
				return false
			}
		}
		return true
	})
	segments, err := os.ReadFile("/proc/sysvipc/shm")
	require.NoError(t, err)
	for line := range strings.Lines(string(segments)) {
		for _, p := range processes {
			require.NotEqual(t, fmt.Sprint(p.Pid), strings.Fields(line)[4], "shared memory of %s is left", p)
		}
	}
}

func TestLeftovers(t *testing.T) {
	t.Parallel()

	for name, kill := range map[string]struct {
		whom   string // empty is testtotals
		signal syscall.Signal
	}{
		"Interrupted":      {"", syscall.SIGINT},
		"TotalsKilled":     {"", syscall.SIGKILL},
		"GoTestKilled":     {"go test -json", syscall.SIGKILL},
		"TestBinaryKilled": {"victim.test", syscall.SIGKILL},
	} {
		if name != "TotalsKilled" && !testrun.Nightly() { // each starts Chromium and all servers
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			v := startVictim(t, "browse", patient)
			processes := v.started(t)
			pid := v.cmd.Process.Pid
			if kill.whom != "" {
				pid = find(t, processes, kill.whom)
			}

			require.NoError(t, syscall.Kill(pid, kill.signal))

			requireNothingLeft(t, processes)
			require.Error(t, v.cmd.Wait(), v.out.String())
		})
	}

	for name, c := range map[string]struct {
		end, limits string
		args        []string
		says        string
	}{
		"Panic":   {"panic", patient, nil, "panic: the victim ends"},
		"Timeout": {"", patient, []string{"-timeout", "1s"}, "test timed out after 1s"},
		"Hang":    {"", "1s 1h", nil, "TestVictim(0x"}, // the stack of each goroutine
		"Forget":  {"forget", patient, nil, "1 passed, 0 failed"},
		"NoMatch": {"", patient, []string{"-run", "Nonsense"}, "no test matched"},
		"Escape":  {"escape", "1h 1s", nil, "sleep 1001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			v := startVictim(t, c.end, c.limits, c.args...)

			err := v.cmd.Wait()

			require.Contains(t, v.out.String(), c.says)
			require.Equal(t, name == "Escape", strings.Contains(v.out.String(), "\nleft  "), v.out.String())
			require.Equal(t, name == "Forget", err == nil, v.out.String())
		})
	}
}
