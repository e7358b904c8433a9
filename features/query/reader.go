package query

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Reader reads jobs and everything around them. Rows that the caller may not see are
// NOT_FOUND. Methods with ids in the plural do not check this: they are for parts of rows that
// the caller was shown before.
type Reader struct {
	DB        *bun.DB
	Sealer    *seal.Sealer
	Objects   jobs.Objects
	Catalogue *catalogue.Catalogue
	Estimates *estimate.Estimator
	// Checkpoints are the plans of the pools. It may be nil.
	Checkpoints *checkpoints.Plans
	// Clock tells how long unfinished work has lasted.
	Clock *jobs.Clock
	// Shares limits the cost of lists: a caller that reads a list calls it first.
	Shares *Shares
	// History has the figures of the past.
	History *history.Timeline

	reads batch.Group[*jobRead]
}

// Many clients poll the states of their jobs. If more than a few reads come at once, a read
// waits a moment so that more of them can share a statement.
const (
	readLinger   = 10 * time.Millisecond
	readSiblings = 4
)

// defaultReads is how many small and large reads run at once unless the caller of NewReader
// changes Shares.
const defaultReads = 4

// NewReader returns a reader. Estimates and Shares may be set before its first use.
func NewReader(db *bun.DB, sealer *seal.Sealer, objects jobs.Objects, catalogue *catalogue.Catalogue) *Reader {
	return &Reader{
		DB: db, Sealer: sealer, Objects: objects, Catalogue: catalogue,
		History: &history.Timeline{DB: db}, Clock: &jobs.Clock{DB: db}, Shares: NewShares(defaultReads, defaultReads),
		reads: batch.Group[*jobRead]{Linger: readLinger, MinSiblings: readSiblings},
	}
}

// CountLimit is where counting stops. A count of CountLimit+1 means more.
const CountLimit = 10_000

// jobRead is one requested job and its result.
type jobRead struct {
	id models.JobID
	// state means that the columns of models.GetJobStates are enough.
	state bool
	job   *models.Job
}

// Job returns a job, or NOT_FOUND. Concurrent calls share a statement, because a job's state
// is the most frequent read.
func (r *Reader) Job(ctx context.Context, p jobs.Principal, id models.JobID) (*models.Job, error) {
	return r.job(ctx, p, &jobRead{id: id})
}

// JobState is Job for callers that need only the columns of models.GetJobStates.
func (r *Reader) JobState(ctx context.Context, p jobs.Principal, id models.JobID) (*models.Job, error) {
	return r.job(ctx, p, &jobRead{id: id, state: true})
}

func (r *Reader) job(ctx context.Context, p jobs.Principal, read *jobRead) (*models.Job, error) {
	if !read.id.Valid() {
		return nil, apierror.NotFound("job")
	}
	// The batch may contain reads of other callers: it must not wait for one caller's read.
	if err := r.reads.Do(models.WithoutRead(ctx), read, r.readJobs); err != nil {
		return nil, fmt.Errorf("read job %s: %w", read.id, err)
	}
	return jobs.Visible(p, read.id, read.job, nil)
}

func (r *Reader) readJobs(ctx context.Context, all []*jobRead) error {
	ids := make([]models.JobID, len(all))
	get := models.GetJobStates
	for i, read := range all {
		ids[i] = read.id
		if !read.state {
			get = models.GetJobs
		}
	}
	rows, err := get(ctx, r.DB, ids)
	if err != nil {
		return batch.Final(err)
	}
	found := lo.KeyBy(rows, func(j *models.Job) models.JobID { return j.ID })
	for _, read := range all {
		if job := found[read.id]; job != nil {
			read.job = new(*job) // callers of the same job each get their own copy
		}
	}
	return nil
}

// CountJobs counts jobs up to CountLimit. CountLimit+1 means more, or that the count would
// have to examine too many rows.
func (r *Reader) CountJobs(ctx context.Context, p jobs.Principal, f models.JobFilter) (int, error) {
	f, err := Narrow(ctx, r.DB, p, f)
	if err != nil {
		return 0, err
	}
	n, err := models.CountJobs(ctx, r.DB, f, CountLimit+1)
	return n, apierror.Wrap(err, "count jobs")
}

// Events lists a job's events, oldest first, at most first of those after that number.
func (r *Reader) Events(ctx context.Context, job models.JobID, after, first int) (*paging.Page[*models.JobEvent], error) {
	if err := paging.ValidFirst(first); err != nil {
		return nil, err
	}
	pages, err := r.eventPages(ctx, []models.JobID{job}, after, first)
	return pages[job], err
}

// EventPages lists the events of jobs by page, oldest first.
func (r *Reader) EventPages(ctx context.Context, jobs []models.JobID, of paging.Request) (map[models.JobID]*paging.Page[*models.JobEvent],
	error) {
	after := 0
	for _, job := range jobs {
		mark, err := eventListOf(job).Begin(of)
		if err != nil {
			return nil, err
		}
		if mark == "" {
			continue
		}
		if after, err = strconv.Atoi(mark); err != nil || after < 0 {
			return nil, paging.ErrCursor
		}
	}
	return r.eventPages(ctx, jobs, after, of.First)
}

func eventListOf(job models.JobID) paging.List { return paging.ListOf(paging.EventKind, job) }

func (r *Reader) eventPages(ctx context.Context, jobs []models.JobID, after, first int) (map[models.JobID]*paging.Page[*models.JobEvent],
	error) {
	events, err := models.ListEventsOfJobs(ctx, r.DB, jobs, after, first+1)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	found := map[models.JobID][]*models.JobEvent{}
	for _, e := range events {
		found[e.JobID] = append(found[e.JobID], e)
	}
	pages := make(map[models.JobID]*paging.Page[*models.JobEvent], len(jobs))
	for _, id := range jobs {
		pages[id] = paging.NewPage(eventListOf(id), found[id], first, func(e *models.JobEvent) string { return strconv.Itoa(e.Seq) })
	}
	return pages, nil
}

// Prompt is a job's prompt, or the reason why it cannot be read.
type Prompt struct {
	Text string
	Err  error
}

// Prompts returns the prompts of jobs. It omits jobs without a prompt or with a purged one. An
// unreadable prompt does not affect the others.
func (r *Reader) Prompts(ctx context.Context, ids []models.JobID) (map[models.JobID]Prompt, error) {
	inputs, err := models.GetJobInputs(ctx, r.DB, ids)
	if err != nil {
		return nil, fmt.Errorf("read prompts: %w", err)
	}
	prompts := make(map[models.JobID]Prompt, len(inputs))
	for _, in := range inputs {
		if prompt := r.open(in); !errors.Is(prompt.Err, seal.ErrShredded) {
			prompts[in.JobID] = prompt
		}
	}
	return prompts, nil
}

// LeasedPrompt returns the prompt of a leased job as its worker gets it: with the values of other
// jobs' outputs that it contains.
func (r *Reader) LeasedPrompt(ctx context.Context, id models.JobID) (Prompt, error) {
	prompts, err := r.Prompts(ctx, []models.JobID{id})
	prompt := prompts[id]
	if err == nil && prompt.Err == nil {
		prompt.Text, err = inputs.FillPrompt(ctx, r.DB, id, prompt.Text)
	}
	return prompt, err
}

func (r *Reader) open(in *models.SealedPrompt) Prompt {
	text, err := r.Sealer.Open(seal.Sealed{Ciphertext: in.Ciphertext, WrappedKey: in.WrappedKey}, []byte(in.JobID))
	return Prompt{string(text), apierror.Wrap(err, "open the prompt of job %s", in.JobID)}
}

// CheckKeyset returns an error if this process's keyset is not the one that sealed the newest
// prompt.
func (r *Reader) CheckKeyset(ctx context.Context) error {
	in, err := models.GetNewestJobInput(ctx, r.DB)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the newest prompt: %w", err)
	}
	if err := r.open(in).Err; errors.Is(err, seal.ErrWrongKey) {
		return err
	}
	return nil
}

// Parents returns the parents of these jobs, by child.
func (r *Reader) Parents(ctx context.Context, ids []models.JobID) (map[models.JobID][]*models.Job, error) {
	edges, err := models.ListDependencies(ctx, r.DB, ids)
	if err != nil || len(edges) == 0 {
		return nil, apierror.Wrap(err, "list dependencies")
	}
	var on []models.JobID
	for _, edge := range edges {
		on = append(on, edge.DependsOn)
	}
	rows, err := models.GetJobs(ctx, r.DB, on)
	if err != nil {
		return nil, fmt.Errorf("read dependencies: %w", err)
	}
	byID := make(map[models.JobID]*models.Job, len(rows))
	for _, job := range rows {
		byID[job.ID] = job
	}
	parents := make(map[models.JobID][]*models.Job, len(ids))
	for _, edge := range edges {
		parents[edge.JobID] = append(parents[edge.JobID], byID[edge.DependsOn])
	}
	return parents, nil
}

// Takes returns the drafts of one request that the caller may see, in the order of their
// seeds. An unknown id has none.
func (r *Reader) Takes(ctx context.Context, p jobs.Principal, id models.TakesID) ([]*models.Job, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("takes")
	}
	found, err := models.ListTakes(ctx, r.DB, id)
	seen := lo.Filter(found, func(j *models.Job, _ int) bool { return p.Sees(j.AccountID) })
	return seen, apierror.Wrap(err, "list the takes %s", id)
}

// Continuations returns the jobs that continue these drafts, in any order.
func (r *Reader) Continuations(ctx context.Context, drafts []models.JobID) ([]*models.Job, error) {
	found, err := models.FindContinuations(ctx, r.DB, drafts)
	return found, apierror.Wrap(err, "find what continues drafts")
}

// Attempts returns the attempts of jobs, oldest first.
func (r *Reader) Attempts(ctx context.Context, ids []models.JobID) ([]*models.Attempt, error) {
	found, err := models.ListAttempts(ctx, r.DB, ids)
	return found, apierror.Wrap(err, "list attempts")
}

// JobArtifacts returns the artifacts of jobs, oldest first, after the jobs' inputs.
func (r *Reader) JobArtifacts(ctx context.Context, ids []models.JobID) ([]*models.Artifact, error) {
	inputs, err := models.ListInputs(ctx, r.DB, ids)
	if err != nil {
		return nil, fmt.Errorf("list inputs: %w", err)
	}
	found, err := models.ListArtifacts(ctx, r.DB, ids)
	return append(inputs, found...), apierror.Wrap(err, "list artifacts")
}

// Artifacts returns artifacts by their ids, in any order.
func (r *Reader) Artifacts(ctx context.Context, ids []models.ArtifactID) ([]*models.Artifact, error) {
	found, err := models.GetArtifacts(ctx, r.DB, ids)
	return found, apierror.Wrap(err, "read artifacts")
}

// Accounts returns accounts by their ids, in any order.
func (r *Reader) Accounts(ctx context.Context, ids []models.AccountID) ([]*models.Account, error) {
	found, err := models.GetAccounts(ctx, r.DB, ids)
	return found, apierror.Wrap(err, "read accounts")
}

// WorkersByID returns workers by their ids, in any order.
func (r *Reader) WorkersByID(ctx context.Context, ids []models.WorkerID) ([]*models.Worker, error) {
	found, err := models.GetWorkers(ctx, r.DB, ids)
	return found, apierror.Wrap(err, "read workers")
}

// SilentWorkers returns those of these workers whose next sign of life is overdue, by
// PostgreSQL's clock.
func (r *Reader) SilentWorkers(ctx context.Context, ids []models.WorkerID) ([]models.WorkerID, error) {
	silent, err := models.FilterSilentWorkers(ctx, r.DB, ids, lease.SignEvery)
	return silent, apierror.Wrap(err, "find silent workers")
}

// CurrentJobs returns the jobs that workers hold, by worker.
func (r *Reader) CurrentJobs(ctx context.Context, ids []models.WorkerID) (map[models.WorkerID]*models.Job, error) {
	held, err := models.ListLeasedJobs(ctx, r.DB, ids)
	if err != nil {
		return nil, fmt.Errorf("read held jobs: %w", err)
	}
	jobs := make(map[models.WorkerID]*models.Job, len(held))
	for _, h := range held {
		jobs[h.WorkerID] = &h.Job
	}
	return jobs, nil
}

// Attempt returns an attempt whose job the caller may see, or NOT_FOUND.
func (r *Reader) Attempt(ctx context.Context, p jobs.Principal, id models.AttemptID) (*models.Attempt, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("attempt")
	}
	a, err := models.GetAttempt(ctx, r.DB, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "attempt"), "read attempt %s", id)
	}
	if _, err := jobs.VisibleJob(ctx, r.DB, p, a.JobID); err != nil {
		return nil, apierror.Wrap(orHidden(err, "attempt"), "read attempt %s", id)
	}
	return a, nil
}

// Artifact returns an artifact whose job the caller may see, or NOT_FOUND.
func (r *Reader) Artifact(ctx context.Context, p jobs.Principal, id models.ArtifactID) (*models.Artifact, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("artifact")
	}
	found, err := r.Artifacts(ctx, []models.ArtifactID{id})
	if err == nil && (len(found) == 0 || !p.Sees(found[0].AccountID)) {
		return nil, apierror.NotFound("artifact")
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func orHidden(err error, what string) error {
	if apierror.HasCode(err, apierror.CodeNotFound) {
		return apierror.NotFound(what)
	}
	return err
}

const (
	minLinkTTL = time.Minute
	maxLinkTTL = 24 * time.Hour
)

// Link signs a link to an artifact's object, valid for ttl (a minute to a day).
func (r *Reader) Link(ctx context.Context, a *models.Artifact, ttl time.Duration) (jobs.Link, error) {
	if ttl < minLinkTTL || ttl > maxLinkTTL {
		return "", apierror.Invalid("expiresInSeconds", "expiresInSeconds must be from %.0f to %.0f.", minLinkTTL.Seconds(), maxLinkTTL.Seconds())
	}
	link, err := r.Objects.LinkDownload(ctx, a.ObjectKey, filename(a), ttl)
	if err != nil {
		return "", jobs.StoreAway(ctx, fmt.Errorf("link artifact %s: %w", a.ID, err))
	}
	return link, nil
}

// filename is the name under which a browser saves an artifact.
func filename(a *models.Artifact) string {
	extension := map[string]string{"video/mp4": ".mp4", "image/jpeg": ".jpg", "image/png": ".png", "image/webp": ".webp"}[a.ContentType]
	if strings.HasPrefix(a.ContentType, "text/plain") {
		extension = ".txt"
	}
	return fmt.Sprintf("%s-%s%s", cmp.Or(string(a.JobID), string(a.ID)), strings.ToLower(string(a.Type)), extension)
}

// ModelState is whether workers run a model, and whether they should.
type ModelState string

const (
	ModelAvailable ModelState = "AVAILABLE"  // a registered worker can run it
	ModelNoWorker  ModelState = "NO_WORKER"  // a pool names it or jobs wait for it, and no worker can run it
	ModelNotServed ModelState = "NOT_SERVED" // nobody asks for it
)

// ModelStatus is a model, and whether a worker that can run it is present.
type ModelStatus struct {
	*catalogue.Model
	Available bool
	State     ModelState
}

// Models lists the models of a snapshot of the catalogue.
func (r *Reader) Models(ctx context.Context, of *catalogue.Snapshot) ([]ModelStatus, error) {
	return r.modelStates(ctx, of, of.Models())
}

// Model returns one version of a model, or nil if there is none. Version 0 means the current
// one.
func (r *Reader) Model(ctx context.Context, of *catalogue.Snapshot, name string, version int) (*ModelStatus, error) {
	m := of.Find(name, version)
	if m == nil {
		return nil, nil
	}
	found, err := r.modelStates(ctx, of, []*catalogue.Model{m})
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

func (r *Reader) modelStates(ctx context.Context, of *catalogue.Snapshot, all []*catalogue.Model) ([]ModelStatus, error) {
	available, err := r.availableModels(ctx, of)
	if err != nil {
		return nil, err
	}
	expected, err := models.ListExpectedModels(ctx, r.DB, lo.Map(all, func(m *catalogue.Model, _ int) string { return m.Name }))
	if err != nil {
		return nil, apierror.Wrap(err, "read the models that are asked for")
	}
	var found []ModelStatus
	for _, m := range all {
		status := ModelStatus{m, available[m.Name], ModelNotServed}
		switch {
		case status.Available:
			status.State = ModelAvailable
		case slices.Contains(expected, m.Name):
			status.State = ModelNoWorker
		}
		found = append(found, status)
	}
	return found, nil
}

// availableModels returns the models that a registered worker can run.
func (r *Reader) availableModels(ctx context.Context, of *catalogue.Snapshot) (map[string]bool, error) {
	offered, err := models.ListOfferedModels(ctx, r.DB)
	if err != nil {
		return nil, fmt.Errorf("read available models: %w", err)
	}
	available := map[string]bool{}
	for _, o := range offered {
		if m := of.Find(o.Model, 0); m != nil && m.RunsOn(o.GPUType) {
			available[o.Model] = true
		}
	}
	return available, nil
}
