package console

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// queuePause is the view of the page that confirms a pause.
type queuePause struct {
	models.QueueCount
	Reason string
	Error  string
}

// name returns the name of the queue within a sentence.
func (v *queuePause) name() string { return queueName(v.Lane, v.Model) }

// queueConfirm asks for the reason before a queue is paused.
func (c *queuesController) queueConfirm(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	v, err := c.readPause(r)
	if err != nil {
		return err
	}
	return render(w, r, http.StatusOK, queuePausePage(v))
}

func (c *queuesController) readPause(r *http.Request) (*queuePause, error) {
	lane, model, err := c.queueOf(r)
	if err != nil {
		return nil, err
	}
	queues, err := c.Reader.Queues(r.Context())
	if err != nil {
		return nil, err
	}
	v := &queuePause{QueueCount: models.QueueCount{Lane: lane, Model: model}}
	for _, q := range queues {
		if q.Lane == lane && (model == "" || q.Model == model) {
			v.Depth += q.Depth
			v.Running += q.Running
		}
	}
	return v, nil
}

func (c *queuesController) queuePause(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := readForm(r); err != nil {
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
		return render(w, r, http.StatusUnprocessableEntity, queuePausePage(v))
	}
	if err != nil {
		return err
	}
	return c.done(w, r, "/queues", "Paused "+queueName(lane, model)+".")
}

func (c *queuesController) queueResume(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	lane, model, err := c.queueOf(r)
	if err != nil {
		return err
	}
	if _, err = c.Operator.ResumeQueue(r.Context(), p, lane, model); err != nil {
		return err
	}
	return c.done(w, r, "/queues", "Resumed "+queueName(lane, model)+".")
}

// queueOf returns the queue in an address, or NOT_FOUND.
func (c *queuesController) queueOf(r *http.Request) (lane models.Tier, model string, err error) {
	lane, model = models.Tier(strings.ToUpper(r.PathValue("lane"))), r.URL.Query().Get("model")
	if !slices.Contains(models.Tiers, lane) {
		return "", "", apierror.NotFound("lane")
	}
	if model != "" {
		if _, err := c.Reader.Catalogue.Current().Model(model); err != nil {
			return "", "", err
		}
	}
	return lane, model, nil
}
