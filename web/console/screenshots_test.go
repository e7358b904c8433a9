package console

import (
	"context"
	"fmt"
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
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

const (
	screenshots = "../../docs/images"
	// screenshotsMaxAge is how much older than the newest change of the console its pictures may
	// be. A single change need not bring new ones.
	screenshotsMaxAge = 30 * 24 * time.Hour
	screenshotBytes   = 150 << 10
)

// scenes are the prompts of the exhibit, each with the colours of its picture.
var scenes = []struct{ prompt, from, to string }{
	{"A lighthouse in the fog, slow pan from the sea", "0x9fb4c7", "0x2b3a4a"}, {"Two foxes play in fresh snow, close-up", "0xeef2f7",
		"0xc96f3b"},
	{"City street at night in the rain, neon signs", "0x1a1033", "0xe0359a"}, {"Timelapse of clouds over a mountain lake", "0x6aa5d8",
		"0x1d4d3b"},
	{"A paper boat drifts down a gutter", "0x8d99a6", "0xd9c7a0"}, {"An old tram climbs a steep street at dusk", "0xf29e4c", "0x3d2645"},
	{"Macro shot of a bee on lavender", "0x8c6bd1", "0x4b7f52"}, {"A chef flips a pancake, slow motion", "0xf3c969", "0x7a3e1d"},
	{"Waves break over black rocks, aerial view", "0x1b6ca8", "0x0b132b"},
}

// exhibit seeds a console for pictures of it, and names its pages.
func exhibit(t *testing.T) (b *browser, pages map[string]string) {
	t.Helper()
	b = admin(t)
	b.withPast(t)
	pool := b.pool(t, "h200-europe-west4", func(s *capacity.PoolSpec) {
		s.Region, s.Zones, s.GPUType, s.PricePerHourUSD, s.MaxWorkers = "europe-west4", []string{"europe-west4-b"}, "h200", 3.1, 6
	})
	crew := make([]jobs.Principal, 6)
	for i := range crew {
		crew[i] = b.member(t, pool, i+1)
	}
	for i := range 9 {
		scene := scenes[i]
		jobstest.SubmitAs(t, b.Stack, b.Client, func(in *submit.Submission) { in.Prompt = scene.prompt })
		worker := crew[i%4]
		_, fence := b.Lease(t, worker)
		if i < 6 {
			b.film(t, worker, fence, scene.from, scene.to)
			continue
		}
		progress := models.Progress{Percent: float64(25 * (i - 5)), Phase: models.PhaseRendering, Message: "denoising", Step: new(12 * (i - 5)),
			TotalSteps: new(50)}
		_, err := b.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{Progress: progress})
		require.NoError(t, err)
		b.busy(t, worker, fence)
	}
	resumed := b.moved(t, crew[4], crew[5])
	b.dies(t, b.Worker(t, "l4-us-central1-7"), models.FailUnauthorized, "the server refused the key", "GET /weights: 401\n")
	harbour := b.harbour(t, crew[1])
	for _, scene := range scenes[3:8] {
		jobstest.SubmitAs(t, b.Stack, b.Client, func(in *submit.Submission) { in.Prompt = scene.prompt })
	}
	require.NoError(t, capacity.InsertScalingDecision(t.Context(), b.DB, &capacity.ScalingDecision{
		PoolID: pool.ID, From: 1, To: 4, Reason: "5 waiting and 4 running jobs need 9 workers; at most 6 are allowed.",
		Inputs: []byte(`{"waitingJobs": 5, "busy": 4, "idle": 0, "booting": 0}`),
	}))
	b.Exec(t, `INSERT INTO history_pools (seconds, at, pool, region, gpu_type, idle, busy, booting, paid)
		SELECT seconds, at, ?, region, 'other', 0, 0, 0, jsonb_build_object('boot', jsonb_build_object('seconds', seconds / 15, 'usd', seconds * 0.00001),
			'load', jsonb_build_object('seconds', seconds * 0.0333, 'usd', seconds * 0.000007), 'idle', jsonb_build_object('seconds', seconds * 0.1500, 'usd', seconds * 0.000027),
			'useful', jsonb_build_object('seconds', seconds * 2.6667, 'usd', seconds * 0.000483), 'wasted', jsonb_build_object('seconds', seconds * 0.1000, 'usd', seconds * 0.000018),
			'ending', jsonb_build_object('seconds', seconds * 0.0167, 'usd', seconds * 0.000003))
		FROM history_pools WHERE region = 'europe-west4'`, pool.Name)
	return b, map[string]string{
		"overview": "/overview", "jobs": "/jobs", "job": "/jobs/" + string(resumed.ID), "workers": "/workers", "queues": "/queues",
		"dead-letters": "/dead-letters", "pool": string(address.Pool(pool.ID)),
		"gallery": "/gallery", "heat-map": "/heatmap", "workflow": address.Workflow(harbour.ID),
	}
}

// member is a worker of the exhibit's pool.
func (b *browser) member(t *testing.T, pool *capacity.Pool, n int) jobs.Principal {
	t.Helper()
	_, secret, err := b.Registrar.Register(t.Context(), b.Enrolment, fleet.Registration{
		Provider: pool.Provider, ProviderInstanceID: fmt.Sprintf("%s-%d", pool.Name, n), GPUCount: 1, PoolID: pool.ID, Region: pool.Region,
		Zone:    pool.Zones[0],
		GPUType: pool.GPUType, CapacityClass: pool.CapacityClass, Models: pool.Models, WarmModels: pool.Models, AgentVersion: "0.1.0",
	})
	require.NoError(t, err)
	worker, err := b.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return worker
}

// film completes a job with a video and a picture in these colours.
func (b *browser) film(t *testing.T, worker jobs.Principal, fence lease.Fence, from, to string) {
	t.Helper()
	made := func(path string, options ...string) string {
		source := "gradients=s=640x360:c0=" + from + ":c1=" + to + ":x0=0:y0=0:x1=640:y1=360:nb_colors=2:seed=1"
		out, err := exec.CommandContext(t.Context(), "ffmpeg", append(append([]string{"-v", "error", "-f", "lavfi", "-i", source}, options...),
			path)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return path
	}
	picture, err := os.ReadFile(made(filepath.Join(t.TempDir(), "still.webp"), "-frames:v", "1"))
	require.NoError(t, err)
	thumbnail := b.Upload(t, worker, fence, models.ArtifactThumbnail, picture)
	film, err := os.ReadFile(made(filepath.Join(t.TempDir(), "film.mp4"), "-t", "2", "-pix_fmt", "yuv420p", "-movflags", "+faststart"))
	require.NoError(t, err)
	video := b.Upload(t, worker, fence, models.ArtifactFinalVideo, film)
	_, err = b.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video, Thumbnail: &thumbnail})
	require.NoError(t, err)
}

// busy lets a worker report a GPU at work.
func (b *browser) busy(t *testing.T, worker jobs.Principal, fence lease.Fence) {
	t.Helper()
	total := int64(141 << 30)
	_, err := b.Attempts.Heartbeat(t.Context(), worker, fence, []lease.GPUSample{{
		Utilization: new(0.97), MemoryUsedBytes: new(total * 8 / 10), MemoryTotalBytes: &total, TemperatureC: new(64.0), PowerW: new(612.0),
	}})
	require.NoError(t, err)
}

// moved is a job that one worker of the pool lost at 40 %, and that another goes on with.
func (b *browser) moved(t *testing.T, first, second jobs.Principal) *models.Job {
	t.Helper()
	job := jobstest.SubmitAs(t, b.Stack, b.Client,
		func(in *submit.Submission) { in.Prompt = "A steam train crosses a viaduct in the morning light" })
	_, held := b.Lease(t, first)
	checkpoint := b.Upload(t, first, held, models.ArtifactCheckpoint, []byte("state"))
	_, err := b.Attempts.CommitCheckpoint(t.Context(), first, held, jobs.Checkpoint{Object: checkpoint, Step: 20, Percent: 40})
	require.NoError(t, err)
	_, err = b.Attempts.Release(t.Context(), first, held, models.FailPreempted)
	require.NoError(t, err)
	granted, fence := b.Lease(t, second)
	_, err = b.Attempts.ReportProgress(t.Context(), second, fence, lease.ProgressReport{
		Progress:    models.Progress{Percent: 62, Phase: models.PhaseRendering, Message: "denoising", Step: new(31), TotalSteps: new(50)},
		ResumedFrom: granted.Checkpoints[0].ID,
	})
	require.NoError(t, err)
	// Minutes instead of milliseconds, as in a real render.
	for _, query := range []string{
		"UPDATE job_attempts SET leased_at = leased_at - interval '11 minutes', ended_at = ended_at - interval '7 minutes' WHERE job_id = ? AND attempt_no = 1",
		"UPDATE job_attempts SET leased_at = leased_at - interval '6 minutes' WHERE job_id = ? AND attempt_no = 2",
		`UPDATE job_events SET created_at = created_at - CASE WHEN type IN ('QUEUED', 'LEASED', 'STARTED', 'BLOCKED', 'SCHEDULED') AND seq < 4 THEN interval '11 minutes'
			WHEN type = 'CHECKPOINTED' THEN interval '8 minutes' WHEN type IN ('RELEASED', 'REQUEUED') THEN interval '7 minutes' WHEN type <> 'PROGRESS' THEN interval '6 minutes' ELSE interval '0' END WHERE job_id = ?`,
		"UPDATE jobs SET created_at = created_at - interval '12 minutes' WHERE id = ?",
	} {
		b.Exec(t, query, job.ID)
	}
	return job
}

// harbour is the film of docs/users/examples/harbour.yaml, of which a worker has rendered half.
func (b *browser) harbour(t *testing.T, worker jobs.Principal) *models.Workflow {
	t.Helper()
	shot := func(key, prompt, params string) workflow.Node {
		return workflow.Node{Key: key, Job: submit.Submission{Model: "testcard", Prompt: prompt, Params: []byte(params)}}
	}
	const pier = `{"durationSeconds": 3, "referenceImage": "{{shots.fog.lastFrame}}"}`
	in := workflow.Input{Name: "harbour", Output: "film", Jobs: []workflow.Node{
		shot("shots.fog", "A harbour at dawn, the fog lifts over an empty pier", `{"durationSeconds": 3}`),
		shot("shots.boats", "Fishing boats leave the harbour, wide shot", `{"durationSeconds": 4}`),
		shot("shots.lamp", "On the pier, a keeper puts out the last lamp", pier),
		shot("shots.gulls", "Gulls land on the pier, the camera pans up", pier),
		{Key: "film", Job: submit.Submission{Model: "video.stitch",
			Params: []byte(`{"clips": ["{{shots.fog.video}}", "{{shots.lamp.video}}", "{{shots.gulls.video}}", "{{shots.boats.video}}"]}`)}},
		{Key: "thumbnail", Job: submit.Submission{Model: "video.thumbnail", Params: []byte(`{"video": "{{film.video}}"}`)}},
	}}
	film, _, err := b.Workflows.Submit(t.Context(), b.Client, in)
	require.NoError(t, err)
	var rendered []models.JobID
	for range 2 {
		lease, fence := b.Lease(t, worker)
		b.film(t, worker, fence, "0x9fb4c7", "0x2b3a4a")
		rendered = append(rendered, lease.Job.ID)
	}
	granted, fence := b.Lease(t, worker)
	_, err = b.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{
		Progress: models.Progress{Percent: 62, Phase: models.PhaseRendering, Message: "denoising", Step: new(31), TotalSteps: new(50)},
	})
	require.NoError(t, err)
	b.busy(t, worker, fence)
	// Minutes instead of milliseconds, as in a real render.
	b.Exec(t, "UPDATE workflows SET created_at = created_at - interval '380 seconds' WHERE id = ?", film.ID)
	for id, span := range map[models.JobID][2]int{rendered[0]: {376, 240}, rendered[1]: {239, 92}, granted.Job.ID: {91, 0}} {
		b.Exec(t, `UPDATE jobs SET created_at = created_at - interval '380 seconds', started_at = started_at - make_interval(secs => ?),
			completed_at = completed_at - make_interval(secs => ?) WHERE id = ?`, span[0], span[1], id)
	}
	return film
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
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme},
					{Name: "prefers-reduced-motion", Value: "reduce"}}),
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
