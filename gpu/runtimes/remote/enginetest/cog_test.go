package enginetest

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func put(t *testing.T, ctx context.Context, fake *Cog, id, body string, header ...string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, fake.URL+"/predictions/"+id, strings.NewReader(body))
	require.NoError(t, err)
	if len(header) == 2 {
		req.Header.Set(header[0], header[1])
	}
	return http.DefaultClient.Do(req)
}

func TestCog(t *testing.T) {
	t.Parallel()

	t.Run("CancelsWhenTheClientOfAHeldPutLeaves", func(t *testing.T) {
		t.Parallel()
		fake := NewCog(t)
		fake.Step()
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := put(t, ctx, fake, "held", `{"input": {"prompt": "a boat", "seconds": 5}}`)
			left <- err
		}()
		testrun.Eventually(t, "the render", func() bool { return fake.Renders("held") == 1 })
		leave()
		require.ErrorIs(t, testrun.Receive(t, "the end of the call", left), context.Canceled)
		testrun.Eventually(t, "an idle engine", fake.Idle)
	})

	t.Run("RunsAgainAfterTheEndAndGetsANewEpoch", func(t *testing.T) {
		t.Parallel()
		fake := NewCog(t)
		fake.Step()
		for range 2 {
			res, err := put(t, t.Context(), fake, "twice", `{"input": {"prompt": "a boat", "seconds": 0}}`)
			require.NoError(t, err)
			require.Equal(t, "succeeded", read(t, res)["status"])
		}
		require.Equal(t, 2, fake.Renders("twice"))
		epoch := func() any {
			res, err := http.Get(fake.URL + "/health-check")
			require.NoError(t, err)
			return read(t, res)["setup"].(object)["started_at"]
		}
		before := epoch()
		fake.Restart()
		require.NotEqual(t, before, epoch())
	})

	t.Run("CanRenderOnAfterACancel", func(t *testing.T) {
		t.Parallel()
		fake := NewCog(t)
		fake.Step()
		fake.IgnoreCancels()
		res, err := put(t, t.Context(), fake, "on", `{"input": {"prompt": "a boat", "seconds": 0.1}}`, "Prefer", "respond-async")
		require.NoError(t, err)
		res.Body.Close()
		res, err = http.Post(fake.URL+"/predictions/on/cancel", "", nil)
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.False(t, fake.Idle())
		fake.Step()
		require.True(t, fake.Idle())
	})
}
