package videos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/video"
	"github.com/reelay/reelay/models"
)

// The only statuses that clients know.
const (
	statusQueued     = "queued"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusFailed     = "failed"
)

// view is a video as clients read it. All keys are always present, some with null.
type view struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Model       string   `json:"model"`
	Status      string   `json:"status"`
	Progress    int      `json:"progress"`
	CreatedAt   int64    `json:"created_at"`
	CompletedAt *int64   `json:"completed_at"`
	ExpiresAt   *int64   `json:"expires_at"`
	Prompt      *string  `json:"prompt"`
	Size        string   `json:"size"`
	Seconds     string   `json:"seconds"`
	RemixOf     *string  `json:"remixed_from_video_id"`
	Error       *failure `json:"error"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// show returns the view of a video, and sets the hint of when to poll again.
func (a *api) show(w http.ResponseWriter, v *video.Video) view {
	w.Header().Set("Openai-Poll-After-Ms", strconv.FormatInt(pollAfter(v.Job).Milliseconds(), 10))
	return a.view(v)
}

func (a *api) view(v *video.Video) view {
	shown := view{
		ID: models.VideoID(v.ID), Object: "video", Model: cmp.Or(v.Asked.Model, v.Model), Status: status(v.Job),
		Progress: int(v.Percent), CreatedAt: v.CreatedAt.Unix(), Prompt: nullable(v.Prompt),
		Size: cmp.Or(v.Asked.Size, sizeOf(v.Params)), Seconds: cmp.Or(v.Asked.Seconds, secondsOf(v.Params)), Error: failureOf(v.Job),
	}
	if v.Asked.RemixOf != "" {
		shown.RemixOf = nullable(models.VideoID(v.Asked.RemixOf))
	}
	if v.Status == models.JobCompleted {
		shown.CompletedAt, shown.ExpiresAt = unix(v.CompletedAt), unix(v.CompletedAt.Add(a.VideosKept))
	}
	return shown
}

func unix(t time.Time) *int64 {
	seconds := t.Unix()
	return &seconds
}

// status is the job's status for clients. A job that a worker has held is in progress
// until it ends, even while it waits for another worker.
func status(job *models.Job) string {
	switch {
	case job.Status == models.JobCompleted:
		return statusCompleted
	case job.Status.Terminal():
		return statusFailed
	case job.Status.Waiting() && job.AttemptNo == 0:
		return statusQueued
	}
	return statusInProgress
}

func failureOf(job *models.Job) *failure {
	switch {
	case job.Status == models.JobCancelled:
		return &failure{"cancelled", "The video was cancelled before it was complete."}
	case job.Status != models.JobFailed:
		return nil
	case job.FailureClass == models.FailContentPolicy:
		return &failure{"moderation_blocked", cmp.Or(job.FailureReason, "The request was refused by the model's content policy.")}
	}
	return &failure{strings.ToLower(string(job.FailureClass)), cmp.Or(job.FailureReason, "The video could not be made.")}
}

// Polling helpers read the hint only at their first poll, so it is for the whole job: a
// twentieth of the expected work.
const (
	minPoll   = 500 * time.Millisecond
	maxPoll   = 5 * time.Second
	pollShare = 20
)

func pollAfter(job *models.Job) time.Duration {
	work := time.Duration(min(job.EstimatedGPUSeconds, 3600) * float64(time.Second))
	return min(max(work/pollShare, minPoll), maxPoll)
}

// shape has the parameters of the catalogue's video models for length and size.
type shape struct {
	DurationSeconds float64 `json:"durationSeconds"`
	Size            string  `json:"size"`
	Resolution      string  `json:"resolution"`
	AspectRatio     string  `json:"aspectRatio"`
}

// sizeOf returns the size of a job that was submitted through another API, computed from
// its parameters; "" if they do not determine it.
func sizeOf(params json.RawMessage) string {
	var s shape
	if json.Unmarshal(params, &s) != nil {
		return ""
	}
	if s.Size != "" {
		return s.Size
	}
	var across, down float64
	short, err := strconv.ParseFloat(strings.TrimSuffix(s.Resolution, "p"), 64)
	if err != nil {
		return ""
	}
	if _, err := fmt.Sscanf(s.AspectRatio, "%f:%f", &across, &down); err != nil || across <= 0 || down <= 0 {
		return ""
	}
	unit := short / min(across, down)
	even := func(side float64) int { return 2 * int(math.Round(side/2)) }
	return fmt.Sprintf("%dx%d", even(across*unit), even(down*unit))
}

func secondsOf(params json.RawMessage) string {
	var s shape
	if json.Unmarshal(params, &s) != nil {
		return ""
	}
	return strconv.FormatFloat(s.DurationSeconds, 'f', -1, 64)
}
