package console

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	shots "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

const (
	screenshots = "../../docs/images"
	// screenshotsMaxAge is how much older than the newest change of the console its pictures may
	// be. A single change need not bring new ones.
	screenshotsMaxAge = 30 * 24 * time.Hour
	screenshotBytes   = 150 << 10
)

// exhibit seeds a console for pictures of it, and names its pages.
func exhibit(t *testing.T) (b *browser, pages map[string]string) {
	t.Helper()
	b = operator(t)
	b.withPast(t)
	resumed, _, _ := b.resumed(t)
	for _, prompt := range []string{
		"A lighthouse in the fog, slow pan from the sea", "Two foxes play in fresh snow, close-up", "City street at night in the rain, neon signs",
		"Timelapse of clouds over a mountain lake", "A paper boat drifts down a gutter", "An old tram climbs a steep street at dusk",
		"Macro shot of a bee on lavender", "A chef flips a pancake, slow motion", "Waves break over black rocks, aerial view",
	} {
		_, _, err := b.Submitter.Submit(t.Context(), b.Client, jobs.Submission{Model: "testcard", Prompt: prompt})
		require.NoError(t, err)
	}
	for i := range 4 {
		worker := b.Worker(t, "h200-europe-west4-"+strconv.Itoa(i+1))
		if i == 3 {
			continue // idle
		}
		_, fence := b.Lease(t, worker)
		if i == 0 {
			b.complete(t, worker, fence)
			continue
		}
		_, err := b.Holder.ReportProgress(t.Context(), worker, fence, jobs.ProgressReport{Progress: models.Progress{Percent: float64(35 * i), Phase: models.PhaseRendering}})
		require.NoError(t, err)
	}
	b.decide(t, b.pool(t, "h200-europe-west4", nil), 1, 3)
	b.dies(t, b.Worker(t, "l4-us-central1-7"), models.FailUnauthorized, "the server refused the key", "GET /weights: 401\n")
	return b, map[string]string{"overview": "/overview", "jobs": "/jobs", "job": "/jobs/" + string(resumed.ID), "workers": "/workers", "queues": "/queues", "dead-letters": "/dead-letters"}
}

// TestScreenshots takes the pictures of the docs if REELAY_SCREENSHOTS is set: see the task
// screenshots.
func TestScreenshots(t *testing.T) {
	if os.Getenv("REELAY_SCREENSHOTS") == "" {
		t.Skip("REELAY_SCREENSHOTS is not set")
	}
	b, pages := exhibit(t)
	ctx, _ := b.open(t, "/jobs")
	require.NoError(t, os.MkdirAll(screenshots, 0o755))
	for name, path := range pages {
		for _, theme := range []string{"light", "dark"} {
			var picture []byte
			require.NoError(t, chromedp.Run(ctx,
				emulation.SetDeviceMetricsOverride(1280, 800, 1, false),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
				chromium.Visit(b.url+path),
				chromium.Until("document.fonts.status === 'loaded' && (!document.querySelector('#stale') || document.querySelector('#pulse').dataset.state === 'live')"),
				chromedp.ActionFunc(func(ctx context.Context) (err error) {
					picture, err = shots.CaptureScreenshot().WithFormat(shots.CaptureScreenshotFormatWebp).WithQuality(82).Do(ctx)
					return err
				}),
			), name)
			require.LessOrEqual(t, len(picture), screenshotBytes, name)
			require.NoError(t, os.WriteFile(filepath.Join(screenshots, "console-"+name+"-"+theme+".webp"), picture, 0o644))
		}
	}
}

// changedAt returns when git last saw a change of these paths, or zero if it cannot tell.
func changedAt(t *testing.T, paths ...string) time.Time {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"log", "-1", "--format=%ct", "--"}, paths...)...).Output()
	if err != nil {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func TestScreenshotsAreCurrent(t *testing.T) {
	t.Parallel()

	shallow, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--is-shallow-repository").Output()
	if err != nil || strings.TrimSpace(string(shallow)) != "false" {
		t.Skip("there is no history here")
	}
	taken, changed := changedAt(t, screenshots), changedAt(t, "*.templ", "static/css", "../ui")
	if taken.IsZero() || changed.IsZero() {
		t.Skip("there are no pictures in the history")
	}
	require.Less(t, changed.Sub(taken), screenshotsMaxAge, "the pictures in docs/images are old: run go tool task screenshots")
}
