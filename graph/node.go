package graph

import (
	"context"
	"errors"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
)

// node finds a row by an id of any kind but keys and sessions.
func (r *Resolver) node(ctx context.Context, p jobs.Principal, id string) (Node, error) {
	switch models.IDKind(id) {
	case "job":
		return found(r.Reads.Jobs.Get(ctx, p, models.JobID(id)))
	case "att":
		return found(r.Reads.Jobs.Attempt(ctx, p, models.AttemptID(id)))
	case "art":
		return found(r.Reads.Jobs.Artifact(ctx, p, models.ArtifactID(id)))
	case "wrk":
		if seen, err := r.Reads.Fleet.SeesWorker(ctx, p, models.WorkerID(id)); err != nil || !seen {
			return nil, orNotFound(err)
		}
		return found(r.Reads.Fleet.Worker(ctx, models.WorkerID(id)))
	case "acc":
		if p.AccountID != models.AccountID(id) && !p.May(access.RoleViewer) {
			return nil, orNotFound(nil)
		}
		account, err := load(ctx).Accounts.Load(ctx, models.AccountID(id))
		if account == nil {
			return nil, orNotFound(err)
		}
		return account, nil
	case "pol":
		if !p.May(access.RoleViewer) {
			return nil, orNotFound(nil)
		}
		return found(r.Reads.Fleet.Pool(ctx, models.PoolID(id)))
	case "dead":
		return found(r.Reads.DeadLetters.Get(ctx, p, models.DeadLetterID(id)))
	case "bulk":
		return found(r.Bulk.Get(ctx, p, models.BulkID(id)))
	case "sch":
		return found(r.Schedules.Get(ctx, p, models.ScheduleID(id)))
	case "wfl":
		return found(r.Workflows.Get(ctx, p, models.WorkflowID(id)))
	case "alr":
		return found(r.Alerts.Get(ctx, p, models.AlertID(id)))
	case "whk":
		return found(r.Reads.Webhooks.Endpoint(ctx, p, models.WebhookEndpointID(id)))
	case "whd":
		return found(r.Reads.Webhooks.Delivery(ctx, p, models.WebhookDeliveryID(id)))
	}
	return nil, orNotFound(nil)
}

// found returns a row as a Node. A failed look-up returns a Node that is nil, and the
// same NOT_FOUND for every kind of row.
func found[T any](row *T, err error) (Node, error) {
	if err == nil {
		return row, nil
	}
	if errors.Is(err, orNotFound(nil)) {
		err = nil
	}
	return nil, orNotFound(err)
}

func orNotFound(err error) error {
	if err != nil {
		return err
	}
	return apierror.NotFound("object")
}
