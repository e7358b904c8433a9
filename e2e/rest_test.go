package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

func TestREST(t *testing.T) {
	t.Parallel()

	t.Run("DoesWhatItsPageShows", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		dir := s.show(t)
		var outputs []string
		for _, block := range s.blocks(t, "users/rest.md") {
			outputs = append(outputs, shell(t, dir, block))
		}

		require.Len(t, outputs, 3)
		require.Regexp(t, `^\{"wait_seconds":`, outputs[0])
		require.Contains(t, outputs[0], "\nevent: COMPLETED\n")
		require.Contains(t, outputs[0], `"status":"completed"`)
		require.Contains(t, outputs[0], `"type":"COMPLETED"`)
		require.Regexp(t, `\n\{"jobs":\[\{"job_id":"job_[^\n]*\}\],"next":null\}\n\{"models":\[\{"name":"testcard",`, outputs[0])
		video, err := os.ReadFile(filepath.Join(dir, "video.mp4"))
		require.NoError(t, err)
		require.Contains(t, string(video[:16]), "ftyp")
		video, err = os.ReadFile(filepath.Join(dir, "generated.mp4"))
		require.NoError(t, err)
		require.Contains(t, string(video[:16]), "ftyp")
		require.Contains(t, outputs[1], `"status":"scheduled"`)
		require.Contains(t, outputs[1], `"status":"cancelled"`)
		require.Contains(t, outputs[1], `"paused":`)
	})

	t.Run("LinksToTheStillsOfAVideo", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		c := s.client(t)
		id := submit(t, c, "a still life", 0.5, 0)
		until(t, c, id, completed)
		served := func(link string) string {
			res, err := http.Get(link)
			require.NoError(t, err)
			defer res.Body.Close()
			return res.Header.Get("Content-Type")
		}

		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.keys.Endpoint+"/api/video-generations/"+id, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.keys.ClientKey)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		var shown struct {
			Thumbnail string `json:"thumbnail_url"`
		}
		require.NoError(t, json.NewDecoder(res.Body).Decode(&shown))
		history, err := c.JobHistory(t.Context(), id)
		require.NoError(t, err)

		require.Equal(t, "image/webp", served(shown.Thumbnail))
		stills := map[client.ArtifactType]string{}
		for _, artifact := range history.Artifacts {
			if strings.HasPrefix(artifact.ContentType, "image/") && artifact.Type != client.ArtifactTypePreview {
				require.Equal(t, artifact.ContentType, served(artifact.Url))
				stills[artifact.Type] = artifact.ContentType
			}
		}
		require.Equal(t, map[client.ArtifactType]string{
			client.ArtifactTypeThumbnail: "image/webp", client.ArtifactTypeSpritesheet: "image/jpeg",
		}, stills)
	})
}
