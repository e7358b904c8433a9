package jobs

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

func TestChooseKind(t *testing.T) {
	t.Parallel()

	output := json.RawMessage(`{"a": 1}`)
	of := func(kind client.ArtifactType, media string) client.Artifact {
		return client.Artifact{Id: "art_" + string(kind), Type: kind, ContentType: media}
	}
	thumbnail, log := of(client.ArtifactTypeThumbnail, "image/webp"), of(client.ArtifactTypeLog, "text/plain; charset=utf-8")
	video := of(client.ArtifactTypeFinalVideo, "video/webm")
	older := of(client.ArtifactTypeLog, "text/plain")
	older.Id, older.CreatedAt, log.CreatedAt = "art_older", time.Unix(1, 0), time.Unix(2, 0)
	done := func(result *client.Artifact, artifacts ...client.Artifact) *client.JobHistory {
		return &client.JobHistory{Job: client.Job{Id: "job_1", Status: client.JobStatusCompleted, Result: result}, Artifacts: artifacts}
	}
	withOutput := func(job *client.JobHistory) *client.JobHistory { job.Output = &output; return job }
	failed, running := done(nil, older, log), done(nil, log)
	failed.Status, running.Status = client.JobStatusFailed, client.JobStatusRunning

	for name, c := range map[string]struct {
		job        *client.JobHistory
		kind, file string
		fails      string
	}{
		"a video":                  {withOutput(done(&video, video, thumbnail)), "", "job_1.webm", ""},
		"a thumbnail":              {withOutput(done(nil, log, thumbnail)), "", "job_1.thumbnail.webp", ""},
		"an output":                {withOutput(done(nil, log)), "", "job_1.output.json", ""},
		"the output of a video":    {withOutput(done(&video, video)), "output", "job_1.output.json", ""},
		"the log of a failed job":  {failed, "log", "job_1.log.txt", ""},
		"the log of a running job": {running, "log", "job_1.log.txt", ""},
		"nothing of that kind": {done(&video, video, thumbnail), "spritesheet", "",
			"job_1 has no spritesheet. It has: video, thumbnail (--kind)"},
		"a running job's video": {running, "", "",
			"job_1 has no result yet: it is RUNNING at 0 %. Follow it with `reelay watch job_1`. It has: log"},
		"a failed job's video":      {failed, "", "", "It has: log (--kind)"},
		"a job that made only logs": {done(nil, log), "", "", "job_1 has no result. It has: log (--kind)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			k, err := chooseKind(c.job, c.kind)

			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.file, k.fileName(c.job.Id, k.artifact(c.job)))
		})
	}
	require.Equal(t, "art_LOG", kindNamed("log").artifact(failed).Id, "the newest")
}
