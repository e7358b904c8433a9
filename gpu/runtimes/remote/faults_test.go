package remote_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// rude are the faults of one call that a job survives.
var rude = map[string]enginetest.Fault{
	"Hang": enginetest.Hang, "HTML": enginetest.HTML, "ErrorWith200": enginetest.ErrorWith200, "Endless": enginetest.Endless,
	"500": enginetest.Status(http.StatusInternalServerError, "broken"), "503": enginetest.Status(http.StatusServiceUnavailable, "busy"),
	"Cut": enginetest.Cut, "LoseAnswer": enginetest.LoseAnswer, "LoseRequest": enginetest.LoseRequest,
}

func TestJobSurvivesAFaultOfEachCall(t *testing.T) {
	t.Parallel()
	survives := func(t *testing.T, k kind, call string, fault enginetest.Fault) {
		t.Parallel()
		engine, url := k.start(t)
		k.setUp(engine)
		var hit atomic.Bool
		engine.Fault(call, 1, func(c *enginetest.Call) { hit.Store(true); fault(c) })
		a := k.agent(t, url)
		a.Start(k.job("job_1"))
		if call != k.fetch {
			testrun.Eventually(t, "the call", hit.Load) // some are made only before the end
		}
		engine.Run(10 * time.Millisecond)
		require.Equal(t, refOf(a.Handle(submitted)), filmOf(t, a.End()))
		require.Equal(t, 1, engine.AllRenders(), "%v", engine.Calls())
		require.True(t, hit.Load())
	}
	each(t, func(t *testing.T, k kind) {
		for _, call := range []string{k.health, k.submit, k.poll, k.fetch} {
			if call == "" {
				continue
			}
			for name, fault := range rude {
				t.Run(call+"/"+name, func(t *testing.T) { survives(t, k, call, fault) })
			}
		}
		for _, call := range k.more {
			for _, name := range []string{"Hang", "HTML", "Endless"} {
				t.Run(call+"/"+name, func(t *testing.T) { survives(t, k, call, rude[name]) })
			}
		}
	})
}

func TestCancelSurvivesAFault(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		if k.cancel == "" {
			t.Skip("this engine cannot stop a job")
		}
		for name, fault := range rude {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				engine, url := k.start(t)
				engine.Fault(k.cancel, 1, fault)
				a, _ := k.begin(t, engine, url)
				a.Cancel(false)
				require.True(t, a.End().Cancelled)
				require.True(t, engine.Idle(), "%v", engine.Calls())
			})
		}
	})
}

// back makes the state of a running job go back, and then makes the job vanish for a moment.
func back(k kind, engine fake) {
	switch {
	case k.name == "comfyui":
		lists := func(running, pending func(map[string]any) any) enginetest.Fault {
			return enginetest.Edit(func(answer map[string]any) {
				answer["queue_running"], answer["queue_pending"] = running(answer), pending(answer)
			})
		}
		none := func(map[string]any) any { return []any{} }
		engine.Fault("GET /queue", 2, lists(none, func(answer map[string]any) any { return answer["queue_running"] }))
		engine.Fault("GET /queue", 3, lists(none, none))
	case k.runtime == "comfyui":
		engine.Fault(k.poll, 2, enginetest.Set("status", "pending"))
		engine.Fault(k.poll, 3, enginetest.Status(http.StatusNotFound, `{"error": "Job not found"}`))
	case k.runtime == "videos-api":
		engine.Fault(k.poll, 2, enginetest.Set("status", "queued"))
		engine.Fault(k.poll, 3, enginetest.Status(http.StatusNotFound, `{"detail":"Video not found"}`))
	default:
		engine.Fault(k.poll, 4, enginetest.Set("status", "STARTING"))
		engine.Fault(k.poll, 5, enginetest.Set("status", "READY"))
	}
}

// anothers makes polls say that the job has ended with the file of another one.
func anothers(k kind, engine fake) {
	files := map[string]any{"3": map[string]any{"images": []any{
		map[string]any{"filename": "other-n3_00001_.mp4", "subfolder": "reelay", "type": "output"},
	}}}
	engine.Fault(k.poll, 0, enginetest.Edit(func(answer map[string]any) {
		if _, one := answer["outputs"]; one {
			answer["outputs"] = files
			return
		}
		for _, entry := range answer {
			if entry, ok := entry.(map[string]any); ok {
				entry["outputs"] = files
			}
		}
	}))
}

func TestLies(t *testing.T) {
	t.Parallel()

	t.Run("AStateThatGoesBackIsNotLost", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, k kind) {
			engine, url := k.start(t)
			engine.Run(50 * time.Millisecond)
			back(k, engine)
			a := k.agent(t, url)
			a.Start(k.job("job_1"))
			require.Equal(t, refOf(a.Handle(submitted)), filmOf(t, a.End()))
			require.Equal(t, 1, engine.AllRenders())
		})
	})

	t.Run("TheIDOfAnotherJobIsNotBelieved", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, k kind) {
			engine, url := k.start(t)
			engine.Run(20 * time.Millisecond)
			a := k.agent(t, url)
			a.Start(k.job("job_1"))
			first := filmOf(t, a.End())
			engine.Fault(k.submit, 1, enginetest.Edit(func(answer map[string]any) {
				for _, field := range []string{"id", "prompt_id"} {
					if answer[field] != nil {
						answer[field] = first
					}
				}
			}))
			engine.Fault(k.poll, 2, enginetest.Edit(func(answer map[string]any) {
				if answer["id"] != nil {
					answer["id"], answer["status"] = first, "completed"
				}
			}))
			a.Start(k.job("job_2"))
			second := filmOf(t, a.End())
			require.NotEqual(t, first, second)
			require.Equal(t, second, refOf(a.Handle(submitted)))
			require.Equal(t, 2, engine.AllRenders())
		})
	})

	for name, lie := range map[string]func(k kind, engine fake){
		"SuccessWithoutAFile": func(_ kind, engine fake) { engine.Films(func(string, []byte) []byte { return nil }) },
		"AFilmOf0Bytes":       func(_ kind, engine fake) { engine.Films(func(string, []byte) []byte { return []byte{} }) },
		"AFileOfAnotherRun":   anothers,
	} {
		t.Run(name+"IsADefect", func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, k kind) {
				if name == "AFileOfAnotherRun" && k.runtime != "comfyui" {
					t.Skip("only ComfyUI names files")
				}
				engine, url := k.start(t)
				engine.Run(10 * time.Millisecond)
				lie(k, engine)
				a := k.agent(t, url)
				a.Start(k.job("job_1"))
				end := a.End()
				require.NotNil(t, end.Failure)
				require.Equal(t, runtime.DefectiveResult, end.Failure.Class, "%+v", end.Failure)
				require.Contains(t, end.Failure.Message, "NO_RESULT")
			})
		})
	}

	t.Run("AWebhookThatIsNoneIsRefused", func(t *testing.T) {
		t.Parallel()
		k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.runtime == "cog" })]
		engine, url := k.start(t)
		engine.Step() // its setup
		receiver := make(chan string, 1)
		engine.Fault(k.submit, 1, func(c *enginetest.Call) {
			body, err := io.ReadAll(c.Request.Body)
			var asked struct{ Webhook string }
			if err == nil && json.Unmarshal(body, &asked) == nil {
				receiver <- asked.Webhook
			}
			c.Request.Body = io.NopCloser(strings.NewReader(string(body)))
			c.Do(c.Answer, c.Request)
		})
		a := k.agent(t, url)
		a.Start(k.job("job_1"))
		ref := refOf(a.Handle(submitted))
		to := <-receiver
		for _, body := range []string{
			"", "<html>", "[]", `{"status": "succeeded"}`, `{"id": "other", "status": "succeeded"}`, `{"id": "` + ref + `", "status": 3}`,
		} {
			res, err := http.Post(to, "application/json", strings.NewReader(body))
			require.NoError(t, err)
			res.Body.Close()
			require.Equal(t, http.StatusBadRequest, res.StatusCode, body)
		}
		engine.Run(10 * time.Millisecond)
		require.Equal(t, ref, filmOf(t, a.End()))
	})

	t.Run("ASocketThatFloodsOrDropsHarmsNothing", func(t *testing.T) {
		t.Parallel()
		engine := enginetest.NewComfyUI(t)
		engine.Flood(5000)
		engine.Run(20 * time.Millisecond)
		a := kinds[0].agent(t, engine.URL)
		a.Start(kinds[0].job("job_1"))
		ref := refOf(a.Handle(submitted))
		engine.DropSockets()
		require.Equal(t, ref, filmOf(t, a.End()))
	})

	t.Run("WorkThatIsAcceptedAndNeverBegunIsWithdrawn", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, k kind) {
			if k.runtime == "cog" {
				t.Skip("Cog has no queue")
			}
			engine, url := k.start(t)
			engine.Stall(true)
			a := remotetest.New(t, k.runtime, []string{url},
				func(url string) remote.Engine { return k.open(remote.Target{URL: url}) }, 2*time.Second)
			a.Start(k.job("job_1"))
			end := a.End()
			require.NotNil(t, end.Failure)
			require.Equal(t, runtime.ProviderUnavailable, end.Failure.Class)
			require.Contains(t, end.Failure.Message, "did not begin it")
			require.False(t, end.Failure.Unready)
		})
	})
}

func TestSlowEngine(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		for _, call := range []string{k.health, k.submit, k.poll, k.fetch} {
			if call == "" {
				continue
			}
			for name, tick := range map[string]time.Duration{"ByteByByte": 50 * time.Microsecond, "TooSlow": time.Hour} {
				if name == "TooSlow" && call == k.fetch {
					continue // a transfer may take a minute for the next byte
				}
				t.Run(call+"/"+name, func(t *testing.T) {
					t.Parallel()
					engine, url := k.start(t)
					engine.Run(10 * time.Millisecond)
					clock := time.NewTicker(tick)
					defer clock.Stop()
					engine.Fault(call, 1, enginetest.Drip(clock.C))
					a := k.agent(t, url)
					a.Start(k.job("job_1"))
					require.Equal(t, refOf(a.Handle(submitted)), filmOf(t, a.End()))
					require.Equal(t, 1, engine.AllRenders())
				})
			}
		}
	})
}

func TestRestartBetweenSubmitAndAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		engine, url := k.start(t)
		engine.Run(20 * time.Millisecond)
		restarted := make(chan struct{})
		engine.Fault(k.submit, 1, func(c *enginetest.Call) {
			c.Do(httptest.NewRecorder(), c.Request)
			go func() { engine.Restart(); close(restarted) }()
			<-c.Killed
			panic(http.ErrAbortHandler)
		})
		a := k.agent(t, url)
		a.Start(k.job("job_1"))
		<-restarted
		end := a.End()
		require.Equal(t, refOf(a.Handle(submitted)), filmOf(t, end))
		require.LessOrEqual(t, engine.AllRenders(), 2)
	})
}

func TestFaultThatStaysGivesTheJobBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		for _, name := range slices.Sorted(maps.Keys(rude)) {
			if name == "LoseAnswer" {
				continue // as LoseRequest, for a call that changes nothing
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				engine, url := k.start(t)
				engine.Fault("/", 0, rude[name])
				a := remotetest.New(t, k.runtime, []string{url},
					func(url string) remote.Engine { return k.open(remote.Target{URL: url, Limit: time.Second}) }, time.Second)
				a.Start(k.job("job_1"))
				end := a.End()
				require.NotNil(t, end.Failure)
				require.True(t, end.Failure.Unready)
				require.Contains(t, end.Failure.Message, "no valid answer")
				require.NotContains(t, end.Failure.Message, "<html")
			})
		}
	})
}
