package testcard_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/testcard"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// asRuntime is an environment variable that makes this test binary a testcard.
const asRuntime = "REELAY_TEST_AS_TESTCARD"

func TestMain(m *testing.M) {
	if os.Getenv(asRuntime) != "" {
		if err := testcard.Run(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testrun.Main(m.Run)
}

// launch starts a testcard; env are additions to its environment.
func launch(t *testing.T, env ...string) *runtime.Process {
	t.Helper()

	self, err := os.Executable()
	require.NoError(t, err)
	p, err := runtime.Launch(t.Context(), runtime.Config{
		Command: []string{self},
		Env:     append(append(os.Environ(), asRuntime+"=1"), env...),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testrun.WaitLimit)
		defer cancel()
		require.NoError(t, p.Shutdown(ctx))
	})
	return p
}

func newJob(t *testing.T, prompt, params string) runtime.Start {
	t.Helper()
	return runtime.Start{
		Job: "job_1", Model: testcard.Name, Type: "video.generate",
		Prompt: prompt, Params: []byte(params), Workdir: t.TempDir(),
	}
}

// until reads and returns messages up to the first for which stop is true.
func until(t *testing.T, p *runtime.Process, stop func(runtime.Message) bool) []runtime.Message {
	t.Helper()

	limit := time.After(testrun.WaitLimit)
	var all []runtime.Message
	for {
		select {
		case message, open := <-p.Messages():
			if !open {
				require.NoError(t, p.Wait())
				require.Fail(t, "the messages ended early")
			}
			all = append(all, message)
			if stop(message) {
				return all
			}
		case <-limit:
			require.Fail(t, "the runtime says nothing more", "%v\n%s", all, p.Tail())
		}
	}
}

func isEnd(message runtime.Message) bool {
	switch message.(type) {
	case *runtime.Result, *runtime.Failure, *runtime.Cancelled:
		return true
	}
	return false
}

func last(messages []runtime.Message) runtime.Message { return messages[len(messages)-1] }

// one returns the only message of type M.
func one[M runtime.Message](t *testing.T, messages []runtime.Message) M {
	t.Helper()

	var found []M
	for _, message := range messages {
		if m, ok := message.(M); ok {
			found = append(found, m)
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

// render runs a job to its end.
func render(t *testing.T, p *runtime.Process, job runtime.Start) *runtime.Result {
	t.Helper()

	require.NoError(t, p.Start(job))
	result := last(until(t, p, isEnd))
	require.IsType(t, &runtime.Result{}, result)
	return result.(*runtime.Result)
}

// frames returns the SHA-256 of a video's decoded frames.
func frames(t *testing.T, video string) string {
	t.Helper()

	decode := exec.Command("ffmpeg", "-v", "error", "-i", video, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-")
	hash := sha256.New()
	decode.Stdout = hash
	require.NoError(t, decode.Run())
	return hex.EncodeToString(hash.Sum(nil))
}

// step matches progress at denoising step n or later.
func step(n int) func(runtime.Message) bool {
	return func(message runtime.Message) bool {
		p, ok := message.(*runtime.Progress)
		return isEnd(message) || ok && p.Phase == runtime.PhaseRendering && p.Step >= n
	}
}

// encoding matches progress of the encoder.
func encoding(message runtime.Message) bool {
	p, ok := message.(*runtime.Progress)
	return isEnd(message) || ok && p.Phase == runtime.PhaseEncoding
}

func isCheckpoint(message runtime.Message) bool {
	_, ok := message.(*runtime.Checkpoint)
	return ok || isEnd(message)
}

// checkpoint asks for a checkpoint and returns it.
func checkpoint(t *testing.T, p *runtime.Process) *runtime.Checkpoint {
	t.Helper()

	require.NoError(t, p.Checkpoint())
	return one[*runtime.Checkpoint](t, until(t, p, isCheckpoint))
}
