package hosted_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/reelay/reelay/internal/provider"
	"github.com/stretchr/testify/require"
)

// hooked is a control plane that gives an address for webhooks.
type hooked struct {
	address string
	hint    <-chan struct{}
}

func (hooked) Enter(context.Context, hosted.Use) error              { return nil }
func (hooked) Tell(context.Context, *provider.Fault, time.Duration) {}
func (h hooked) Webhook(context.Context, string) (string, error)    { return h.address, nil }
func (h hooked) Webhooks(ctx context.Context, _ string, hint func()) error {
	for {
		select {
		case <-h.hint:
			hint()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()

	// Whether a real one sends webhooks or not: only its adapter says so.
	each(t, func(t *testing.T, s spec) {
		f, hint := s.fake(t), make(chan struct{})
		adapter, address := provider.Find(s.name), "http://127.0.0.1:1/hooks/providers/x"
		url := f.URL + s.path
		a := remotetest.Run(t, remote.Config{Kind: s.name, Own: url, Every: time.Hour, Engines: map[string]remote.Engine{
			url: hosted.New(adapter, remote.Target{URL: url, Secrets: func() (http.Header, error) {
				return adapter.Auth.Header(key), nil
			}}, hooked{address, hint}),
		}})
		a.Start(s.job("A paper boat"))
		a.Await(func(s remotetest.Said) bool { return s.Progress != nil })

		if !adapter.Webhooks {
			require.Empty(t, f.Tasks()[0].Hook)
			return
		}
		require.Equal(t, address, f.Tasks()[0].Hook)
		hint <- struct{}{} // a poll before the end
		for range 4 {
			f.Step()
		}
		hint <- struct{}{}
		end := a.End()
		require.NotNil(t, end.Result, "%+v", end.Failure)
	})
}

// A provider in the internet gets no address that leads to its own machine, or into the network of Reelay.
func TestAddressesForWebhooks(t *testing.T) {
	t.Parallel()
	const real, fake = "https://api.example.com", "http://127.0.0.1:9999"
	for _, c := range []struct {
		address, provider string
		given             bool
	}{
		{"https://reelay.example.com/hooks/providers/x", real, true}, {"https://203.0.113.7/hooks/providers/x", real, true},
		{"http://reelay.example.com/hooks/providers/x", real, false}, {"https://localhost/hooks/providers/x", real, false},
		{"https://127.0.0.1/hooks/providers/x", real, false}, {"https://[::1]/hooks/providers/x", real, false},
		{"https://10.0.0.7/hooks/providers/x", real, false}, {"https://192.168.1.7/hooks/providers/x", real, false},
		{"https://[fd00::1]/x", real, false}, {"https://169.254.1.1/x", real, false}, {"https://0.0.0.0/x", real, false},
		{"", real, false}, {"https://%zz/", real, false}, {"javascript:alert(1)", real, false},
		{"http://127.0.0.1:8080/hooks/providers/x", fake, true}, {"http://localhost:8080/hooks/providers/x", fake, true},
		{"https://reelay.example.com/hooks/providers/x", fake, true}, {"http://10.0.0.7/x", fake, true},
	} {
		given := ""
		adapter := *provider.Kling
		adapter.Submit = func(r *provider.Request) (provider.Call, error) { given = r.Hook; return provider.Get("/"), nil }
		engine := hosted.New(&adapter, remote.Target{URL: c.provider}, hooked{address: c.address})

		_, err := engine.Prepare(t.Context(), "key", &remote.Job{ID: "job_1", Prompt: "x", Settings: json.RawMessage(`{"model": "m"}`)})

		require.NoError(t, err)
		if c.given {
			require.Equal(t, c.address, given, "%+v", c)
		} else {
			require.Empty(t, given, "%+v", c)
		}
	}
}
