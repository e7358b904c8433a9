package inputs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/internal/picture"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Remote fetches the images that jobs name by URL.
type Remote interface {
	// Check returns what is wrong with a URL, as a sentence. It does no lookup.
	Check(url string) error
	// Fetch returns what is at the URL. Its error is a RemoteError, or the cause of ctx's end.
	Fetch(ctx context.Context, url string) ([]byte, error)
}

// RemoteError is why nothing could be fetched from a URL. Reason is the end of a sentence and
// does not contain the URL.
type RemoteError struct {
	Reason string
	// Passing means that a later try may succeed.
	Passing bool
}

// Error implements error.
func (e *RemoteError) Error() string { return e.Reason }

// InputFetcher fetches the images that accepted jobs wait for. Such a job is BLOCKED until the
// transaction that records its images queues it. Any number of processes may fetch: the images
// of a job are claimed by one, and by another if that one dies.
type InputFetcher struct {
	Inputs    *Inputs
	Notifier  *change.Notifier
	Catalogue *catalogue.Catalogue
}

const (
	// fetchesAtOnce bounds the fetches of one process, and accountFetches those of all
	// processes for one account, so that an account's slow URLs do not delay others.
	fetchesAtOnce  = 16
	accountFetches = 4
	// fetchClaim is how long a process keeps its claim on the images of a job. Their fetches take
	// less: there are maxFetches at most.
	fetchClaim = 3 * time.Minute
	// MaxFetchTries is how often an image is requested: retries follow after 5 s, 10 s, 20 s
	// and 40 s.
	MaxFetchTries   = 5
	firstFetchPause = 5 * time.Second
	// ownFaultPause is the delay after a fault that is not the image's.
	ownFaultPause = 5 * time.Second
	// giveBackTime bounds the write that gives a fetch back when the process ends.
	giveBackTime = 2 * time.Second
)

// Run fetches images until ctx ends, whenever due says that some are due, and gives back those that
// are in progress then.
func (f *InputFetcher) Run(ctx context.Context, due periodic.Wake) error {
	slots := make(chan struct{}, fetchesAtOnce)
	var fetches sync.WaitGroup
	defer fetches.Wait()
	log := periodic.Log{Name: "fetch images"}
	for due.Wait(ctx) {
		claimed, err := f.claim(ctx, cap(slots)-len(slots))
		log.Note(ctx, err)
		for _, fetch := range claimed {
			slots <- struct{}{}
			fetches.Go(func() {
				if err := f.fetch(ctx, fetch); err != nil {
					slog.ErrorContext(ctx, "fetching an image failed because of an internal error", "job", fetch.JobID, "error", err)
				}
				<-slots
				due.Send() // another image may wait for the place
			})
		}
	}
	return nil
}

// Pass fetches the images that are due, one after the other, and returns how many it claimed.
func (f *InputFetcher) Pass(ctx context.Context) (int, error) {
	claimed, err := f.claim(ctx, fetchesAtOnce)
	for _, fetch := range claimed {
		err = errors.Join(err, f.fetch(ctx, fetch))
	}
	return len(claimed), err
}

func (f *InputFetcher) claim(ctx context.Context, most int) ([]*models.InputFetch, error) {
	if most == 0 {
		return nil, nil
	}
	claimed, err := models.ClaimInputFetches(ctx, f.Inputs.DB, most, accountFetches, fetchClaim)
	return claimed, apierror.Wrap(err, "claim images to fetch")
}

// fetch runs one claimed fetch. It returns a fault that is not the image's; the fetch is then
// retried soon, perhaps by another process.
func (f *InputFetcher) fetch(ctx context.Context, fetch *models.InputFetch) error {
	job, err := models.GetJob(ctx, f.Inputs.DB, fetch.JobID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // and the fetch is gone with it
	}
	if err == nil {
		err = f.fetchFor(ctx, fetch, job)
	}
	if err == nil {
		return nil
	}
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	pause := ownFaultPause
	if ctx.Err() != nil {
		pause, err = 0, nil
	}
	return errors.Join(err, models.PostponeInputFetch(rest, f.Inputs.DB, fetch, false, pause))
}

func (f *InputFetcher) fetchFor(ctx context.Context, fetch *models.InputFetch, job *models.Job) error {
	if job.Status != models.JobBlocked {
		return f.settle(ctx, fetch, job, nil)
	}
	missing, err := f.missing(ctx, job)
	if err != nil {
		return err
	}
	images := map[string]*models.Artifact{}
	for _, file := range missing {
		info, data, err := f.get(ctx, file.Reference)
		switch problem, reason, passing := fetchProblem(err); {
		case passing && fetch.Tries < MaxFetchTries:
			fetch.Problem = reason
			return models.PostponeInputFetch(ctx, f.Inputs.DB, fetch, true, firstFetchPause<<(fetch.Tries-1))
		case problem != "":
			return f.settle(ctx, fetch, job, func(_ context.Context, c *change.Change) error {
				return c.Failed(models.FailInvalidInput, "the image at "+file.Field()+problem+reason)
			})
		case err != nil:
			return err
		}
		if images[file.Reference], err = f.Inputs.store(ctx, job.AccountID, data, info); err != nil {
			return err
		}
	}
	return f.settle(ctx, fetch, job, func(ctx context.Context, c *change.Change) error {
		if !bytes.Equal(c.Job.Params, job.Params) {
			return errReferenceEdited
		}
		for url, image := range images {
			err := models.UseInput(ctx, c.Tx, models.InputUse{JobID: job.ID, AccountID: job.AccountID, ArtifactID: image.ID, Reference: url})
			if err != nil {
				return fmt.Errorf("use a fetched image: %w", err)
			}
		}
		c.Job.BlockedBy--
		return c.Unblock()
	})
}

// missing returns the images of a job that are named by URL and were not fetched yet, each URL
// once.
func (f *InputFetcher) missing(ctx context.Context, job *models.Job) (missing []catalogue.Input, err error) {
	files := f.Catalogue.Current().At(job.Model, job.ModelVersion).Inputs(job.Params)
	for _, url := range Remotes(files) {
		_, err := models.FindInputOf(ctx, f.Inputs.DB, job.ID, url)
		if errors.Is(err, sql.ErrNoRows) {
			at := slices.IndexFunc(files, func(file catalogue.Input) bool { return file.Reference == url })
			missing = append(missing, files[at])
		} else if err != nil {
			return nil, fmt.Errorf("read an image of job %s: %w", job.ID, err)
		}
	}
	return missing, nil
}

// get fetches and checks one image.
func (f *InputFetcher) get(ctx context.Context, url string) (picture.Info, []byte, error) {
	data, err := f.Inputs.Remote.Fetch(ctx, url)
	if err != nil {
		return picture.Info{}, nil, err
	}
	info, err := picture.Check(ctx, data)
	return info, data, err
}

// fetchProblem returns what failed because of the image or its site, and why, as the end of a
// sentence; and whether that may pass.
func fetchProblem(err error) (problem, reason string, passing bool) {
	var away *RemoteError
	var fault picture.Fault
	switch {
	case errors.As(err, &away):
		return " cannot be fetched: ", away.Reason, away.Passing
	case errors.As(err, &fault):
		return " cannot be used: ", fault.Error(), false
	}
	return "", "", false
}

// errReferenceEdited ends a fetch whose job was reopened with another image meanwhile. That
// image is fetched then.
var errReferenceEdited = errors.New("the job names another image now")

// settle ends a fetch, and calls act to change its job. It changes nothing if another process
// has taken the fetch over, or the job is no longer blocked.
func (f *InputFetcher) settle(ctx context.Context, fetch *models.InputFetch, seen *models.Job,
	act func(context.Context, *change.Change) error) error {
	var done *change.Change
	err := jobs.InTx(ctx, f.Inputs.DB, func(ctx context.Context, tx bun.Tx) error {
		done = nil
		job, err := models.LockJob(ctx, tx, seen.ID)
		if err != nil {
			return err
		}
		if job.Status == models.JobBlocked && act == nil {
			return nil // the job was reopened
		}
		if err := models.EndInputFetch(ctx, tx, fetch); err != nil || job.Status != models.JobBlocked {
			return err
		}
		c, err := change.New(ctx, tx, job)
		if err != nil {
			return err
		}
		if err := act(ctx, c); err != nil {
			return err
		}
		done = c
		return c.Save(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) || errors.Is(err, errReferenceEdited) {
		return nil
	}
	if err == nil && done != nil {
		f.Notifier.After(ctx, done)
	}
	return apierror.Wrap(err, "update the image of job %s", seen.ID)
}
