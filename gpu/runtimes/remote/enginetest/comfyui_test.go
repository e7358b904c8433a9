package enginetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestComfyUI(t *testing.T) {
	t.Parallel()

	t.Run("FloodsAndDropsSockets", func(t *testing.T) {
		t.Parallel()
		fake := NewComfyUI(t)
		conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(fake.URL, "http")+"/ws?clientId=c", nil)
		require.NoError(t, err)
		defer conn.CloseNow()
		_, _, err = conn.Read(t.Context()) // its first message: from now on it gets the events
		require.NoError(t, err)
		fake.Flood(1000)
		body := `{"client_id": "c", "prompt": {"1": {"class_type": "SlowFrames", "inputs": {"frames": 8, "step_seconds": 0, "seed": 1,
			"fail_at": -1, "steps": 3}}, "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}}}}`
		res, err := http.Post(fake.URL+"/prompt", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		res.Body.Close()
		for starts := 0; starts < 1001; {
			_, text, err := conn.Read(t.Context())
			require.NoError(t, err)
			if strings.Contains(string(text), "execution_start") {
				starts++
			}
		}
		fake.DropSockets()
		for err == nil {
			_, _, err = conn.Read(t.Context())
		}
		require.NoError(t, t.Context().Err())
	})

	t.Run("CancelsByJobIfItIsNewer", func(t *testing.T) {
		t.Parallel()
		fake := NewComfyUI(t)
		fake.Newer(true)
		require.Contains(t, submitPrompt(t, fake, "not-a-uuid", `"steps": 1`), "invalid_prompt_id")
		running, waiting := uuid.NewString(), uuid.NewString()
		submitPrompt(t, fake, running, `"steps": 5`)
		submitPrompt(t, fake, waiting, `"steps": 5, "frames": 9`)
		for _, id := range []string{waiting, running} {
			require.True(t, cancelJob(t, fake, id))
			require.False(t, cancelJob(t, fake, id))
		}
		require.True(t, fake.Idle())
		status, body, err := get(t, fake.URL+"/api/jobs/"+running)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, string(body), `"status":"cancelled"`)
	})

	t.Run("CanBeKilledAtAnyTime", func(t *testing.T) {
		t.Parallel()
		fake := NewComfyUI(t)
		fake.Run(100 * time.Microsecond)
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				for n := range 20 { // calls may fail: the engine is away
					id := fmt.Sprintf("%d-%d", i, n)
					address := "ws" + strings.TrimPrefix(fake.URL, "http") + "/ws?clientId=" + id
					if conn, _, err := websocket.Dial(t.Context(), address, nil); err == nil {
						defer conn.CloseNow()
					}
					body := fmt.Sprintf(`{"prompt_id": %q, "client_id": %q, "prompt": {"1": {"class_type": "SlowFrames",
						"inputs": {"frames": 8, "step_seconds": 0, "seed": %d, "fail_at": -1, "steps": 3}},
						"2": {"class_type": "SaveImage", "inputs":
						{"images": ["1", 0], "filename_prefix": %q}}}}`, id, id, n, id)
					if res, err := http.Post(fake.URL+"/prompt", "application/json", strings.NewReader(body)); err == nil {
						res.Body.Close()
					}
					_, _, _ = get(t, fake.URL+"/history")
				}
			})
		}
		for range 10 {
			fake.Restart()
		}
		clients.Wait()
		testrun.Eventually(t, "an idle engine", fake.Idle)
	})
}

func cancelJob(t *testing.T, fake *ComfyUI, id string) bool {
	t.Helper()
	res, err := http.Post(fake.URL+"/api/jobs/"+id+"/cancel", "", nil)
	require.NoError(t, err)
	defer res.Body.Close()
	var answer struct{ Cancelled bool }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	return answer.Cancelled
}
