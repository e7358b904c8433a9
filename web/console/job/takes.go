package job

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

// takesView is the page of the drafts of one request, side by side.
type takesView struct {
	ID     models.TakesID
	Prompt string
	Rows   []takeRow
	Now    time.Time
}

type takeRow struct {
	*models.Job
	// Seed is what distinguishes the draft from the others.
	Seed string
	// Preview is the newest picture or the clip of the draft, or nil.
	Preview *models.Artifact
	// ContinuedBy is the job that makes the video, or nil.
	ContinuedBy *models.Job
}

// moves reports whether the preview is a clip.
func (r takeRow) moves() bool { return strings.HasPrefix(r.Preview.ContentType, "video/") }

// others returns the drafts that discarding the others would remove: once one is continued,
// those that are not.
func (v *takesView) others() []takeRow {
	rest := lo.Filter(v.Rows, func(r takeRow, _ int) bool { return r.ContinuedBy == nil && r.DeletedAt.IsZero() })
	if len(rest) == len(v.Rows) {
		return nil
	}
	return rest
}

func (c *controller) takes(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readTakes(r.Context(), p, models.TakesID(r.PathValue("id")))
	if err != nil {
		return err
	}
	v.Now = time.Now()
	return shell.Render(w, r, http.StatusOK, takesPage(v))
}

func (c *controller) takesLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	id := models.TakesID(r.PathValue("id"))
	return c.Refresh(w, r, p, "/takes/"+string(id)+"/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component,
		error) {
		v, err := c.readTakes(ctx, p, id)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return takesPart(v)
		}, nil
	})
}

func (c *controller) readTakes(ctx context.Context, p jobs.Principal, id models.TakesID) (*takesView, error) {
	drafts, err := c.Reads.Jobs.Takes(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if len(drafts) == 0 {
		return nil, apierror.NotFound("takes")
	}
	edges, err := c.Reads.Jobs.Of(p, drafts...)
	if err != nil {
		return nil, err
	}
	continuations, err := edges.Continuations(ctx)
	if err != nil {
		return nil, err
	}
	pictures, err := c.Reads.Jobs.Artifacts(ctx, p, lo.FilterMap(drafts, func(j *models.Job, _ int) (models.ArtifactID, bool) {
		return j.PreviewID, j.PreviewID != ""
	}))
	if err != nil {
		return nil, err
	}
	prompts, err := edges.Prompts(ctx)
	if err != nil {
		return nil, err
	}
	continued := lo.KeyBy(continuations, func(j *models.Job) models.JobID { return j.Continues })
	shown := lo.KeyBy(pictures, func(a *models.Artifact) models.ArtifactID { return a.ID })
	v := &takesView{ID: id}
	for _, draft := range drafts {
		v.Rows = append(v.Rows, takeRow{draft, seedOf(draft.Params), shown[draft.PreviewID], continued[draft.ID]})
		if v.Prompt == "" {
			v.Prompt = shownPrompt(ctx, prompts[draft.ID])
		}
	}
	return v, nil
}

// seedOf returns the parameter seed, or "".
func seedOf(params json.RawMessage) string {
	var given struct {
		Seed json.Number `json:"seed"`
	}
	_ = json.Unmarshal(params, &given) // params match the model's schema: a seed of another type is none
	return given.Seed.String()
}

func (c *controller) jobContinue(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	job, _, err := c.Submitter.Continue(r.Context(), p, models.JobID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return c.Done(w, r, "/jobs/"+string(job.ID), "Submitted the whole video of the draft.")
}

// takesConfirm asks before the drafts that nobody continued are discarded.
func (c *controller) takesConfirm(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readTakes(r.Context(), p, models.TakesID(r.PathValue("id")))
	if err != nil {
		return err
	}
	if len(v.others()) == 0 { // another tab discarded them
		return c.Done(w, r, "/takes/"+string(v.ID), "No drafts are left to discard.")
	}
	return shell.Render(w, r, http.StatusOK, takesDiscardPage(v))
}

// takesDiscard deletes the drafts that nobody continued, and cancels those that have not ended.
func (c *controller) takesDiscard(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readTakes(r.Context(), p, models.TakesID(r.PathValue("id")))
	if err != nil {
		return err
	}
	others := v.others()
	for _, other := range others {
		if other.Status.Terminal() {
			_, err = c.Deleter.Delete(r.Context(), p, other.ID)
		} else {
			_, err = c.Canceller.Cancel(r.Context(), p, other.ID)
		}
		if err != nil {
			return err
		}
	}
	return c.Done(w, r, "/takes/"+string(v.ID), "Discarded "+text.Count(len(others), "draft")+".")
}
