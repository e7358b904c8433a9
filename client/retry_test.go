package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

// flaky answers 503 or cuts the connection, so many times, and then the answer.
// It remembers the idempotency keys that came.
type flaky struct {
	failures int
	cut      bool
	answer   string

	mu   sync.Mutex
	keys []string
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Variables struct {
			Input struct{ IdempotencyKey string }
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = append(f.keys, body.Variables.Input.IdempotencyKey)
	switch {
	case len(f.keys) > f.failures:
		io.WriteString(w, f.answer)
	case f.cut:
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	const accepted = `{"data":{"submitJob":{"job":{"id":"job_1"}}}}`

	t.Run("SubmitsOneJobUnderOneKeyOfItsOwn", func(t *testing.T) {
		t.Parallel()
		server := &flaky{failures: 2, cut: true, answer: accepted}
		c, _ := serve(t, server.ServeHTTP)

		got, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard"})

		require.NoError(t, err)
		require.Equal(t, "job_1", got.Job.Id)
		require.Len(t, server.keys, 3)
		require.NotEmpty(t, server.keys[0])
		require.Equal(t, server.keys[0], server.keys[1])
		require.Equal(t, server.keys[0], server.keys[2])
	})

	t.Run("GivesUpAfterSoManyTriesAndSaysWhatIsNotKnown", func(t *testing.T) {
		t.Parallel()
		server := &flaky{failures: 9}
		c, _ := serve(t, server.ServeHTTP, client.WithTries(2))

		_, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard"})

		e, ok := errors.AsType[*client.Error](err)
		require.True(t, ok)
		require.Equal(t, client.CodeUnavailable, e.Code)
		require.True(t, e.Unsettled)
		require.Len(t, server.keys, 2)
	})

	t.Run("NotWhatWasRefused", func(t *testing.T) {
		t.Parallel()
		server := &flaky{answer: `{"errors":[{"message":"no","extensions":{"code":"INVALID_INPUT"}}]}`}
		c, _ := serve(t, server.ServeHTTP)

		_, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard"})

		e, ok := errors.AsType[*client.Error](err)
		require.True(t, ok)
		require.False(t, e.Unsettled)
		require.Len(t, server.keys, 1)
	})

	t.Run("NotWhatWouldBeDoneTwice", func(t *testing.T) {
		t.Parallel()
		server := &flaky{failures: 1, answer: `{"data":{"retryJob":{"id":"job_1"}}}`}
		c, _ := serve(t, server.ServeHTTP)

		_, err := c.RetryJob(t.Context(), "job_1", false)

		require.Equal(t, client.CodeUnavailable, client.ErrorCode(err))
		require.Len(t, server.keys, 1)
	})

	t.Run("TellsOfEachPause", func(t *testing.T) {
		t.Parallel()
		server := &flaky{failures: 2, answer: accepted}
		var told []client.Code
		c, _ := serve(t, server.ServeHTTP, client.WithWaits(func(last *client.Error, pause time.Duration) {
			require.Positive(t, pause)
			told = append(told, last.Code)
		}))

		_, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard"})

		require.NoError(t, err)
		require.Equal(t, []client.Code{client.CodeUnavailable, client.CodeUnavailable}, told)
	})

	t.Run("NotForLongerThanTheApiMayAsk", func(t *testing.T) {
		t.Parallel()
		server := &flaky{answer: `{"errors":[{"message":"full","extensions":{"code":"OVERLOADED","retryAfterSeconds":600}}]}`}
		c, _ := serve(t, server.ServeHTTP)

		_, err := c.Viewer(t.Context())

		require.Equal(t, client.CodeOverloaded, client.ErrorCode(err))
		require.Len(t, server.keys, 1)
	})

	t.Run("AServerThatIsNotThereWasAskedNothing", func(t *testing.T) {
		t.Parallel()
		c, server := serve(t, nil, client.WithTries(1))
		server.Close()

		_, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard"})

		e, ok := errors.AsType[*client.Error](err)
		require.True(t, ok)
		require.False(t, e.Unsettled)
	})
}
