package queues

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/web/console/shell"
)

// queuePause is the view of the page that confirms a pause.
type queuePause struct {
	backlog.QueueCount
	Reason string
	Error  string
}

// name returns the name of the queue within a sentence.
func (v *queuePause) name() string { return shell.QueueName(v.Lane, v.Model) }

// queueConfirm asks for the reason before a queue is paused.
func (c *controller) queueConfirm(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	v, err := c.readPause(r)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, queuePausePage(v))
}

func (c *controller) readPause(r *http.Request) (*queuePause, error) {
	lane, model, err := c.queueOf(r)
	if err != nil {
		return nil, err
	}
	queues, err := c.Reads.Queues.Counts(r.Context())
	if err != nil {
		return nil, err
	}
	v := &queuePause{QueueCount: backlog.QueueCount{Lane: lane, Model: model}}
	for _, q := range queues {
		if q.Lane == lane && (model == "" || q.Model == model) {
			v.Depth += q.Depth
			v.Running += q.Running
		}
	}
	return v, nil
}

func (c *controller) queuePause(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	lane, model, err := c.queueOf(r)
	if err != nil {
		return err
	}
	reason := r.PostForm.Get("reason")
	_, err = c.Operator.PauseQueue(r.Context(), p, lane, model, reason)
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Field == "reason" {
		v, err := c.readPause(r)
		if err != nil {
			return err
		}
		v.Reason, v.Error = reason, refused.Message
		return shell.Render(w, r, http.StatusUnprocessableEntity, queuePausePage(v))
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, "/queues", "Paused "+shell.QueueName(lane, model)+".")
}

func (c *controller) queueResume(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	lane, model, err := c.queueOf(r)
	if err != nil {
		return err
	}
	if _, err = c.Operator.ResumeQueue(r.Context(), p, lane, model); err != nil {
		return err
	}
	return c.Done(w, r, "/queues", "Resumed "+shell.QueueName(lane, model)+".")
}

// queueOf returns the queue in an address, or NOT_FOUND.
func (c *controller) queueOf(r *http.Request) (lane models.Tier, model string, err error) {
	lane, model = models.Tier(strings.ToUpper(r.PathValue("lane"))), r.URL.Query().Get("model")
	if !slices.Contains(models.Tiers, lane) {
		return "", "", apierror.NotFound("lane")
	}
	if model != "" {
		if _, err := c.Reads.Models.Catalogue.Current().Model(model); err != nil {
			return "", "", err
		}
	}
	return lane, model, nil
}
