package agent

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestRedactor(t *testing.T) {
	t.Parallel()

	r := newRedactor([]string{"HF_TOKEN=correct horse battery", "DATABASE_PASSWORD=hunter22", "SIGNING_KEY=abcdef123456", "HOME=/home/worker", "KEY=on", "KEYBOARD=qwertz"})
	secrets := map[string]string{
		"ABearer":        "Authorization: Bearer abc.def-ghi_jkl",
		"AKey":           "calling with rl_QUJDREVGR0hJSktMTU5PUA",
		"AWorkersToken":  "calling with rlw_QUJDREVGR0hJSktMTU5PUA",
		"AWebhookSecret": "secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"ASignedLink":    "PUT https://storage.googleapis.com/b/o?X-Goog-Signature=0123456789abcdef&X-Goog-Date=1",
		"APassword":      "postgres://reelay:pass@word@db:5432/reelay",
		"AnAWSKey":       "AKIAIOSFODNN7EXAMPLE",
		"AnAWSSecret":    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG",
		"AGoogleKey":     "AIzaSyA-1234567890abcdefghijklmnopqrstu",
		"AGoogleToken":   "ya29.a0AfH6SMBxxxxxxxxxxxx",
		"APrivateKey":    "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
		"AHalfKey":       "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQ",
		"AJWT":           "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig_nature",
		"ASetting":       "login failed for correct horse battery",
		"AnotherSetting": "hunter22 is wrong, abcdef123456 too",
		"AnAssignment":   `{"api_key": "0123456789"}`,
	}
	for name, text := range secrets {
		t.Run("Hides"+name, func(t *testing.T) {
			t.Parallel()

			clean := r.clean(text)

			require.Contains(t, clean, redacted)
			for _, secret := range []string{"def-ghi", "QUJDREVG", "MfKQ9r8", "0123456789", "pass", "word@", "IOSFODNN", "wJalr", "SyA-12", "AfH6SM", "MIIEvQ", "sig_nature", "correct", "hunter", "abcdef"} {
				if name == "AnAssignment" && secret == "pass" {
					continue
				}
				require.NotContains(t, clean, secret)
			}
		})
	}

	t.Run("LeavesTheRest", func(t *testing.T) {
		t.Parallel()
		const innocent = "/home/worker: step 3 of 50, max_tokens=77, a lighthouse at https://example.com/docs; the key is on, qwertz"

		require.Equal(t, innocent, r.clean(innocent))
	})
}

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
			require.True(t, strings.HasPrefix(failed["message"].(string), redacted))
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

func TestDiagnose(t *testing.T) {
	t.Parallel()

	for said, class := range map[string]runtime.FailureClass{
		"CUDA error: an illegal memory access was encountered":            runtime.ModelCrash,
		"cuDNN error: CUDNN_STATUS_EXECUTION_FAILED":                      runtime.ModelCrash,
		"NCCL error in: ProcessGroupNCCL.cpp":                             runtime.ModelCrash,
		"RuntimeError: device-side assert triggered":                      runtime.ModelCrash,
		"torch.cuda.OutOfMemoryError: CUDA out of memory":                 runtime.OutOfMemory,
		"the weights could not be downloaded: connection reset by a peer": runtime.Transient,
	} {
		require.Equal(t, class, diagnose(runtime.Failf(runtime.Transient, "%s", said)).Class, said)
		require.Equal(t, runtime.InvalidInput, diagnose(runtime.Failf(runtime.InvalidInput, "%s", said)).Class)
	}

	t.Run("AfterAGPUFaultTheModelIsCold", func(t *testing.T) {
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
