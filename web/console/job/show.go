package job

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

// eventsShown is the number of a job's events on its page.
const eventsShown = 100

// jobView is the view of one job's page.
type jobView struct {
	*models.Job
	Prompt    string
	Account   string
	Attempts  []*models.Attempt
	Artifacts []*models.Artifact
	Inputs    []*query.InputOfJob
	// ContinuedBy is the job that makes the video of this draft, or nil.
	ContinuedBy *models.Job
	// Parents are the jobs that this one depends on, Children those that depend on it.
	Parents, Children []*models.Job
	// Keys are the names of the keys that submitted and cancelled it, and of those in its events.
	Keys shell.KeyNames
	// DeadLetter is the open dead letter of its run, or nil.
	OpenDeadLetter *models.DeadLetter
	// Estimate is the forecast of a job that has not ended.
	Estimate estimate.JobEstimate
	Workers  map[models.WorkerID]*models.Worker
	// Costs is what its attempts cost that have ended.
	Costs query.JobCost
	// Times is where the time of its run went, or nil if that is unknown.
	Times *models.JobTime
	// Wait is how long it has been queued; nil if that is unknown.
	Wait *query.JobWait
	// Waiting lists what holds a waiting job back, the most important reason first.
	Waiting []query.WaitingReason
	// Placements are where workers can run it, the preferred place first.
	Placements []*query.Placement
	// Webhooks are the deliveries about its ends, newest first, each with its tries.
	Webhooks []*webhooks.Delivery
	Tries    map[models.WebhookDeliveryID][]*webhooks.Try
	// Events are newest first.
	Events  []*models.JobEvent
	Earlier string
	Later   bool
	// Origin is the address of this Reelay, as the browser has it.
	Origin string
	Now    time.Time
}

func (c *controller) jobShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readJobView(r, p)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, jobPage(v))
}

// readJobParts reads what changes only with a job's events.
func (c *controller) readJobParts(ctx context.Context, p jobs.Principal, v *jobView) error {
	v.Now = time.Now()
	edges, err := c.Reads.Jobs.Of(p, v.Job)
	if err != nil {
		return err
	}
	if v.Attempts, err = edges.Attempts(ctx); err != nil {
		return err
	}
	if v.Artifacts, err = edges.Artifacts(ctx); err != nil {
		return err
	}
	if v.Inputs = c.Reads.Jobs.Inputs(v.Job, nil); len(v.Inputs) > 0 {
		files, err := edges.InputFiles(ctx)
		if err != nil {
			return err
		}
		v.Inputs = c.Reads.Jobs.Inputs(v.Job, files)
	}
	if v.DraftSteps > 0 {
		continuations, err := edges.Continuations(ctx)
		if err != nil {
			return err
		}
		v.ContinuedBy, _ = lo.First(continuations)
	}
	accounts, err := c.AccountNames(ctx, []models.AccountID{v.AccountID})
	if err != nil {
		return err
	}
	v.Account = accounts[v.AccountID]
	if err := c.readRelations(ctx, p, v); err != nil {
		return err
	}
	if v.Workers, err = c.workersOf(ctx, v.Attempts); err != nil {
		return err
	}
	if v.Status.Terminal() || v.Run > 1 { // webhooks are sent at the end of a run
		if err := c.readWebhooks(ctx, p, v); err != nil {
			return err
		}
	}
	costs, err := edges.Costs(ctx)
	if err != nil {
		return err
	}
	v.Costs = *costs[v.ID]
	times, err := edges.Times(ctx)
	if err != nil {
		return err
	}
	v.Times = times[v.ID]
	waits, err := edges.Waits(ctx)
	if err != nil {
		return err
	}
	if wait, known := waits[v.ID]; known {
		v.Wait = &wait
	}
	return c.readWaiting(ctx, p, v)
}

func (c *controller) readWaiting(ctx context.Context, p jobs.Principal, v *jobView) error {
	edges, err := c.Reads.Jobs.Of(p, v.Job)
	if err != nil {
		return err
	}
	places, err := edges.Placements(ctx)
	if err != nil {
		return err
	}
	v.Placements = places[v.ID]
	if v.Waiting = nil; !v.Status.Waiting() {
		return nil
	}
	reasons, err := c.Reads.Jobs.WaitingFor(ctx, edges)
	v.Waiting = reasons[v.ID]
	return err
}

func (c *controller) workersOf(ctx context.Context, attempts []*models.Attempt) (map[models.WorkerID]*models.Worker, error) {
	ids := map[models.WorkerID]bool{}
	for _, a := range attempts {
		ids[a.WorkerID] = true
	}
	byID := map[models.WorkerID]*models.Worker{}
	if len(ids) == 0 {
		return byID, nil
	}
	workers, err := c.Reads.Fleet.WorkersByID(ctx, slices.Collect(maps.Keys(ids)))
	for _, w := range workers {
		byID[w.ID] = w
	}
	return byID, err
}

// readEvents reads the page of events that ends with the requested one, or the newest.
// Event numbers have no gaps, so the first event of the page is known.
func (c *controller) readEvents(r *http.Request, p jobs.Principal, v *jobView) error {
	last := v.EventSeq
	if n, err := strconv.Atoi(r.URL.Query().Get("events")); err == nil && n > 0 && n < last {
		last, v.Later = n, true
	}
	first := max(last-eventsShown, 0)
	edges, err := c.Reads.Jobs.Of(p, v.Job)
	if err != nil {
		return err
	}
	pages, err := edges.Events(r.Context(), first, max(last-first, 1))
	if err != nil {
		return err
	}
	v.Events = pages[v.ID].Items
	slices.Reverse(v.Events)
	v.Earlier = earlierEvents(v.ID, first)
	return nil
}

// earlierEvents returns the address of a job's events up to one of that number, or "" if
// there are none.
func earlierEvents(id models.JobID, last int) string {
	if last <= 0 {
		return ""
	}
	return fmt.Sprintf("/jobs/%s?events=%d#events", id, last)
}

// live returns the address of the page's stream, or "" if nothing more will happen.
func (v *jobView) live() string {
	if v.Status.Terminal() && !v.delivering() || v.Later {
		return ""
	}
	return fmt.Sprintf("/jobs/%s/live?after=%d", v.ID, v.EventSeq)
}

func (v *jobView) find(id models.ArtifactID) *models.Artifact {
	i := slices.IndexFunc(v.Artifacts, func(a *models.Artifact) bool { return id != "" && a.ID == id })
	if i < 0 {
		return nil
	}
	return v.Artifacts[i]
}

// drafted returns what a completed draft shows, or nil.
func (v *jobView) drafted() *models.Artifact {
	if v.DraftSteps == 0 || v.Status != models.JobCompleted {
		return nil
	}
	return v.find(v.PreviewID)
}

// continuable reports whether the job is a draft that can be continued now.
func (v *jobView) continuable() bool { return submit.Continuable(v.Job, v.Now) == nil }

// preview returns the address of the newest preview of an unfinished video, or "".
func (v *jobView) preview() string { return previewOf(v.Job) }

func previewOf(job *models.Job) string {
	if job.Status.Terminal() || job.PreviewID == "" {
		return ""
	}
	return "/artifacts/" + string(job.PreviewID)
}

// evidence returns the frames that show why an attempt's video was refused.
func (v *jobView) evidence(of *models.Attempt) []*models.Artifact {
	return lo.Filter(v.Artifacts, func(a *models.Artifact, _ int) bool {
		return a.Type == models.ArtifactEvidence && a.AttemptID == of.ID
	})
}

// listed returns the artifacts to list: all but replaced previews, and inputs, which have a list
// of their own.
func (v *jobView) listed() []*models.Artifact {
	return slices.DeleteFunc(slices.Clone(v.Artifacts), func(a *models.Artifact) bool {
		return a.Type == models.ArtifactInput || a.Type == models.ArtifactPreview && a.ID != v.PreviewID
	})
}

// attemptOf returns the attempt that made an artifact, or nil.
func (v *jobView) attemptOf(a *models.Artifact) *models.Attempt {
	i := slices.IndexFunc(v.Attempts, func(made *models.Attempt) bool { return made.ID == a.AttemptID })
	if i < 0 {
		return nil
	}
	return v.Attempts[i]
}

func (v *jobView) poster() string {
	for _, a := range slices.Backward(v.Artifacts) {
		if a.Type == models.ArtifactThumbnail {
			return artifactPath(a)
		}
	}
	return ""
}

// marks returns the checkpoints on the job's bar. Those from which an attempt resumed are
// strong.
func (v *jobView) marks() []ui.Mark {
	var marks []ui.Mark
	for _, a := range v.Artifacts {
		if a.Type != models.ArtifactCheckpoint || a.Percent == nil {
			continue
		}
		mark := ui.Mark{Percent: *a.Percent, Title: "Checkpoint at " + ui.Percent(*a.Percent)}
		if next := v.resumedAt(a); next != nil {
			mark.Strong, mark.Title = true, fmt.Sprintf("Attempt %d resumed here, at %s", next.AttemptNo, ui.Percent(*a.Percent))
		}
		marks = append(marks, mark)
	}
	return append(marks, v.sweptMarks()...)
}

// sweptMarks returns where attempts resumed from checkpoints that were deleted since.
func (v *jobView) sweptMarks() []ui.Mark {
	var marks []ui.Mark
	for _, a := range v.Attempts {
		kept := slices.ContainsFunc(v.Artifacts, func(c *models.Artifact) bool {
			return c.Type == models.ArtifactCheckpoint && v.resumedAt(c) == a
		})
		if a.ResumedFromStep == nil || kept || v.TotalSteps == nil || *v.TotalSteps == 0 {
			continue
		}
		marks = append(marks, ui.Mark{
			Percent: 100 * float64(*a.ResumedFromStep) / float64(*v.TotalSteps), Strong: true,
			Title: fmt.Sprintf("Attempt %d resumed at step %d", a.AttemptNo, *a.ResumedFromStep),
		})
	}
	return marks
}

// marked reports whether the bar has marks of this kind.
func (v *jobView) marked(strong bool) bool {
	return slices.ContainsFunc(v.marks(), func(m ui.Mark) bool { return m.Strong == strong })
}

// resumedAt returns the attempt that resumed from a checkpoint, or nil.
func (v *jobView) resumedAt(checkpoint *models.Artifact) *models.Attempt {
	i := slices.IndexFunc(v.Attempts, func(a *models.Attempt) bool {
		return a.ResumedFromStep != nil && checkpoint.Step != nil && *a.ResumedFromStep == *checkpoint.Step &&
			a.ID != checkpoint.AttemptID
	})
	if i < 0 {
		return nil
	}
	return v.Attempts[i]
}

func (v *jobView) took(a *models.Attempt) string {
	if a.EndedAt.IsZero() {
		return ui.Between(a.LeasedAt, v.Now)
	}
	return ui.Between(a.LeasedAt, a.EndedAt)
}

func (v *jobView) workerName(id models.WorkerID) string {
	if w := v.Workers[id]; w != nil {
		return ui.Upright(w.ProviderInstanceID)
	}
	return ui.Short(string(id))
}

func meterState(job *models.Job) string {
	if job.Status.Live() {
		return "running"
	}
	return strings.ToLower(string(job.Status))
}

// sourceOf returns the job whose video is an input, or "".
func sourceOf(in *query.InputOfJob) models.JobID {
	if in.Artifact != nil {
		return in.Artifact.JobID
	}
	if id := models.JobID(in.Reference); id.Valid() {
		return id
	}
	return ""
}

func artifactPath(a *models.Artifact) string { return "/artifacts/" + string(a.ID) }

// entry is one name and value of a JSON object.
type entry struct{ Name, Value string }

// entries lists a JSON object's values by name.
func entries(object json.RawMessage) []entry {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return nil
	}
	var found []entry
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		var text string
		if json.Unmarshal(fields[name], &text) == nil {
			value = text
		}
		if value != "" {
			found = append(found, entry{ui.Upright(name), ui.Upright(value)})
		}
	}
	return found
}

// spent returns the GPU time of an attempt, which is computed when it ends.
func spent(a *models.Attempt, seconds float64) string {
	if a.EndedAt.IsZero() {
		return ui.Unknown
	}
	return shell.GPUSeconds(seconds)
}

func intOr(n *int) string {
	if n == nil {
		return ui.Unknown
	}
	return strconv.Itoa(*n)
}
