package query

import (
	"context"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
)

// whySubmitUnknown says that a job waits for a decision about its submit.
func whySubmitUnknown(job *models.Job, now time.Time) WaitingReason {
	return WaitingReason{Code: WaitSubmitUnknown, Until: job.RunAt, Message: job.FailureReason,
		Consequence: "It waits for a decision until " + text.MomentToSecond(job.RunAt.UTC(), now) + ", and fails then.",
		Change: "An operator looks at the provider's own list of jobs, and decides whether to submit it again: " +
			"`reelay jobs decide " + string(job.ID) + " --pay-again` or `--give-up`."}
}

// hosted reports whether a hosted provider renders a model.
func hosted(known *catalogue.Snapshot, model string) bool {
	m, err := known.Model(model)
	return err == nil && engine.Kind(m.Runtime).Hosted() != nil
}

// whyNoSlot says why no account at a hosted provider takes a job of a model now. It is nil if one has room, and for
// other models.
func whyNoSlot(known *catalogue.Snapshot, accounts []*capacity.ProviderUse, model string) *WaitingReason {
	if !hosted(known, model) {
		return nil
	}
	var best *capacity.ProviderUse
	for _, u := range accounts {
		if !slices.Contains(u.Models, model) {
			continue
		}
		if u.State() == capacity.ProviderReady {
			return nil
		}
		if best == nil || u.State() == capacity.ProviderFull {
			best = u
		}
	}
	switch {
	case best == nil:
		return nil
	case best.State() == capacity.ProviderFull:
		return &WaitingReason{Code: WaitProviderSlot, Message: best.Why(),
			Consequence: "It starts when one of the jobs there has ended and its turn has come.",
			Change:      "An operator raises concurrent in the file of REELAY_PROVIDER_LIMITS, if the account allows more."}
	}
	reason := &WaitingReason{Code: WaitProviderAway, Message: best.Title() + " takes no jobs at the moment.", Cause: best.Why(),
		Consequence: "It starts once the provider answers as it should.",
		Change:      "Nothing needs to be done if the provider recovers; a key that it refuses is replaced in the agent's file of secrets."}
	if until := best.Until(); until != nil {
		reason.Until = *until
	}
	return reason
}

// ProviderWait says how many jobs of a queue wait for a hosted provider, and why: the reason is one of each of them.
type ProviderWait struct {
	Jobs int
	WaitingReason
}

// ForSlot reports whether the jobs wait for a slot, and not for a provider that takes no jobs.
func (w *ProviderWait) ForSlot() bool { return w.Code == WaitProviderSlot }

// ProviderWait returns how many of the jobs that wait in the queue wait for a hosted provider, or nil if none does.
func (c *QueueCapacity) ProviderWait(depth int) *ProviderWait {
	if c.noSlot == nil || depth == 0 {
		return nil
	}
	return &ProviderWait{Jobs: depth, WaitingReason: *c.noSlot}
}

// noSlots returns why jobs of these queues wait for hosted providers, by model.
func (r *Queues) noSlots(ctx context.Context, queues []backlog.QueueCount) (map[string]*WaitingReason, error) {
	known := r.catalogue.Current()
	if !slices.ContainsFunc(queues, func(q backlog.QueueCount) bool { return hosted(known, q.Model) }) {
		return nil, nil
	}
	accounts, err := capacity.ListProviderUse(ctx, r.db, nil)
	if err != nil {
		return nil, apierror.Wrap(err, "read the accounts at providers")
	}
	why := map[string]*WaitingReason{}
	for _, q := range queues {
		why[q.Model] = whyNoSlot(known, accounts, q.Model)
	}
	return why, nil
}
