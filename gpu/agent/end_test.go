package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestEnd(t *testing.T) {
	t.Parallel()

	t.Run("IsRepeatedIfItsAnswerIsLost", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			first := true
			f.set("heartbeat", func(object) (object, client.Code) {
				if !first { // it is complete: there is no lease any more
					return nil, client.CodeLeaseLost
				}
				return heartbeatAnswer("CONTINUE"), ""
			})
			f.set("completeJob", func(in object) (object, client.Code) {
				if first {
					first = false
					f.outage = refusing
					return nil, client.CodeUnavailable
				}
				return object{"job": object{"id": "job_1"}, "next": nil}, ""
			})
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			time.Sleep(40 * time.Second) // longer than the lease: a heartbeat has to come first
			f.comeBack()
			time.Sleep(20 * time.Second)

			require.Len(t, f.of("completeJob"), 2)
			require.Empty(t, f.of("failJob", "releaseJob"))
		})
	})

	t.Run("AfterACancelIsARelease", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("completeJob", func(object) (object, client.Code) { return nil, client.CodeConflict })
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			time.Sleep(time.Second)

			require.Len(t, f.of("releaseJob"), 1)
		})
	})

	t.Run("GoesOnWithTheJobThatTheAnswerCarries", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("completeJob", func(in object) (object, client.Code) {
				return object{"job": object{"id": "job_1"}, "next": lease()}, ""
			})
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}

			<-f.model.started
			require.Len(t, f.of("leaseJob"), 1)
			require.Equal(t, true, f.of("completeJob")[0].in["leaseNext"])
		})
	})
}

func TestFail(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		happens func(*fixture)
		class   string
		message string
	}{
		"ARuntimeThatDies":  {func(f *fixture) { f.model.die() }, "MODEL_CRASH", "the runtime died"},
		"ARuntimeThatHangs": {func(*fixture) { time.Sleep(5 * time.Minute) }, "TIMEOUT", "no progress for 5m0s"},
		"ARuntimeThatSaysWhy": {func(f *fixture) {
			f.model.messages <- runtime.Failf(runtime.InvalidInput, "no such resolution")
		}, "INVALID_INPUT", "no such resolution"},
		"ARuntimeThatTalksOutOfTurn": {func(f *fixture) { f.model.messages <- &runtime.Ready{} }, "MODEL_CRASH", "where it is not allowed"},
		"AnAttemptThatTakesTooLong": {func(f *fixture) {
			for range 60 {
				f.model.messages <- &runtime.Progress{Percent: 1, Phase: runtime.PhaseRendering}
				time.Sleep(time.Minute)
			}
		}, "TIMEOUT", "longer than its limit of 1h0m0s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				<-f.model.started
				test.happens(f)
				time.Sleep(time.Second)

				failed := f.of("failJob")
				require.Len(t, failed, 1)
				require.Equal(t, test.class, failed[0].in["class"])
				require.Contains(t, failed[0].in["message"], test.message)
				require.True(t, strings.HasPrefix(failed[0].in["log"].(object)["objectKey"].(string), "LOG/"))
			})
		})
	}

	for name, put := range map[string]func(path string) error{
		"AResultThatIsALink":    func(path string) error { return os.Symlink(os.Args[0], path) },
		"AResultThatIsAPipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"AResultThatIsAFolder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"AResultThatIsNotThere": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				path := filepath.Join(order.Workdir, "thumbnail.webp")
				require.NoError(t, put(path))
				f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4"), Thumbnail: path}
				time.Sleep(time.Second)

				failed := f.of("failJob")
				require.Len(t, failed, 1)
				require.Equal(t, "MODEL_CRASH", failed[0].in["class"])
				require.Contains(t, failed[0].in["message"], "The runtime reported ")
				require.Empty(t, f.of("completeJob"))
			})
		})
	}

	t.Run("AResultThatTheAPIRefuses", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("completeJob", func(object) (object, client.Code) { return nil, client.CodeInvalidInput })
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			time.Sleep(time.Second)

			failed := f.of("failJob")
			require.Len(t, failed, 1)
			require.Equal(t, "DEFECTIVE_RESULT", failed[0].in["class"])
			require.Contains(t, failed[0].in["message"], "BAD_OUTPUT: the control plane refuses the runtime's result: ")
		})
	})

	t.Run("AnOutputThatCannotBeStored", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4"), Output: json.RawMessage("\"\xff\"")}
			time.Sleep(time.Second)

			failed := f.of("failJob")
			require.Len(t, failed, 1)
			require.Equal(t, "DEFECTIVE_RESULT", failed[0].in["class"])
			require.Contains(t, failed[0].in["message"], "BAD_OUTPUT: the runtime's output cannot be stored: the text is not valid UTF-8")
			require.Empty(t, f.of("completeJob"))
		})
	})

	t.Run("ADeadRuntimeIsStartedAgainForTheNextJob", func(t *testing.T) {
		t.Parallel()
		story(t, func(c *control, _ *model) { c.queue(); c.queue() }, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.model.messages <- runtime.Failf(runtime.OutOfMemory, "CUDA out of memory")

			second := <-f.models
			<-second.started
		})
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()

	for name, deaf := range map[string]bool{"StopsTheRuntimeThenReleases": false, "KillsARuntimeThatDoesNotStop": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				<-f.model.started
				f.model.deaf.Store(deaf)
				f.set("heartbeat", func(object) (object, client.Code) { return heartbeatAnswer("CANCEL"), "" })
				time.Sleep(16 * time.Second)

				want := []string{"cancel"}
				if deaf {
					want = append(want, "kill")
				}
				require.Equal(t, want, drain(f.model.orders))
				require.Len(t, f.of("releaseJob"), 1)
				require.Empty(t, f.of("failJob", "completeJob"))
			})
		})
	}
}
