package hosted_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/reelay/reelay/internal/provider"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/sjson"
)

// What was not sent, or was refused, leaves no handle: the next attempt would take it for paid work.
func TestWhatWasNotSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s spec) {
		// held returns a gate that holds the nth submit until the job ends.
		held := func(nth int32) (*gate, chan struct{}) {
			var submits atomic.Int32
			waits := make(chan struct{})
			return &gate{enter: func(ctx context.Context, use hosted.Use) error {
				if use != hosted.ForSubmit || submits.Add(1) != nth {
					return nil
				}
				close(waits)
				<-ctx.Done()
				return context.Cause(ctx)
			}}, waits
		}

		t.Run("AJobThatIsCancelledAtTheGate", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			g, waits := held(1)
			a := s.run(t, s.target(f), g, 2*time.Minute)
			a.Start(s.job("A paper boat"))
			<-waits
			require.Empty(t, a.LastHandle(), "a kill now must leave no handle")
			a.Cancel(true)

			require.True(t, a.End().Cancelled)
			require.Empty(t, a.LastHandle())
			require.Empty(t, f.Tasks())
		})

		t.Run("AJobThatWaitsAfterARefusal", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			f.Refuse(time.Second)
			g, waits := held(2)
			a := s.run(t, s.target(f), g, 2*time.Minute)
			a.Start(s.job("A paper boat"))
			<-waits
			a.Handle(func(value string) bool { return value == "" }) // said before, and read a moment later
			a.Cancel(true)

			require.True(t, a.End().Cancelled)
			require.Empty(t, a.LastHandle())
			require.Empty(t, f.Tasks())
		})

		t.Run("SecretsThatCannotBeReadForAMoment", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			f.Run(10 * time.Millisecond)
			var submits atomic.Int32
			g := &gate{enter: func(_ context.Context, use hosted.Use) error {
				if use == hosted.ForSubmit {
					submits.Add(1)
				}
				return nil
			}}
			target := s.target(f)
			target.Secrets = func() (http.Header, error) {
				if submits.Load() == 1 {
					return nil, errors.New("the file is being written")
				}
				return provider.Find(s.name).Auth.Header(key), nil
			}
			a := s.run(t, target, g, 2*time.Minute)
			a.Start(s.job("A paper boat"))

			end := a.End()

			require.NotNil(t, end.Result, "%+v", end.Failure)
			require.Len(t, f.Tasks(), 1)
		})

		t.Run("AServerWithAWrongCertificate", func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			t.Cleanup(server.Close)
			a := s.run(t, remote.Target{URL: server.URL + s.path, Secrets: s.secrets(key)}, nil, time.Second)
			a.Start(s.job("A paper boat"))

			end := a.End()

			require.NotNil(t, end.Failure)
			require.True(t, end.Failure.Unready, "%+v", end.Failure)
			require.Empty(t, a.LastHandle())
		})

		t.Run("ARedirect", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			f.Fault(s.submit, 0, func(c *enginetest.Call) {
				http.Redirect(c.Answer, c.Request, "https://new.example.com/secret?token=1", http.StatusTemporaryRedirect)
			})
			a := s.agent(t, f, key)
			a.Start(s.job("A paper boat"))

			end := a.End()

			require.NotNil(t, end.Failure)
			require.Equal(t, runtime.ProviderUnavailable, end.Failure.Class, end.Failure.Message)
			require.False(t, end.Failure.Unready)
			require.Contains(t, end.Failure.Message, "new.example.com")
			require.NotContains(t, end.Failure.Message, "token")
			require.Empty(t, a.LastHandle())
			require.Empty(t, f.Tasks())
		})
	})
}

func TestAPoolWhoseAddressChanged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s spec) {
		// submitted returns a job that was submitted at an address that the pool no longer has.
		submitted := func(t *testing.T, f *enginetest.Provider) runtime.Start {
			first, job := s.agent(t, f, key), s.job("A paper boat")
			first.Start(job)
			said := first.Handle(func(value string) bool {
				var h struct{ Ref string }
				return json.Unmarshal([]byte(value), &h) == nil && h.Ref != ""
			})
			first.Kill()
			job.Handle, _ = sjson.Set(said, "url", "https://old.example.com")
			return job
		}

		t.Run("IsAdopted", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			job := submitted(t, f)
			f.Run(10 * time.Millisecond)
			second := s.agent(t, f, key)
			second.Start(job)

			end := second.End()

			require.NotNil(t, end.Result, "%+v", end.Failure)
			require.Len(t, f.Tasks(), 1)
		})

		t.Run("IsNotStartedAgainWhereNobodyKnowsIt", func(t *testing.T) {
			t.Parallel()
			for _, name := range []string{"Submitted", "InDoubt"} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					old, other := s.fake(t), s.fake(t)
					job := submitted(t, old)
					if name == "InDoubt" {
						job.Handle, _ = sjson.Delete(job.Handle, "ref")
					}
					second := s.agent(t, other, key)
					second.Start(job)

					end := second.End()

					require.NotNil(t, end.Failure)
					require.Equal(t, runtime.SubmitUnknown, end.Failure.Class, end.Failure.Message)
					require.Empty(t, other.Tasks())
					require.Empty(t, second.LastHandle(), "the handle stays as it is")
					require.Len(t, old.Tasks(), 1)
				})
			}
		})

		t.Run("WithSeveralAddressesNow", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			job := submitted(t, f)
			adapter, target := provider.Find(s.name), s.target(f)
			second := remotetest.Run(t, remote.Config{Kind: s.name, Own: target.URL, Account: "hosted", Every: 50 * time.Millisecond,
				Engines: map[string]remote.Engine{target.URL: hosted.New(adapter, target, nil), "http://b": hosted.New(adapter, target, nil)}})
			second.Start(job)

			end := second.End()

			require.NotNil(t, end.Failure)
			require.Equal(t, runtime.SubmitUnknown, end.Failure.Class, end.Failure.Message)
			require.Contains(t, end.Failure.Message, "address")
			require.Len(t, f.Tasks(), 1)
		})
	})
}
