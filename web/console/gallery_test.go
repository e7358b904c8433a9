package console

import (
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// TestVideos checks in a browser that videos play on demand, and that a file that cannot be played
// is no black tile.
func TestVideos(t *testing.T) {
	t.Parallel()
	b := operator(t)
	worker := b.Worker(t, "one")
	picture, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=64x36", "-frames:v", "1", "-f",
		"image2pipe", "-c:v", "png", "-").Output()
	require.NoError(t, err)
	film, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=64x36:d=2", "-c:v", "libvpx", "-f",
		"webm", "-").Output()
	require.NoError(t, err)
	done := func(prompt string, file, thumbnail []byte) *models.Job {
		t.Helper()
		job := jobstest.SubmitAs(t, b.Stack, b.Client, func(in *submit.Submission) { in.Prompt = prompt })
		_, fence := b.Lease(t, worker)
		video := b.Upload(t, worker, fence, models.ArtifactFinalVideo, file)
		end := lease.Completion{Video: &video}
		if thumbnail != nil {
			made := b.Upload(t, worker, fence, models.ArtifactThumbnail, thumbnail)
			end.Thumbnail = &made
		}
		_, err := b.Attempts.Complete(t.Context(), worker, fence, end)
		require.NoError(t, err)
		return job
	}
	good := done("good", film, picture)
	bare := done("bare", film, nil)
	broken := done("broken", []byte("not a video"), picture)
	hollow := done("hollow", []byte("not a video"), nil)
	torn := done("torn", film, []byte("not a picture"))

	page := b.get(t, "/gallery").Body
	require.NotContains(t, page, "<video", "nothing covers the pictures")
	require.NotContains(t, page, "controls")
	require.Contains(t, page, "No thumbnail")

	ctx, _ := b.open(t, "/gallery")
	of := func(job *models.Job, what string) string {
		return `document.getElementById("` + string(job.ID) + `").querySelector("` + what + `")`
	}
	click := func(job *models.Job) chromedp.Action {
		return chromedp.Evaluate(of(job, ".player-open")+".click()", nil)
	}
	until := func(what string) { t.Helper(); require.NoError(t, chromedp.Run(ctx, chromium.Until(what)), what) }

	until(of(good, ".player img") + "?.naturalWidth === 64 && !" + of(good, "video"))
	until(of(bare, ".player.has-frame") + " && " + of(bare, ".first-frame") + "?.videoWidth === 64")
	until(of(torn, ".no-picture") + " && !" + of(torn, ".player img"))
	until(of(hollow, ".unplayable .no-picture") + " && " + of(hollow, ".unplayable-note a[download]") + "?.getAttribute('href') === '/jobs/" +
		string(hollow.ID) + "/video'")

	hover := func(job *models.Job, kind string) chromedp.Action {
		return chromedp.Evaluate(of(job, ".player")+`.dispatchEvent(new PointerEvent("`+kind+`", {pointerType: "mouse"}))`, nil)
	}
	require.NoError(t, chromedp.Run(ctx, hover(good, "pointerenter")))
	until(of(good, ".player-video") + "?.muted && !" + of(good, ".player-video") + ".controls")
	require.NoError(t, chromedp.Run(ctx, hover(good, "pointerleave")))
	until("!" + of(good, ".player-video"))

	require.NoError(t, chromedp.Run(ctx, click(good), hover(good, "pointerleave")))
	until(of(good, ".player-video") + "?.controls && " + of(good, ".player-video") + "?.videoWidth === 64")
	require.NoError(t, chromedp.Run(ctx, click(torn)))
	until(of(torn, ".player-video") + "?.controls && !" + of(good, ".player-video"))

	require.NoError(t, chromedp.Run(ctx, click(broken)))
	until(of(broken, ".unplayable img") + "?.naturalWidth === 64 && " + of(broken, ".unplayable-note a[download]") + " && !" +
		of(broken, "video"))

	for job, want := range map[*models.Job]string{
		good:   `document.querySelector(".video video")?.videoWidth === 64`,
		broken: `document.querySelector(".video .unplayable img")?.naturalWidth === 64 && document.querySelector(".video .unplayable a[download]")`,
		hollow: `!document.querySelector("video") && document.querySelector(".video .unplayable a[download]")`,
	} {
		require.NoError(t, chromedp.Run(ctx, chromium.Visit(b.url+"/jobs/"+string(job.ID))))
		until(want)
	}
}
