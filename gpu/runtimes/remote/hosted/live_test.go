package hosted_test

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/internal/pause"
	"github.com/reelay/reelay/internal/provider"
	"github.com/stretchr/testify/require"
)

// shortest are the parameters of the shortest and smallest video of each provider's model in specs.
var shortest = map[string]map[string]any{
	"fal":       {"durationSeconds": 5, "aspectRatio": "16:9"},
	"gemini":    {"durationSeconds": 3, "aspectRatio": "16:9", "resolution": "360p"},
	"kling":     {"durationSeconds": 3, "aspectRatio": "16:9"},
	"luma":      {"durationSeconds": 5, "aspectRatio": "16:9", "resolution": "360p"},
	"minimax":   {"durationSeconds": 4, "aspectRatio": "16:9", "resolution": "768P"},
	"replicate": {"durationSeconds": 5, "aspectRatio": "16:9"},
	"runpod":    {},
	"runway":    {"durationSeconds": 2, "size": "1280:720"},
	"veo":       {"durationSeconds": 4, "aspectRatio": "16:9", "resolution": "720p"},
}

// TestLive makes one video at each real provider of which there is a key. It costs money.
func TestLive(t *testing.T) {
	t.Parallel()
	for _, a := range provider.All {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			params, ok := shortest[a.Name]
			require.True(t, ok, "the shortest video of %s is missing", a.Name)
			name := "REELAY_LIVE_" + strings.ToUpper(a.Name)
			key, address := os.Getenv(name+"_KEY"), cmp.Or(os.Getenv(name+"_URL"), a.URL)
			if key == "" {
				t.Skipf("with %s_KEY it makes one video at the real %s, which costs money", name, a.Title)
			}
			require.NotEmpty(t, address, "%s_URL must say where the API of the account is", name)
			e := hosted.New(a, remote.Target{URL: address, Secrets: func() (http.Header, error) { return a.Auth.Header(key), nil }}, nil)
			settings, err := json.Marshal(map[string]any{"model": cmp.Or(os.Getenv(name+"_MODEL"), specOf(t, a.Name).model)})
			require.NoError(t, err)
			job := &remote.Job{ID: "job_live", Model: "live", Type: "video.generate", Prompt: "A paper boat on a calm lake", Params: params,
				Settings: settings, Log: func(_, message string) { t.Log(message) }}

			submit, err := e.Prepare(t.Context(), uuid.NewString(), job)
			require.NoError(t, err)
			ref, err := submit(t.Context())
			require.NoError(t, err)
			t.Logf("the job is %s", ref)
			status := remote.Status{State: remote.Running}
			for begun := time.Now(); status.State == remote.Running; {
				require.Less(t, time.Since(begun), 20*time.Minute)
				require.NoError(t, pause.For(t.Context(), cmp.Or(a.Every, 5*time.Second))) // the provider's own limit
				status, err = e.Poll(t.Context(), ref, job)
				require.NoError(t, err)
			}
			require.Equal(t, remote.Succeeded, status.State, "%+v", status.Failure)
			require.NotEmpty(t, status.Files)
			film := status.Files[0].Inline
			if film == nil {
				body, _, _, err := e.Fetch(t.Context(), status.Files[0], 0)
				require.NoError(t, err)
				defer body.Close()
				film, err = io.ReadAll(body)
				require.NoError(t, err)
			}
			require.Greater(t, len(film), 1000)
			require.Contains(t, string(film[:64]), "ftyp")
		})
	}
}
