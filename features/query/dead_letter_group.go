package query

import (
	"context"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
)

// FailingHosts returns on which hosts the newest dead letters of each of these causes ended, at
// most newest of each cause, by fingerprint. The host with the most comes first.
func (r *DeadLetters) FailingHosts(ctx context.Context, fingerprints []string, resolved bool, newest int) (map[string][]*models.FailingHost,
	error) {
	found, err := models.ListFailingHosts(ctx, r.db, fingerprints, resolved, newest)
	if err != nil {
		return nil, apierror.Wrap(err, "list failing hosts")
	}
	hosts := map[string][]*models.FailingHost{}
	for _, h := range found {
		hosts[h.Fingerprint] = append(hosts[h.Fingerprint], h)
	}
	return hosts, nil
}

// Group returns the dead letters with one cause, open or resolved, or NOT_FOUND.
func (r *DeadLetters) Group(ctx context.Context, fingerprint string, resolved bool) (*models.DeadLetterGroup, error) {
	if err := ValidDeadLetterFilter(models.DeadLetterFilter{Fingerprint: fingerprint}); err != nil {
		return nil, err
	}
	groups, err := models.GroupDeadLetters(ctx, r.db, models.DeadLetterFilter{Fingerprint: fingerprint, Resolved: resolved}, 1)
	if err == nil && len(groups) == 0 {
		return nil, apierror.NotFound("dead letter group")
	}
	if err != nil {
		return nil, apierror.Wrap(err, "read dead letters %s", fingerprint)
	}
	return groups[0], nil
}

// Attempts returns the attempts of a dead letter's run, oldest first.
func (r *DeadLetters) Attempts(ctx context.Context, letter *models.DeadLetter) ([]*models.Attempt, error) {
	all, err := models.ListAttempts(ctx, r.db, []models.JobID{letter.JobID})
	return slices.DeleteFunc(all, func(a *models.Attempt) bool { return a.Run != letter.Run }), apierror.Wrap(err, "list attempts")
}

// Workers returns the workers of the last attempts of these dead letters. Those without an
// attempt are left out.
func (r *DeadLetters) Workers(ctx context.Context, letters []*models.DeadLetter) (map[models.DeadLetterID]*models.Worker, error) {
	if len(letters) == 0 {
		return nil, nil
	}
	var jobs []models.JobID
	for _, d := range letters {
		jobs = append(jobs, d.JobID)
	}
	attempts, err := models.ListAttempts(ctx, r.db, jobs)
	if err != nil {
		return nil, apierror.Wrap(err, "list attempts")
	}
	type run struct {
		job models.JobID
		run int
	}
	last := map[run]models.WorkerID{}
	var ids []models.WorkerID
	for _, a := range attempts { // oldest first
		last[run{a.JobID, a.Run}] = a.WorkerID
		ids = append(ids, a.WorkerID)
	}
	workers := map[models.WorkerID]*models.Worker{}
	if len(ids) > 0 {
		found, err := models.GetWorkers(ctx, r.db, ids)
		if err != nil {
			return nil, apierror.Wrap(err, "read workers")
		}
		for _, w := range found {
			workers[w.ID] = w
		}
	}
	of := map[models.DeadLetterID]*models.Worker{}
	for _, d := range letters {
		if w := workers[last[run{d.JobID, d.Run}]]; w != nil {
			of[d.ID] = w
		}
	}
	return of, nil
}
