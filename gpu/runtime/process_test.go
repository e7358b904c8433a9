package runtime_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// behaviour is an environment variable that makes this test binary a runtime with
// the given behaviour.
const behaviour = "REELAY_TEST_BEHAVIOUR"

const ready = `{"ready":{"protocol":1,"runtime":"test","models":["m"]}}`

func TestMain(m *testing.M) {
	if how := os.Getenv(behaviour); how != "" {
		behave(how)
		os.Exit(0)
	}
	testrun.Main(func() int {
		status := m.Run()
		if left := leaked(); left != "" {
			fmt.Fprintln(os.Stderr, "goroutines that outlived their process:\n"+left)
			return 1
		}
		return status
	})
}

// leaked returns the stacks of goroutines that still serve a Process after they
// had time to end.
func leaked() string {
	for deadline := time.Now().Add(5 * time.Second); ; goruntime.Gosched() {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		busy := strings.Contains(stacks.String(), "gpu/runtime.(*")
		if !busy {
			return ""
		}
		if time.Now().After(deadline) {
			return stacks.String()
		}
	}
}

// behave is a runtime that misbehaves in one way when it gets its first command.
func behave(how string) {
	if how == "serve" {
		if err := runtime.Serve(context.Background(), os.Stdin, os.Stdout, runtime.Ready{Models: runtime.Offers("m")}, model{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	switch how {
	case "never ready":
		fmt.Fprintln(os.Stderr, "still thinking")
		select {}
	case "dies at once":
		fmt.Fprintln(os.Stderr, "no such device")
		os.Exit(3)
	}
	if how == "agent" {
		beAgent()
	}
	fmt.Printf(`{"log":{"level":"info","message":"%d"}}`+"\n", os.Getpid())
	fmt.Println(ready)
	if how == "deaf" {
		select {}
	}
	commands := bufio.NewScanner(os.Stdin)
	commands.Scan()
	if line, ok := strings.CutPrefix(how, "says "); ok {
		fmt.Println(line)
	}
	progress := func(n int) string {
		return fmt.Sprintf(`{"progress":{"percent":1,"phase":"RENDERING","step":%d}}`, n)
	}
	switch how {
	case "crashes":
		fmt.Fprintln(os.Stderr, "CUDA error: device-side assert triggered")
		os.Exit(134)
	case "leaves quietly":
		os.Exit(0)
	case "half a line":
		fmt.Print(`{"result":{"vid`)
		os.Exit(0)
	case "long line":
		fmt.Println(strings.Repeat("x", 2<<20))
	case "floods":
		for n := 0; ; n++ {
			fmt.Println(progress(n))
		}
	case "much progress":
		for n := 1; n <= 3000; n++ {
			fmt.Println(progress(n))
		}
		fmt.Println(`{"result":{}}`)
		fmt.Println(`{"log":{"level":"info","message":"all said"}}`)
	case "much log":
		for n := range 3000 {
			fmt.Printf(`{"log":{"level":"info","message":"line %d %s"}}`+"\n", n, strings.Repeat("-", 100))
			fmt.Fprintln(os.Stderr, "noise")
		}
		fmt.Println(`{"result":{}}`)
	case "leaves a child":
		child := exec.Command("sleep", "1000")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Printf(`{"log":{"level":"info","message":"%d"}}`+"\n", child.Process.Pid)
		os.Exit(1)
	}
	for commands.Scan() {
	}
}

// beAgent launches a runtime that ignores its input, prints the runtime's process
// id and waits to be killed.
func beAgent() {
	self, _ := os.Executable()
	p, err := runtime.Launch(context.Background(), runtime.Config{
		Command: []string{self}, Env: append(os.Environ(), behaviour+"=deaf"),
	})
	if err != nil {
		panic(err)
	}
	fmt.Print(p.Tail())
	select {}
}

// launch starts this binary as a runtime.
func launch(t *testing.T, how string) *runtime.Process {
	t.Helper()

	p, err := runtime.Launch(t.Context(), config(t, how))
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
	})
	return p
}

func config(t *testing.T, how string) runtime.Config {
	t.Helper()

	self, err := os.Executable()
	require.NoError(t, err)
	return runtime.Config{Command: []string{self}, Env: append(os.Environ(), behaviour+"="+how)}
}

func start(t *testing.T, p *runtime.Process) {
	t.Helper()
	require.NoError(t, p.Start(runtime.Start{Job: "job_1", Model: "m", Workdir: "/work"}))
}

// rest returns all messages until the runtime has ended.
func rest(t *testing.T, p *runtime.Process) []runtime.Message {
	t.Helper()

	var all []runtime.Message
	for {
		message, open := next(t, p)
		if !open {
			return all
		}
		all = append(all, message)
	}
}

func next(t *testing.T, p *runtime.Process) (runtime.Message, bool) {
	t.Helper()

	select {
	case message, open := <-p.Messages():
		return message, open
	case <-time.After(testrun.WaitLimit):
		require.Fail(t, "no message", p.Tail())
		return nil, false
	}
}

func TestLaunch(t *testing.T) {
	t.Parallel()

	t.Run("ReturnsTheModelsOfTheRuntime", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, runtime.Offers("m"), launch(t, "serve").Announced().Models)
	})

	t.Run("FailsIfTheRuntimeIsNeverReady", func(t *testing.T) {
		t.Parallel()

		slow := config(t, "never ready")
		slow.Ready = 300 * time.Millisecond

		_, err := runtime.Launch(t.Context(), slow)

		requireCrash(t, err, "did not say ready within 300ms")
	})

	t.Run("ReportsTheLastOutputOfARuntimeThatDies", func(t *testing.T) {
		t.Parallel()

		_, err := runtime.Launch(t.Context(), config(t, "dies at once"))

		requireCrash(t, err, "(exit status 3) while it was starting. Output: no such device")
	})

	t.Run("ReportsAMissingProgram", func(t *testing.T) {
		t.Parallel()

		_, err := runtime.Launch(t.Context(), runtime.Config{Command: []string{"/no/such/program"}})

		requireCrash(t, err, "could not be started")
	})

	t.Run("EndsWhenItsContextEnds", func(t *testing.T) {
		t.Parallel()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		_, err := runtime.Launch(ctx, config(t, "never ready"))

		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestProcess(t *testing.T) {
	t.Parallel()

	t.Run("FailsWithWhatTheRuntimeDidWrong", func(t *testing.T) {
		t.Parallel()

		for how, want := range map[string]string{
			"crashes":                       "(exit status 134) while it was doing a job. Output: CUDA error: device-side assert triggered",
			"leaves quietly":                "(exit status 0) while it was doing a job",
			"half a line":                   "(exit status 0) while it was doing a job",
			"long line":                     "a line is longer than 1048576 bytes",
			"floods":                        "floods stdout",
			"says hello":                    "it is not a JSON object",
			"says []":                       "it is not a JSON object",
			"says {}":                       "it has 0 keys",
			`says {"sing":{}}`:              `there is no message "sing"`,
			`says {"log":null}`:             `the value of "log" is not an object`,
			`says {"log":{"level":"loud"}}`: `level is "loud"`,
			"says " + ready:                 "it sent ready while it was doing a job",
			`says {"loaded":{"model":"m"}}`: "it sent loaded while it was doing a job",
			`says {"cancelled":{}}`:         "no cancel was requested",
			`says {"progress":{"percent":1e999,"phase":"RENDERING"}}`:                                             "progress:",
			`says {"progress":{"percent":101,"phase":"RENDERING"}}`:                                               "percent is 101",
			`says {"progress":{"percent":1,"phase":"DONE"}}`:                                                      `phase is "DONE"`,
			`says {"error":{"class":"PREEMPTED","message":"x"}}`:                                                  `class is "PREEMPTED"`,
			`says {"error":{"class":"TRANSIENT","message":"x","detail":"` + strings.Repeat("x", 16<<10+1) + `"}}`: `a detail of 16385 bytes`,
			`says {"checkpoint":{"path":"/etc/passwd"}}`:                                                          "is not in the job's workdir",
			`says {"result":{"video":"/work/../etc/passwd"}}`:                                                     "is not in the job's workdir",
			`says {"resumed":{"path":"/work/x","step":1}}`:                                                        `the job was not given a checkpoint "/work/x"`,
		} {
			t.Run(how[:min(40, len(how))], func(t *testing.T) {
				t.Parallel()

				p := launch(t, how)
				start(t, p)

				rest(t, p)

				requireCrash(t, p.Wait(), want)
			})
		}
	})

	t.Run("KeepsTheNewestProgressForASlowReader", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "much progress")
		start(t, p)
		// The runtime sends more than the pipe and the mailbox can hold.
		allSaid := func() bool { return strings.Contains(p.Tail(), "all said") }
		testrun.Eventually(t, "everything is said", allSaid)

		var steps []int
		message, _ := next(t, p)
		for progress, ok := message.(*runtime.Progress); ok; progress, ok = message.(*runtime.Progress) {
			steps = append(steps, progress.Step)
			message, _ = next(t, p)
		}

		require.IsType(t, &runtime.Result{}, message)
		require.LessOrEqual(t, len(steps), 2, "the one being delivered and the newest")
		require.Equal(t, 3000, steps[len(steps)-1])
	})

	t.Run("KeepsOnlyTheEndOfTheLogAndStandardError", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "much log")
		start(t, p)
		_, open := next(t, p)
		require.True(t, open)

		tail := p.Tail()

		require.LessOrEqual(t, len(tail), 65<<10)
		require.Regexp(t, `^\[\d+ earlier bytes were dropped\]`, tail)
		require.Contains(t, tail, "info: line 2999")
		_, kept, _ := strings.Cut(tail, "\n")
		require.Regexp(t, `^(info: line \d|noise)`, kept, "a cut line must be dropped")
	})

	t.Run("KillsTheProcessesThatTheRuntimeLeftBehind", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "leaves a child")
		start(t, p)
		rest(t, p)
		requireCrash(t, p.Wait(), "exit status 1")

		left := pid(t, p.Tail()[strings.LastIndex(p.Tail(), "info: "):])
		testrun.Eventually(t, "the left process ends", func() bool { return gone(left) })
	})

	t.Run("DiesWhenItsAgentIsKilled", func(t *testing.T) {
		t.Parallel()
		if goruntime.GOOS != "linux" {
			t.Skip("only Linux kills a child that ignores its input")
		}

		agent := exec.Command(config(t, "").Command[0])
		agent.Env = append(os.Environ(), behaviour+"=agent")
		out, err := agent.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, agent.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		child := pid(t, line)
		require.False(t, gone(child))

		require.NoError(t, agent.Process.Kill())
		_ = agent.Wait()

		testrun.Eventually(t, "the child ends", func() bool { return gone(child) })
	})

	t.Run("RefusesASecondJob", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "hangs")
		start(t, p)

		require.ErrorContains(t, p.Start(runtime.Start{Job: "job_2", Workdir: "/work"}), "the runtime is doing a job")
		require.ErrorContains(t, p.Load(runtime.Model{Name: "m"}), "the runtime is doing a job")
	})

	t.Run("FailsIfTheRuntimeDoesNotReadACommand", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "deaf")

		err := p.Start(runtime.Start{Job: "job_1", Workdir: "/work", Prompt: strings.Repeat("x", 1<<20)})

		requireCrash(t, err, "did not read a command for 10s")
		requireCrash(t, p.Wait(), "did not read a command for 10s")
	})
}

func TestShutdown(t *testing.T) {
	t.Parallel()

	t.Run("EndsARuntimeCleanly", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "serve")

		require.NoError(t, p.Shutdown(t.Context()))
		rest(t, p)
	})

	t.Run("KillsARuntimeThatDoesNotEnd", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "deaf")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()

		require.NoError(t, p.Shutdown(ctx))
	})
}

func requireCrash(t *testing.T, err error, message string) {
	t.Helper()

	failure, ok := errors.AsType[*runtime.Failure](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, runtime.ModelCrash, failure.Class)
	require.Contains(t, failure.Message, message)
}

// pid reads the process id that a runtime has logged.
func pid(t *testing.T, line string) int {
	t.Helper()

	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "info: ")))
	require.NoError(t, err)
	return n
}

// gone reports whether a process has ended; a zombie counts as ended.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		return strings.Contains(string(stat), ") Z ")
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
