package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/command"
	"github.com/reelay/reelay/gpu/runtimes/stitch"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// asRuntime is an environment variable that makes this test binary the runtime.
const asRuntime = "REELAY_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:min(3, len(os.Args))], []string{"runtime", "stitch"}) { // as {reelay} has it
		if stitch.Main(context.Background(), os.Args[3], os.Stdout) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if slices.Equal(os.Args[1:min(3, len(os.Args))], []string{"runtime", "thumbnail"}) {
		if stitch.Thumbnail(context.Background(), os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Stderr) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(asRuntime) != "" {
		if err := command.Run(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testrun.Main(m.Run)
}

func launch(t *testing.T) *runtime.Process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := runtime.Launch(t.Context(), runtime.Config{
		Command: []string{self}, Env: append(os.Environ(), asRuntime+"=1", "WORKER_TOKEN=tiger"),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testrun.WaitLimit)
		defer cancel()
		require.NoError(t, p.Shutdown(ctx))
	})
	return p
}

// job is a job of a model with these settings.
func job(t *testing.T, settings, params string) runtime.Start {
	t.Helper()
	return runtime.Start{
		Job: "job_1", Model: "tool", Type: "tool.run", Version: 1, Settings: json.RawMessage(settings),
		Params: json.RawMessage(params), Prompt: "a calm sea", Workdir: t.TempDir(),
	}
}

// script is a program that a shell reads: the shell is the program of the test.
func script(text, rest string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"program": ["sh", "-c", %s, "sh", ["{params.text}"]]%s}`, quoted, rest)
}

// logged waits until a text is in the log, which takes another way than the messages.
func logged(t *testing.T, p *runtime.Process, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.Tail(), text) }, testrun.WaitLimit, time.Millisecond, text)
}

// next returns the next message, of any type but Log.
func next(t *testing.T, p *runtime.Process) runtime.Message {
	t.Helper()
	select {
	case message, open := <-p.Messages():
		require.True(t, open, "the runtime ended: %s", p.Tail())
		return message
	case <-time.After(testrun.WaitLimit):
		require.Fail(t, "the runtime says nothing more", p.Tail())
	}
	return nil
}

// do runs a job and returns all of its messages.
func do(t *testing.T, p *runtime.Process, start runtime.Start) (all []runtime.Message) {
	t.Helper()
	require.NoError(t, p.Start(start))
	for {
		all = append(all, next(t, p))
		switch all[len(all)-1].(type) {
		case *runtime.Result, *runtime.Failure, *runtime.Cancelled:
			return all
		}
	}
}

// end runs a job and returns its last message.
func end[M runtime.Message](t *testing.T, p *runtime.Process, start runtime.Start) M {
	t.Helper()
	all := do(t, p, start)
	last, ok := all[len(all)-1].(M)
	require.True(t, ok, "%#v", all[len(all)-1])
	return last
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("CollectsTheFilesOfAProgram", func(t *testing.T) {
		t.Parallel()
		p := launch(t)
		start := job(t, script(`printf video >out.mp4; printf '{"said": "%s"}' "$1" >o.json`,
			`, "outputs": {"video": "out.mp4", "output": "o.json"}`), `{"text": "a b; rm -rf $HOME"}`)
		require.NoError(t, os.WriteFile(filepath.Join(start.Workdir, "out.mp4"), []byte("of an earlier attempt"), 0o600))

		result := end[*runtime.Result](t, p, start)

		require.Equal(t, filepath.Join(start.Workdir, "out.mp4"), result.Video)
		data, err := os.ReadFile(result.Video)
		require.NoError(t, err)
		require.Equal(t, "video", string(data))
		require.JSONEq(t, `{"said": "a b; rm -rf $HOME"}`, string(result.Output))
	})

	t.Run("GivesTheJobAndACleanEnvironment", func(t *testing.T) {
		t.Parallel()
		p := launch(t)
		start := job(t, `{"program": ["sh", "-c", "cat \"$1\" >o.json; env >env.json; env | grep -c . >&2; echo \"$PWD $HOME\" >&2; exit 3", "sh", "{job}"],
			"env": {"TOKEN": "{env.WORKER_TOKEN}"}, "successExitCodes": [3], "outputs": {"output": "o.json"}}`, `{"n": 1.50, "list": [1]}`)
		start.Inputs = map[string]string{"clips.0": "/x"}

		result := end[*runtime.Result](t, p, start)

		var given map[string]any
		require.NoError(t, json.Unmarshal(result.Output, &given))
		require.Equal(t, "a calm sea", given["prompt"])
		require.Equal(t, map[string]any{"n": 1.5, "list": []any{1.0}}, given["params"])
		require.Equal(t, map[string]any{"clips.0": "/x"}, given["inputs"])
		env, err := os.ReadFile(filepath.Join(start.Workdir, "env.json"))
		require.NoError(t, err)
		require.Contains(t, string(env), "TOKEN=tiger")
		require.NotContains(t, string(env), "WORKER_TOKEN")
		require.NotContains(t, string(env), asRuntime)
		logged(t, p, start.Workdir+" "+start.Workdir)
	})

	t.Run("ReportsProgressByAnExpression", func(t *testing.T) {
		t.Parallel()
		p := launch(t)
		start := job(t, script(`printf 'a\rframe 1 of 4: go\rnoise\n'; while [ ! -e go ]; do echo 'frame 3 of 4:' >&2; sleep 0.01; done`,
			`, "progress": {"regexp": "frame (?P<step>[0-9]+) of (?P<total>[0-9]+):(?P<message>.*)"}`), `{}`)
		require.NoError(t, p.Start(start))
		var last *runtime.Progress
		for last == nil || last.Step != 3 {
			last = next(t, p).(*runtime.Progress)
		}
		require.NoError(t, os.WriteFile(filepath.Join(start.Workdir, "go"), nil, 0o600))

		require.Equal(t, runtime.Progress{Percent: 75, Phase: runtime.PhaseRendering, Message: last.Message, Step: 3, TotalSteps: 4}, *last)
		logged(t, p, "noise")
	})

	t.Run("ReportsProgressByJSONLines", func(t *testing.T) {
		t.Parallel()
		p := launch(t)
		all := do(t, p, job(t, script(`echo '{"percent": 250, "phase": "ENCODING", "message": "half"}'; echo '{broken'; echo text`,
			`, "progress": {"jsonLines": true}`), `{}`))

		require.IsType(t, &runtime.Result{}, all[len(all)-1])
		require.Equal(t, runtime.Progress{Percent: 100, Phase: runtime.PhaseEncoding, Message: "half"}, *all[len(all)-2].(*runtime.Progress))
		logged(t, p, "{broken\ntext")
	})

	t.Run("HasNoCheckpoints", func(t *testing.T) {
		t.Parallel()
		p := launch(t)
		require.NoError(t, p.Start(job(t, script(`while [ ! -e go ]; do sleep 0.01; done`, ""), `{}`)))
		require.IsType(t, &runtime.Progress{}, next(t, p))

		require.NoError(t, p.Checkpoint())

		require.Equal(t, &runtime.Checkpoint{}, next(t, p))
		require.NoError(t, p.Cancel(false))
		require.IsType(t, &runtime.Cancelled{}, next(t, p))
	})
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(state), ") Z ") && syscall.Kill(pid, 0) == nil
}

// pids waits for a file with n process ids.
func pids(t *testing.T, path string, n int) (all []int) {
	t.Helper()
	require.Eventually(t, func() bool {
		data, _ := os.ReadFile(path)
		return len(strings.Fields(string(data))) == n && strings.HasSuffix(string(data), "\n")
	}, testrun.WaitLimit, 5*time.Millisecond)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, text := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		all = append(all, pid)
	}
	return all
}

func TestStop(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system has no /proc")
	}

	for name, text := range map[string]string{
		"EndsAProgramAndWhatItStarted":         `sleep 1000 & echo $$ $! >pids; wait`,
		"EndsOneThatIgnoresSIGTERM":            `trap "" TERM; sleep 1000 & echo $$ $! >pids; wait; sleep 1000`,
		"EndsWhatASuccessfulProgramLeft":       `sleep 1000 & echo $$ $! >pids`,
		"EndsWhatKeepsTheOutputOfAnEndedOneOn": `sleep 1000 >&2 & echo $$ $! >pids; exit 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := launch(t)
			start := job(t, script(text, ""), `{}`)
			require.NoError(t, p.Start(start))
			started := pids(t, filepath.Join(start.Workdir, "pids"), 2)
			if strings.Contains(text, "wait") {
				require.NoError(t, p.Cancel(false))
			}
			for {
				if _, progress := next(t, p).(*runtime.Progress); !progress {
					break
				}
			}
			for _, pid := range started {
				require.Eventually(t, func() bool { return !alive(pid) }, testrun.WaitLimit, 5*time.Millisecond)
			}
		})
	}

	t.Run("EndsTheProgramWithTheRuntime", func(t *testing.T) {
		t.Parallel()
		self, err := os.Executable()
		require.NoError(t, err)
		p, err := runtime.Launch(t.Context(), runtime.Config{Command: []string{self}, Env: append(os.Environ(), asRuntime+"=1")})
		require.NoError(t, err)
		start := job(t, script(`echo $$ >pids; exec sleep 1000`, ""), `{}`)
		require.NoError(t, p.Start(start))
		started := pids(t, filepath.Join(start.Workdir, "pids"), 1)

		p.Kill()

		require.Eventually(t, func() bool { return !alive(started[0]) }, testrun.WaitLimit, 5*time.Millisecond)
	})
}

func TestFailure(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		settings, params string
		class            runtime.FailureClass
		says             string
	}{
		"invalid settings":  {`{"program": []}`, `{}`, runtime.InvalidInput, "settings of the model tool are invalid"},
		"a missing program": {`{"program": ["reelay-none"], "install": "Install none."}`, `{}`, runtime.Transient, "Install none."},
		"a missing value":   {`{"program": ["true", "{params.gone}"]}`, `{}`, runtime.InvalidInput, "{params.gone} has no value"},
		"a missing variable": {`{"program": ["true"], "env": {"A": "{env.REELAY_NONE}"}}`, `{}`, runtime.ModelCrash,
			"no variable REELAY_NONE"},
		"an option": {`{"program": ["ls", "{params.text}"]}`, `{"text": "--help"}`, runtime.InvalidInput, "hyphen"},
		"a status":  {script(`echo broken >&2; exit 7`, ""), `{}`, runtime.ModelCrash, "ended with the status 7: broken"},
		"a signal":  {script(`kill -SEGV $$`, ""), `{}`, runtime.ModelCrash, "signal segmentation fault"},
		"no file": {script(`exit 0`, `, "outputs": {"video": "a.mp4"}`), `{}`, runtime.ModelCrash,
			"without writing the video to a.mp4"},
		"a link instead of a file": {script(`ln -s /etc/passwd a.mp4`, `, "outputs": {"video": "a.mp4"}`), `{}`, runtime.ModelCrash,
			"without writing"},
		"an output that is no JSON": {script(`echo x >a.json`, `, "outputs": {"output": "a.json"}`), `{}`, runtime.InvalidInput,
			"is not JSON: it must write one JSON value to a.json"},
		"an output that is too big": {script(`head -c 300000 /dev/zero | tr '\0' 1 >a.json`, `, "outputs": {"output": "a.json"}`), `{}`,
			runtime.InvalidInput, "an output of more than 262144 bytes"},
		"a limit": {script(`sleep 1000`, `, "timeoutSeconds": 0.05`), `{}`, runtime.Timeout, "limit of 50ms"},
		"a rule for a status": {script(`exit 9`,
			`, "errors": [{"exitCode": 8, "class": "TIMEOUT"}, {"exitCode": 9, "class": "RATE_LIMITED", "message": "Full."}]`), `{}`,
			runtime.RateLimited, "Full."},
		"a rule for a line": {script(`echo ok; echo no such codec; echo bye; exit 1`,
			`, "errors": [{"regexp": "no such", "class": "INVALID_INPUT"}]`), `{}`, runtime.InvalidInput, "no such codec"},
		"a rule for a missing file": {script(`exit 0`,
			`, "outputs": {"video": "a.mp4"}, "errors": [{"exitCode": 0, "class": "INVALID_INPUT", "message": "Empty."}]`), `{}`,
			runtime.InvalidInput, "Empty."},
		"the program's own report": {script(`echo '{"error": {"class": "CONTENT_POLICY", "message": "Not this."}}'; exit 1`,
			`, "progress": {"jsonLines": true}`), `{}`,
			runtime.ContentPolicy, "Not this."},
		"a report of no known class": {script(`echo '{"error": {"class": "BAD", "message": "Why."}}'; exit 1`,
			`, "progress": {"jsonLines": true}`), `{}`, runtime.ModelCrash, "Why."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			failure := end[*runtime.Failure](t, launch(t), job(t, c.settings, c.params))

			require.Equal(t, c.class, failure.Class)
			require.Contains(t, failure.Message, c.says)
		})
	}

	t.Run("IsBounded", func(t *testing.T) {
		t.Parallel()
		p := launch(t)

		failure := end[*runtime.Failure](t, p,
			job(t, script(`yes 1234567890123456789 | head -c 9000000; yes | tr -d '\n' | head -c 900000; exit 1`, ""), `{}`))

		require.LessOrEqual(t, len(failure.Message), 2000)
		require.LessOrEqual(t, len(failure.Detail), 16<<10)
	})
}
