package remote_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/cog"
	"github.com/reelay/reelay/gpu/runtimes/remote/comfyui"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/videosapi"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	testrun.AtOnce(12) // most of the time they wait for an engine
	testrun.Main(m.Run)
}

// fake is what the fakes of all kinds have.
type fake interface {
	Fault(pattern string, nth int, fault enginetest.Fault)
	NoFaults()
	Calls() []string
	Kill()
	Restart()
	Step()
	Run(tick time.Duration)
	Stall(stalled bool)
	IgnoreCancels()
	Films(film func(id string, film []byte) []byte)
	Renders(id string) int
	AllRenders() int
	Idle() bool
}

// kind is what a test must know of a kind of engines.
type kind struct {
	name, runtime string
	start         func(t *testing.T) (fake, string)
	open          func(remote.Target) remote.Engine
	settings      string
	// calls are the calls that a job makes: the look before it, the submit, the polls, the fetch.
	health, submit, poll, fetch string
	more                        []string // others
	cancel                      string   // the call that stops a running job; "" if the engine cannot
}

const comfySettings = `{"output": "3",
	"inputs": {"prompt": "1.prompt", "steps": "1.steps", "failAt": "1.fail_at", "seed": "1.seed"}, "graph": {
	"1": {"class_type": "SlowFrames", "inputs": {"frames": 8, "step_seconds": 0.1, "steps": 5, "seed": 1, "fail_at": -1, "prompt": ""}},
	"2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 8}},
	"3": {"class_type": "SaveVideo", "inputs": {"video": ["2", 0], "filename_prefix": "video", "format": "mp4", "codec": "h264"}}}}`

var kinds = []kind{
	{
		name: "comfyui", runtime: "comfyui",
		start:    func(t *testing.T) (fake, string) { f := enginetest.NewComfyUI(t); return f, f.URL },
		open:     func(target remote.Target) remote.Engine { return comfyui.New(target) },
		settings: comfySettings,
		health:   "GET /prompt", submit: "POST /prompt", poll: "GET /history/{id}", fetch: "GET /view",
		more: []string{"GET /system_stats", "GET /queue"}, cancel: "POST /interrupt",
	},
	{
		name: "vllm-omni", runtime: "videos-api",
		start: func(t *testing.T) (fake, string) {
			f := enginetest.NewVideosAPI(t, enginetest.VLLMOmni())
			return f, f.URL
		},
		open:     func(target remote.Target) remote.Engine { return videosapi.New(target) },
		settings: `{"profile": "vllm-omni"}`,
		health:   "GET /health", submit: "POST /v1/videos", poll: "GET /v1/videos/{id}", fetch: "GET /v1/videos/{id}/content",
		more: []string{"GET /v1/models", "GET /v1/videos"}, cancel: "DELETE /v1/videos/{id}",
	},
	{
		name: "sglang", runtime: "videos-api",
		start: func(t *testing.T) (fake, string) {
			f := enginetest.NewVideosAPI(t, enginetest.SGLang())
			return f, f.URL
		},
		open:     func(target remote.Target) remote.Engine { return videosapi.New(target) },
		settings: `{"profile": "sglang"}`,
		health:   "GET /v1/models", submit: "POST /v1/videos", poll: "GET /v1/videos/{id}", fetch: "GET /v1/videos/{id}/content",
		more: []string{"GET /health", "GET /v1/videos"},
	},
	{
		name: "cog", runtime: "cog",
		start:  func(t *testing.T) (fake, string) { f := enginetest.NewCog(t); return f, f.URL },
		open:   func(target remote.Target) remote.Engine { return cog.New(target) },
		health: "GET /health-check", submit: "PUT /predictions/{id}", poll: "GET /health-check",
		cancel: "POST /predictions/{id}/cancel",
	},
	{
		name: "newer comfyui", runtime: "comfyui",
		start: func(t *testing.T) (fake, string) {
			f := enginetest.NewComfyUI(t)
			f.Newer(true)
			return f, f.URL
		},
		open:     func(target remote.Target) remote.Engine { return comfyui.New(target) },
		settings: comfySettings,
		health:   "GET /prompt", submit: "POST /prompt", poll: "GET /api/jobs/{id}", fetch: "GET /view",
		more: []string{"GET /system_stats"}, cancel: "POST /api/jobs/{id}/cancel",
	},
}

// each runs a test with each kind.
func each(t *testing.T, test func(t *testing.T, k kind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// patience is how long an engine may be silent in these tests.
const patience = 20 * time.Second

// agent starts an agent of engines of the kind.
func (k kind) agent(t *testing.T, urls ...string) *remotetest.Agent {
	t.Helper()
	return remotetest.New(t, k.runtime, urls, func(url string) remote.Engine {
		return k.open(remote.Target{URL: url, Limit: time.Second})
	}, patience)
}

// setUp lets the engine finish its setup, if the kind has one.
func (k kind) setUp(engine fake) {
	if k.runtime == "cog" {
		engine.Step()
	}
}

// begin starts a job on an engine and waits until it was submitted.
func (k kind) begin(t *testing.T, engine fake, url string) (a *remotetest.Agent, handle string) {
	t.Helper()
	a = k.agent(t, url)
	a.Start(k.job("job_1"))
	k.setUp(engine)
	return a, a.Handle(submitted)
}

func (k kind) job(id string) runtime.Start {
	start := runtime.Start{Job: id, Model: "m", Type: "video.generate", Prompt: "a boat",
		Params: json.RawMessage(`{"steps": 5, "seed": ` + id[len(id)-1:] + `}`)}
	if k.settings != "" {
		start.Settings = json.RawMessage(k.settings)
	}
	return start
}

// refOf returns the engine's name of the work of a handle, or "".
func refOf(handle string) string {
	var h struct{ Ref string }
	_ = json.Unmarshal([]byte(handle), &h)
	return h.Ref
}

func submitted(handle string) bool { return refOf(handle) != "" }

// filmOf returns the id of the work whose film a result is.
func filmOf(t *testing.T, end remotetest.Said) string {
	t.Helper()
	require.NotNil(t, end.Result, "%+v", end.Failure)
	film, err := os.ReadFile(end.Result.Video)
	require.NoError(t, err)
	return enginetest.FilmID(t, film)
}

func TestWorkIsAdopted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		t.Run("AfterTheSubmitWasAnswered", func(t *testing.T) {
			t.Parallel()
			if k.runtime == "cog" {
				t.Skip("Cog tells the result once, to the process that asked for it")
			}
			engine, url := k.start(t)
			a := k.agent(t, url)
			job := k.job("job_1")
			a.Start(job)
			job.Handle = a.Handle(submitted)
			a.Kill()
			engine.Run(10 * time.Millisecond)
			b := k.agent(t, url)
			b.Start(job)
			require.Equal(t, refOf(job.Handle), filmOf(t, b.End()))
			require.Equal(t, 1, engine.AllRenders())
		})

		t.Run("AfterTheSubmitWasNotAnswered", func(t *testing.T) {
			t.Parallel()
			if k.runtime == "cog" {
				t.Skip("Cog tells the result once, to the process that asked for it")
			}
			engine, url := k.start(t)
			reached := make(chan struct{})
			engine.Fault(k.submit, 1, func(c *enginetest.Call) { enginetest.LoseAnswer(c) })
			engine.Fault(k.poll, 0, func(c *enginetest.Call) { enginetest.Hang(c) })
			close(reached)
			a := k.agent(t, url)
			job := k.job("job_1")
			a.Start(job)
			job.Handle = a.Handle(func(value string) bool { return value != "" })
			testrun.Eventually(t, "that the engine has the job", func() bool { return !engine.Idle() })
			a.Kill()
			engine.NoFaults()
			engine.Run(10 * time.Millisecond)
			b := k.agent(t, url)
			b.Start(job)
			require.Equal(t, refOf(b.Handle(submitted)), filmOf(t, b.End()))
			require.Equal(t, 1, engine.AllRenders())
		})

		t.Run("FromAnotherEngineOfThePool", func(t *testing.T) {
			t.Parallel()
			if k.runtime == "cog" {
				t.Skip("Cog tells the result once, to the process that asked for it")
			}
			engine, url := k.start(t)
			other, otherURL := k.start(t)
			a := k.agent(t, url)
			job := k.job("job_1")
			a.Start(job)
			job.Handle = a.Handle(submitted)
			a.Kill()
			engine.Run(10 * time.Millisecond)
			b := k.agent(t, otherURL, url)
			b.Start(job)
			require.Equal(t, refOf(job.Handle), filmOf(t, b.End()))
			require.Zero(t, other.AllRenders())
		})

		t.Run("OrStartsAgainIfTheOtherEngineStaysAway", func(t *testing.T) {
			t.Parallel()
			engine, url := k.start(t)
			other, otherURL := k.start(t)
			a := k.agent(t, url)
			job := k.job("job_1")
			a.Start(job)
			k.setUp(engine)
			job.Handle = a.Handle(submitted)
			a.Kill()
			engine.Kill()
			other.Run(10 * time.Millisecond)
			b := k.agent(t, otherURL, url)
			b.Start(job)
			require.NotEqual(t, refOf(job.Handle), filmOf(t, b.End()))
			require.Equal(t, 1, other.AllRenders())
		})
	})
}

func TestRestartOfTheEngine(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		t.Run("StartsTheJobAgain", func(t *testing.T) {
			t.Parallel()
			engine, url := k.start(t)
			engine.Run(20 * time.Millisecond)
			a := k.agent(t, url)
			a.Start(k.job("job_1"))
			first := a.Handle(submitted)
			engine.Restart()
			require.NotEqual(t, refOf(first), filmOf(t, a.End()))
		})

		t.Run("ThriceSuspectsTheJob", func(t *testing.T) {
			t.Parallel()
			engine, url := k.start(t)
			a := k.agent(t, url)
			a.Start(k.job("job_1"))
			last := ""
			for range 3 {
				k.setUp(engine)
				last = a.Handle(func(value string) bool { return submitted(value) && value != last })
				engine.Restart()
			}
			if k.runtime == "cog" {
				engine.Step()
			}
			end := a.End()
			require.NotNil(t, end.Failure)
			require.Equal(t, runtime.ModelCrash, end.Failure.Class)
			require.Contains(t, end.Failure.Message, "lost the work 3 times")
			require.Empty(t, a.LastHandle())
		})
	})

	t.Run("AdoptsAFinishedFileOfComfyUI", func(t *testing.T) {
		t.Parallel()
		k := kinds[0]
		engine, url := k.start(t)
		engine.Run(10 * time.Millisecond)
		a := k.agent(t, url)
		engine.Fault(k.poll, 0, enginetest.Hang)
		job := k.job("job_1")
		a.Start(job)
		job.Handle = a.Handle(submitted)
		testrun.Eventually(t, "the render", func() bool { return engine.AllRenders() == 1 && engine.Idle() })
		engine.Restart()
		engine.NoFaults()
		require.Equal(t, refOf(job.Handle), filmOf(t, a.End()))
		require.Equal(t, 1, engine.AllRenders())
	})

	t.Run("DoesNotAdoptAHalfFile", func(t *testing.T) {
		t.Parallel()
		k := kinds[0]
		engine, url := k.start(t)
		engine.Run(10 * time.Millisecond)
		whole := true
		engine.Films(func(_ string, film []byte) []byte {
			if whole {
				whole = false
				return film[:len(film)/2]
			}
			return film
		})
		engine.Fault(k.poll, 0, enginetest.Hang)
		a := k.agent(t, url)
		a.Start(k.job("job_1"))
		first := a.Handle(submitted)
		testrun.Eventually(t, "the render", func() bool { return engine.AllRenders() == 1 && engine.Idle() })
		engine.Restart()
		engine.NoFaults()
		require.NotEqual(t, refOf(first), filmOf(t, a.End()))
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		t.Run("StopsTheEngineOrSaysThatItComputesOn", func(t *testing.T) {
			t.Parallel()
			engine, url := k.start(t)
			a, _ := k.begin(t, engine, url)
			a.Cancel(false)
			require.True(t, a.End().Cancelled)
			require.Equal(t, k.cancel != "", engine.Idle())
		})

		t.Run("SendsNoOtherJobUntilTheEngineIsIdle", func(t *testing.T) {
			t.Parallel()
			engine, url := k.start(t)
			engine.IgnoreCancels()
			a, handle := k.begin(t, engine, url)
			first := refOf(handle)
			a.Cancel(false)
			require.True(t, a.End().Cancelled)
			a.Start(k.job("job_2"))
			if k.name != "vllm-omni" { // whose list forgets what it could not abort
				a.Await(func(s remotetest.Said) bool {
					return s.Progress != nil && s.Progress.Message == "waiting for the engine"
				})
			}
			engine.Run(10 * time.Millisecond)
			require.NotEqual(t, first, filmOf(t, a.End()))
		})

		t.Run("LeavesWorkThatMoves", func(t *testing.T) {
			t.Parallel()
			engine, url := k.start(t)
			a, _ := k.begin(t, engine, url)
			a.Cancel(true)
			require.True(t, a.End().Cancelled)
			require.False(t, engine.Idle())
		})
	})
}

func TestTwoAgentsOfOneEngine(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		engine, url := k.start(t)
		engine.Run(20 * time.Millisecond)
		a, b := k.agent(t, url), k.agent(t, url)
		a.Start(k.job("job_1"))
		first := refOf(a.Handle(submitted))
		b.Start(k.job("job_2"))
		require.Equal(t, first, filmOf(t, a.End()))
		second := filmOf(t, b.End())
		require.NotEqual(t, first, second)
		require.Equal(t, 2, engine.AllRenders())
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		kind   kind
		prompt string
		params string
		class  runtime.FailureClass
		says   string
	}{
		{kinds[0], "a boat", `{"failAt": 2}`, runtime.ModelCrash, "node"},
		{kinds[0], "a boat", `{"steps": 100000}`, runtime.InvalidInput, "bigger than max"},
		{kinds[1], "boom", `{}`, runtime.OutOfMemory, "out of memory"},
		{kinds[1], "a boat", `{"durationSeconds": 0.5}`, runtime.InvalidInput, "seconds"},
	} {
		t.Run(fmt.Sprint(c.kind.name, i), func(t *testing.T) {
			t.Parallel()
			engine, url := c.kind.start(t)
			engine.Run(10 * time.Millisecond)
			a := c.kind.agent(t, url)
			job := c.kind.job("job_1")
			job.Prompt, job.Params = c.prompt, json.RawMessage(c.params)
			a.Start(job)
			end := a.End()
			require.NotNil(t, end.Failure)
			require.Equal(t, c.class, end.Failure.Class, "%+v", end.Failure)
			require.Contains(t, end.Failure.Message, c.says)
		})
	}
}
