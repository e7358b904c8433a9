package job

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/console/shell"
)

// galleryShown is the number of videos on a page.
const galleryShown = 24

// galleryView is the view of the page with finished videos.
type galleryView struct {
	Model, User, Account, Within string
	Models                       []string
	Videos                       []galleryVideo
	// Older is the address of the next page, Newest that of the first one, or "".
	Older, Newest string
	// Problem is what is wrong with a filter, or "".
	Problem string
	Now     time.Time
}

// galleryVideo is one finished video.
type galleryVideo struct {
	*models.Job
	Prompt string
	// Poster is the address of its thumbnail, or "".
	Poster string
}

// galleryTimes are the spans of time that the gallery offers.
var galleryTimes = []struct {
	Value, Name string
	Within      time.Duration
}{{"", "Any time", 0}, {"1h", "Last hour", time.Hour}, {"24h", "Last 24 hours", 24 * time.Hour}, {"7d", "Last 7 days", 7 * 24 * time.Hour},
	{"30d", "Last 30 days", 30 * 24 * time.Hour}}

func (c *controller) gallery(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := r.URL.Query()
	v := &galleryView{Model: asked.Get("model"), User: strings.TrimSpace(asked.Get("user")), Account: strings.TrimSpace(asked.Get("account")),
		Within: asked.Get("within"), Now: time.Now()}
	for _, m := range c.Reads.Models.Catalogue.Current().For(p.Scope()).Models() {
		v.Models = append(v.Models, m.Name)
	}
	filter := joblist.JobFilter{Status: []models.JobStatus{models.JobCompleted}, Model: v.Model, UserID: v.User,
		Search: accountTerm(v.Account)}
	for _, span := range galleryTimes {
		if span.Value == v.Within {
			filter.Within = span.Within
		}
	}
	page, err := c.Reads.Jobs.List(r.Context(), p, filter, paging.Request{First: galleryShown, After: asked.Get("after")})
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput {
		v.Problem = refused.Message
		return shell.Render(w, r, http.StatusUnprocessableEntity, galleryPage(v))
	}
	if err != nil {
		return err
	}
	args := url.Values{"model": {v.Model}, "user": {v.User}, "account": {v.Account}, "within": {v.Within}}
	if asked.Get("after") != "" {
		v.Newest = "/gallery?" + args.Encode()
	}
	if page.More {
		args.Set("after", page.End)
		v.Older = "/gallery?" + args.Encode()
	}
	if err := c.readVideos(r, p, v, page.Items); err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, galleryPage(v))
}

// accountTerm is the search for the jobs of an account with this name or id.
func accountTerm(name string) string {
	if name == "" {
		return ""
	}
	return `account:"` + strings.ReplaceAll(name, `"`, "") + `"`
}

// readVideos reads the prompts and thumbnails of those jobs that have a video.
func (c *controller) readVideos(r *http.Request, p jobs.Principal, v *galleryView, found []*models.Job) error {
	made := make([]*models.Job, 0, len(found))
	for _, job := range found {
		if job.ResultID != "" && job.DeletedAt.IsZero() {
			made = append(made, job)
			v.Videos = append(v.Videos, galleryVideo{Job: job})
		}
	}
	if len(made) == 0 {
		return nil
	}
	edges, err := c.Reads.Jobs.Of(p, made...)
	if err != nil {
		return err
	}
	prompts, err := edges.Prompts(r.Context())
	if err != nil {
		return err
	}
	artifacts, err := edges.Artifacts(r.Context())
	if err != nil {
		return err
	}
	posters := map[models.JobID]string{}
	for _, a := range artifacts {
		if a.Type == models.ArtifactThumbnail {
			posters[a.JobID] = artifactPath(a)
		}
	}
	for i := range v.Videos {
		id := v.Videos[i].ID
		v.Videos[i].Prompt, v.Videos[i].Poster = shownPrompt(r.Context(), prompts[id]), posters[id]
	}
	return nil
}
