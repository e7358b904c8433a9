package lease

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// freeSlots gives back the slots at hosted providers of the jobs of these attempts, if they have ended or have the
// provider's result, which is only uploaded now. Work that a provider may still do keeps its slot for a while.
func freeSlots(ctx context.Context, tx bun.Tx, all []*lockedLease) error {
	var free []models.JobID
	var keep []capacity.SlotWish
	for _, h := range all {
		switch {
		case h.worker.Provider != engine.Provider:
		case h.attempt.EndedAt.IsZero() && h.job.Status != models.JobCompleting:
		case h.atWork:
			keep = append(keep, capacity.SlotWish{PoolID: h.worker.PoolID, JobID: h.job.ID})
		default:
			free = append(free, h.job.ID)
		}
	}
	if len(free)+len(keep) == 0 {
		return nil
	}
	if err := capacity.FreeSlots(ctx, tx, free, keep); err != nil {
		return fmt.Errorf("give back slots at a provider: %w", err)
	}
	return nil
}

// hasAnswer reports whether a handle says that its submit was answered: then a provider has the work for certain, but this
// worker cannot see it, such as that of another account. The agent's package remote writes such handles.
func hasAnswer(handle string) bool {
	var h struct {
		Ref string `json:"ref"`
	}
	return json.Unmarshal([]byte(handle), &h) == nil && h.Ref != ""
}

// usualUnknownWait is how long a job waits for a decision whose pool no longer says it.
const usualUnknownWait = 24 * time.Hour

// submitUnknown decides what becomes of a job whose submit a hosted provider did not answer: what the limits of
// its account say. One that waited for a decision in vain is given up. Work that a provider has for certain is never paid
// again without a decision.
func (l *lockedLease) submitUnknown(ctx context.Context, before models.FailureClass, reason string) error {
	policy := capacity.ProviderLimits{OnUnknown: capacity.UnknownWait, UnknownWait: usualUnknownWait}
	account, err := capacity.GetProviderAccount(ctx, l.change.Tx, l.worker.PoolID)
	if err == nil {
		policy = account.ProviderLimits
	} else if !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read the account at the provider: %w", err)
	}
	switch job := l.job; {
	case policy.OnUnknown == capacity.UnknownPayAgain && !hasAnswer(job.Handle):
		job.Failures++ // or a provider that never answers would be paid without end
		l.attempt.Counted = true
		if job.Failures >= job.MaxAttempts || job.AtMostOnce {
			return l.change.Failed(models.FailSubmitUnknown, reason)
		}
		job.Handle = ""
		return l.requeue("the submit was not answered; as configured, the job is submitted again and may be paid twice")
	case policy.OnUnknown == capacity.UnknownGiveUp, job.AtMostOnce:
		return l.change.Failed(models.FailSubmitUnknown, reason)
	case before == models.FailSubmitUnknown:
		return l.change.Failed(models.FailSubmitUnknown, fmt.Sprintf("%s Nobody decided within %s.", reason, policy.UnknownWait))
	}
	return l.retryLater(models.FailSubmitUnknown, reason, policy.UnknownWait)
}
