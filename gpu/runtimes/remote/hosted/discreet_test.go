package hosted_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/fakeprovider"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/reelay/reelay/internal/provider"
	"github.com/stretchr/testify/require"
)

// listening is a control plane that keeps what it is told.
type listening struct {
	hooked
	mu   sync.Mutex
	told strings.Builder
}

func (l *listening) Tell(_ context.Context, fault *provider.Fault, _ time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.told, "%+v\n", fault)
}

// A provider, or a proxy before it, may repeat what it was sent. Customers see the errors of their jobs.
func TestNoErrorHasASecret(t *testing.T) {
	t.Parallel()
	const secret, token = "key_+/of=the&te<sts", "token-of-the-webhook"

	// repeat answers with all that the call has, as it is and escaped.
	repeat := func(status int) enginetest.Fault {
		return func(c *enginetest.Call) {
			body, _ := io.ReadAll(c.Request.Body)
			said := fmt.Sprintf("The key %s of %s with %s is wrong; ", secret, c.Request.URL, body)
			for _, values := range c.Request.Header {
				said += strings.Join(values, " ") + "; " + url.QueryEscape(values[0]) + "; " + url.PathEscape(values[0]) + "; "
			}
			c.Answer.Header().Set("Content-Type", "application/json")
			c.Answer.WriteHeader(status)
			_ = json.NewEncoder(c.Answer).Encode(map[string]any{
				"error": map[string]any{"message": said, "code": secret}, "message": said, "detail": said, "code": secret,
			})
		}
	}
	// fail is the failure of a job whose words have the key.
	place := regexp.MustCompile(`("(?:message|error|failure_reason|failure|detail|msg|logs)" *: *")`)
	fail := enginetest.Rewrite(func(answer []byte) []byte {
		return place.ReplaceAll(answer, []byte("${1}invalid key "+secret+" "))
	})

	each(t, func(t *testing.T, s spec) {
		run := func(t *testing.T, prompt string, fault func(f *enginetest.Provider)) string {
			t.Helper()
			f := enginetest.NewProvider(t, fakeprovider.Config{Provider: s.name, Key: secret})
			f.Run(10 * time.Millisecond)
			fault(f)
			adapter, address := provider.Find(s.name), f.URL+s.path
			control := &listening{hooked: hooked{address: "http://127.0.0.1:1/hooks/providers/" + token}}
			agent := remotetest.Run(t, remote.Config{Kind: s.name, Own: address, Every: 20 * time.Millisecond, Patience: 2 * time.Second,
				Engines: map[string]remote.Engine{address: hosted.New(adapter, remote.Target{URL: address, Secrets: func() (http.Header, error) {
					return adapter.Auth.Header(secret), nil
				}}, control)}})
			agent.Start(s.job(prompt))
			var said strings.Builder
			agent.Await(func(s remotetest.Said) bool {
				fmt.Fprintf(&said, "%+v %+v %+v\n", s.Progress, s.Log, s.Failure)
				return s.Failure != nil || s.Result != nil
			})
			control.mu.Lock()
			defer control.mu.Unlock()
			said.WriteString(control.told.String())
			for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), token} {
				require.NotContains(t, said.String(), form)
			}
			return said.String()
		}

		for _, status := range []int{400, 401, 500, 503} {
			t.Run(fmt.Sprintf("Submit/%d", status), func(t *testing.T) {
				t.Parallel()
				said := run(t, "A paper boat", func(f *enginetest.Provider) { f.Fault(s.submit, 1, repeat(status)) })
				require.Contains(t, said, "[redacted]")
			})
			t.Run(fmt.Sprintf("Poll/%d", status), func(t *testing.T) {
				t.Parallel()
				said := run(t, "A paper boat", func(f *enginetest.Provider) { f.Fault(s.poll, 0, repeat(status)) })
				require.Contains(t, said, "[redacted]")
			})
		}
		t.Run("SubmitWithoutAnID", func(t *testing.T) {
			t.Parallel()
			run(t, "A paper boat", func(f *enginetest.Provider) { f.Fault(s.submit, 1, repeat(200)) })
		})
		t.Run("PollInAnotherShape", func(t *testing.T) {
			t.Parallel()
			run(t, "A paper boat", func(f *enginetest.Provider) { f.Fault(s.poll, 0, repeat(200)) })
		})
		t.Run("Film", func(t *testing.T) {
			t.Parallel()
			films := s.films
			if films == "" {
				films = "GET /films/{id}"
			}
			run(t, "A paper boat", func(f *enginetest.Provider) { f.Fault(films, 0, repeat(403)) })
		})
		t.Run("FailureOfTheJob", func(t *testing.T) {
			t.Parallel()
			said := run(t, "This fails", func(f *enginetest.Provider) {
				f.Fault(s.poll, 0, fail)
				if s.result != "" {
					f.Fault(s.result, 0, fail)
				}
			})
			if s.name != "gemini" { // its failures have no words
				require.Contains(t, said, "[redacted]")
			}
		})
	})
}
