package comfyapi

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/comfy"
	"github.com/reelay/reelay/models"
)

// The statuses that clients know. A job that a worker has held is running until it ends.
const (
	statusQueued    = "queued"
	statusRunning   = "running"
	statusCanceling = "canceling"
	statusSucceeded = "succeeded"
	statusFailed    = "failed"
	statusCanceled  = "canceled"
)

func statusOf(job *models.Job) string {
	switch {
	case job.Status == models.JobCompleted:
		return statusSucceeded
	case job.Status == models.JobFailed:
		return statusFailed
	case job.Status == models.JobCancelled:
		return statusCanceled
	case !job.CancelRequestedAt.IsZero():
		return statusCanceling
	case job.Status.Waiting() && job.AttemptNo == 0:
		return statusQueued
	}
	return statusRunning
}

// jobView is a job as clients read it.
type jobView struct {
	ID            string            `json:"id"`
	Status        string            `json:"status"`
	CreatedAt     time.Time         `json:"created_at"`
	StartedAt     *time.Time        `json:"started_at"`
	CompletedAt   *time.Time        `json:"completed_at"`
	ExpiresAt     time.Time         `json:"expires_at"`
	QueuePosition *int              `json:"queue_position"`
	Progress      *progress         `json:"progress"`
	Outputs       []output          `json:"outputs"`
	Error         *failure          `json:"error"`
	Metadata      map[string]string `json:"metadata"`
	URLs          urls              `json:"urls"`
}

type urls struct {
	Self   string `json:"self"`
	Events string `json:"events"`
	Cancel string `json:"cancel"`
}

// progress is how far a job is. The nodes that are done are computed from its share.
type progress struct {
	Value      float64 `json:"value"`
	NodesDone  int     `json:"nodes_done"`
	NodesTotal int     `json:"nodes_total"`
	Step       *int    `json:"step"`
	Steps      *int    `json:"steps"`
	Message    *string `json:"message"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// output is a file that a job made.
type output struct {
	NodeID       string    `json:"node_id"`
	Name         string    `json:"name"`
	Type         string    `json:"type"`
	ContentType  string    `json:"content_type"`
	SizeBytes    int64     `json:"size_bytes"`
	ID           string    `json:"id"`
	Hash         *string   `json:"hash"`
	URL          string    `json:"url"`
	URLExpiresAt time.Time `json:"url_expires_at"`
	JobID        string    `json:"job_id"`
}

// brought are the parameters of a job that brings a graph.
type brought struct {
	Graph comfy.Graph `json:"graph"`
	Files []string    `json:"files"`
}

// broughtBy returns them. They are empty for a job of another model.
func broughtBy(job *models.Job) (in brought) {
	err := json.Unmarshal(job.Params, &in)
	if err != nil || slices.Contains(slices.Collect(maps.Values(in.Graph)), nil) {
		return brought{}
	}
	return in
}

// view shows a job. Only a job that has ended has outputs.
func (a *api) view(ctx context.Context, c *call, job *models.Job) (*jobView, error) {
	in, path := broughtBy(job), "/api/v2/jobs/"+string(job.ID)
	v := &jobView{
		ID: string(job.ID), Status: statusOf(job), CreatedAt: job.CreatedAt.UTC(), StartedAt: timeOf(job.StartedAt),
		CompletedAt: timeOf(job.CompletedAt), Outputs: []output{}, Metadata: labels(job), Progress: progressOf(job, len(in.Graph)),
		URLs: urls{Self: path, Events: path + "/events", Cancel: path + "/cancel"},
	}
	v.ExpiresAt = cmp.Or(job.CompletedAt, job.CreatedAt).Add(a.OutputsKept).UTC()
	if v.Status == statusFailed {
		v.Error = &failure{strings.ToLower(string(job.FailureClass)), cmp.Or(job.FailureReason, "The job failed.")}
	}
	if v.Status != statusSucceeded {
		return v, nil
	}
	file, err := a.result(ctx, c, job)
	if err != nil || file == nil {
		return v, err
	}
	shown, err := a.output(ctx, c, file, in.Graph.Saver())
	if err != nil {
		return nil, err
	}
	v.Outputs = append(v.Outputs, *shown)
	return v, nil
}

// result returns the video of a job, or else its picture, or nil if there is none, or none any more.
func (a *api) result(ctx context.Context, c *call, job *models.Job) (picture *models.Artifact, err error) {
	edges, err := a.Reads.Jobs.Of(c.caller, job)
	if err != nil {
		return nil, err
	}
	made, err := edges.Artifacts(ctx)
	if err != nil {
		return nil, err
	}
	for _, file := range made { // oldest first
		switch {
		case file.ID == job.ResultID:
			return file, nil
		case file.Type == models.ArtifactThumbnail && job.ResultID == "":
			picture = file
		}
	}
	return picture, nil
}

func (a *api) output(ctx context.Context, c *call, file *models.Artifact, node string) (*output, error) {
	link, until, err := a.link(ctx, c, file)
	if err != nil {
		return nil, err
	}
	kind, _, _ := strings.Cut(file.ContentType, "/") // image or video
	return &output{
		NodeID: node, Name: query.Filename(file), Type: kind, ContentType: file.ContentType, SizeBytes: file.SizeBytes,
		ID: string(file.ID), URL: link, URLExpiresAt: until, JobID: string(file.JobID),
	}, nil
}

// linkTTL is how long links to files are valid. A download only has to begin by then.
const linkTTL = time.Hour

func (a *api) link(ctx context.Context, c *call, file *models.Artifact) (string, time.Time, error) {
	until := time.Now().Add(linkTTL).UTC()
	link, err := a.Reads.Jobs.Link(ctx, file, linkTTL)
	return link.At(a.Base(c.Request)), until, err
}

func progressOf(job *models.Job, nodes int) *progress {
	if job.AttemptNo == 0 {
		return nil
	}
	p := &progress{Value: min(max(job.Percent/100, 0), 1), NodesTotal: nodes, Step: job.Step, Steps: job.TotalSteps}
	if job.Status == models.JobCompleted {
		p.Value = 1
	}
	p.NodesDone = int(p.Value * float64(nodes))
	if job.Message != "" {
		p.Message = &job.Message
	}
	return p
}

// labels are the texts in a job's metadata.
func labels(job *models.Job) map[string]string {
	var all map[string]any
	_ = json.Unmarshal(job.Metadata, &all) // it was made from an object, or is none
	texts := map[string]string{}
	for key, value := range all {
		if text, ok := value.(string); ok {
			texts[key] = text
		}
	}
	return texts
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// withAssets returns a job's graph with its assets in place of the references to its files.
func (in brought) withAssets() comfy.Graph {
	for _, node := range in.Graph {
		for _, input := range slices.Collect(maps.Keys(node.Inputs)) {
			for number, id := range in.Files {
				if node.Inputs[input] == reference(number) {
					node.Inputs[input] = map[string]any{"__type": assetType, "info": map[string]string{"id": id}}
				}
			}
		}
	}
	return in.Graph
}
