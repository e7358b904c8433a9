package agent

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/redact"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestLog(t *testing.T) {
	t.Parallel()

	t.Run("IsKeptWithoutSecretsAndNotTooLong", func(t *testing.T) {
		t.Parallel()
		prepare := func(c *control, m *model) {
			c.queue()
			m.tail = strings.Repeat("first words\n", 10_000) + "Authorization: Bearer abc.def-ghi_jkl\nlast words"
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.model.messages <- &runtime.Failure{Class: runtime.ModelCrash, Message: "rl_QUJDREVGR0hJSktMTU5PUA " + strings.Repeat("x", 5000)}
			synctest.Wait()

			failed := f.of("failJob")[0].in
			log := f.body("/" + failed["log"].(object)["objectKey"].(string))
			require.LessOrEqual(t, len(log), maxLog)
			require.Greater(t, len(log), maxLog-100)
			require.True(t, strings.HasSuffix(log, "Bearer [redacted]\nlast words"))
			require.LessOrEqual(t, len(failed["message"].(string)), maxSentence)
			require.True(t, strings.HasPrefix(failed["message"].(string), redact.Mark))
			require.LessOrEqual(t, len(failed["errorDetail"].(string)), maxDetail)
			require.True(t, strings.HasSuffix(failed["errorDetail"].(string), "last words"))
		})
	})

	t.Run("CarriesTheRuntimesOwnTrace", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.model.messages <- &runtime.Failure{Class: runtime.ModelCrash, Message: "NaN in the latents", Detail: "pipeline.py, line 7"}
			synctest.Wait()

			require.Equal(t, "pipeline.py, line 7", f.of("failJob")[0].in["errorDetail"])
		})
	})

	t.Run("OfAReleasedAttemptIsCommittedFirst", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.notices <- Notice{Reason: "spot", Deadline: time.Now().Add(30 * time.Second)}
			require.Equal(t, "checkpoint", <-f.model.orders)
			f.model.messages <- &runtime.Checkpoint{}

			require.NoError(t, <-f.ended)
			kept := f.of("commitArtifact", "releaseJob")
			require.Equal(t, []string{"commitArtifact", "releaseJob"}, names(kept))
			require.Equal(t, "LOG", kept[0].in["artifactType"])
			require.Equal(t, "last words", f.body("/LOG/1"))
		})
	})

	t.Run("OfAHandOverGoesUpBesideItsCheckpoint", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.breakStore(slow(800 * time.Millisecond))
			f.notices <- Notice{Reason: "spot", Deadline: time.Now().Add(30 * time.Second)}
			require.Equal(t, "checkpoint", <-f.model.orders)
			asked := time.Since(f.began)
			f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}

			require.NoError(t, <-f.ended)
			require.Len(t, f.of("commitCheckpoint"), 1)
			require.Len(t, f.of("commitArtifact"), 1)
			require.Equal(t, 800*time.Millisecond, f.of("releaseJob")[0].at-asked)
		})
	})

	t.Run("DoesNotHoldUpARelease", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.breakStore(slow(time.Minute))
			f.direct(object{"action": "CANCEL", "jobId": "job_1"})
			time.Sleep(2 * time.Second)

			require.Equal(t, logLimit, f.of("releaseJob")[0].at)
		})
	})

	t.Run("HoldsNothingOfTheJobBefore", func(t *testing.T) {
		t.Parallel()
		prepare := func(c *control, _ *model) {
			sum, size, _ := client.Checksum(strings.NewReader("state"))
			c.queue()
			c.queue(object{"id": "art_1", "sizeBytes": size, "checksum": sum, "url": "http://store/art_1"})
			c.storing = func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPut {
					return nil, nil
				}
				return plain(r, http.StatusForbidden, nil), nil // the second job does not get as far as the runtime
			}
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			synctest.Wait()
			time.Sleep(time.Second)

			require.Len(t, f.of("completeJob"), 1)
			failed := f.of("failJob")
			require.Len(t, failed, 1)
			require.Nil(t, failed[0].in["log"])
			require.Nil(t, failed[0].in["errorDetail"])
		})
	})
}

func TestGPUFault(t *testing.T) {
	t.Parallel()

	t.Run("LeavesTheModelCold", func(t *testing.T) {
		t.Parallel()
		for _, failure := range []*runtime.Failure{
			runtime.Failf(runtime.ModelCrash, "NaN in the latents"), runtime.Failf(runtime.Transient, "CUDA error: unspecified launch failure"),
		} {
			t.Run(fmt.Sprint(failure.Class), func(t *testing.T) {
				t.Parallel()
				story(t, oneJob, func(t *testing.T, f *fixture) {
					<-f.model.started
					f.model.messages <- failure
					synctest.Wait()

					require.Contains(t, drain(f.model.orders), "kill")
					require.Equal(t, "MODEL_CRASH", f.of("failJob")[0].in["class"])
					asks := f.of("leaseJob")
					require.Equal(t, []any{}, asks[len(asks)-1].in["warmModels"])
				})
			})
		}
	})
}
