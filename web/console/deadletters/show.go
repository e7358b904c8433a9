package deadletters

import (
	"net/http"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

// deadLetterView is the view of the page about one dead letter.
type deadLetterView struct {
	*models.DeadLetter
	Job      *models.Job
	Attempts []deadLetterAttempt
	Log      *shell.LogTail
	// By is the name of the key that resolved it.
	By  string
	Now time.Time
}

// deadLetterAttempt is one attempt of the run that failed, and its worker.
type deadLetterAttempt struct {
	*models.Attempt
	Worker *models.Worker
}

func deadLetterID(r *http.Request) models.DeadLetterID { return models.DeadLetterID(r.PathValue("id")) }

func (c *controller) deadLetterShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readDeadLetter(r, p)
	if err != nil {
		return err
	}
	if v.Log, err = c.ReadTail(r.Context(), p, v.LogID); err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, deadLetterPage(v))
}

// readDeadLetter reads the dead letter that an address names, without its log.
func (c *controller) readDeadLetter(r *http.Request, p jobs.Principal) (*deadLetterView, error) {
	ctx := r.Context()
	letter, err := c.Reads.DeadLetters.Get(ctx, p, deadLetterID(r))
	if err != nil {
		return nil, err
	}
	v := &deadLetterView{DeadLetter: letter, Now: time.Now()}
	if v.Job, err = c.Reads.Jobs.Get(ctx, p, letter.JobID); err != nil {
		return nil, err
	}
	attempts, err := c.Reads.DeadLetters.Attempts(ctx, letter)
	if err != nil {
		return nil, err
	}
	if len(attempts) > 0 {
		found, err := c.Reads.Fleet.WorkersByID(ctx, lo.Map(attempts, func(a *models.Attempt, _ int) models.WorkerID { return a.WorkerID }))
		if err != nil {
			return nil, err
		}
		workers := lo.KeyBy(found, func(w *models.Worker) models.WorkerID { return w.ID })
		for _, a := range attempts {
			v.Attempts = append(v.Attempts, deadLetterAttempt{a, workers[a.WorkerID]})
		}
	}
	v.By = letter.ResolvedBy
	if letter.ResolvedBy != "" {
		names, err := c.KeyNames(ctx, p, letter.ResolvedBy)
		if err != nil {
			return nil, err
		}
		if name := names[models.KeyID(letter.ResolvedBy)]; name != "" {
			v.By = name
		}
	}
	return v, nil
}

// detail returns the error detail of the last attempt that has one.
func (v *deadLetterView) detail() string {
	for i := len(v.Attempts) - 1; i >= 0; i-- {
		if d := v.Attempts[i].ErrorDetail; d != "" {
			return d
		}
	}
	return ""
}
