package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestJobResult(t *testing.T) {
	t.Parallel()
	picture := &models.Artifact{ID: models.NewArtifactID(), Type: models.ArtifactThumbnail, ContentType: "image/webp"}
	for name, test := range map[string]struct {
		job   models.Job
		of    []*models.Artifact
		shows []string
		hides string
	}{
		"ShowsThePictureOfAJobWithoutAVideo": {
			models.Job{Model: "video.thumbnail"}, []*models.Artifact{picture},
			[]string{`<img src="/artifacts/` + string(picture.ID) + `"`, "<h1>video.thumbnail</h1>", "<title>video.thumbnail · "}, "Output",
		},
		"ShowsTheOutputAsText": {
			models.Job{Model: "http.call", Output: json.RawMessage(`{"status": 200, "body": "<b>` + "\u202e" + `"}`)}, nil,
			[]string{"<h2>Output</h2>", "&#34;status&#34;: 200,\n", "&lt;b&gt;[U+202E]"}, "<video",
		},
		"CountsTheStepsOfADraft": {
			models.Job{Model: "testcard", DraftSteps: 6, Progress: models.Progress{Step: new(1), TotalSteps: new(48)}}, nil,
			[]string{"step 6 of 48"}, "step 48",
		},
		"CountsAllStepsOfAVideo": {
			models.Job{Model: "testcard", Progress: models.Progress{Step: new(47), TotalSteps: new(48)}}, nil, []string{"step 48 of 48"}, "step 47",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.job.ID, test.job.Status = models.NewJobID(), models.JobCompleted
			v := &jobView{Job: &test.job, Artifacts: test.of, Now: time.Now()}

			var page strings.Builder
			require.NoError(t, jobPage(v).Render(t.Context(), &page))

			for _, text := range test.shows {
				require.Contains(t, page.String(), text)
			}
			require.NotContains(t, page.String(), test.hides)
		})
	}
}
