package submit

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// write writes the accepted jobs. Rows for which workers wait are locked after everything is
// written.
func (b *submitBatch) write(ctx context.Context, sealer *seal.Sealer) error {
	if len(b.changes) == 0 {
		return nil
	}
	if err := change.PlaceAll(ctx, b.tx, b.changes); err != nil {
		return err
	}
	if err := b.writeJobs(ctx, b.tx); err != nil {
		return fmt.Errorf("write the jobs: %w", err)
	}
	if err := b.writeInputs(ctx); err != nil {
		return fmt.Errorf("write the inputs of the jobs: %w", err)
	}
	if err := b.moveDraftFiles(ctx); err != nil {
		return fmt.Errorf("hand over the draft: %w", err)
	}
	if err := b.writeRequests(ctx); err != nil {
		return fmt.Errorf("write the requests of the Videos API: %w", err)
	}
	if err := b.ensureCallbacks(ctx, sealer); err != nil {
		return fmt.Errorf("write the callbacks' endpoints: %w", err)
	}
	if graph := b.calls[0].graph; graph != nil {
		if err := graph.write(ctx, b.tx, sealer); err != nil {
			return fmt.Errorf("write the workflow: %w", err)
		}
	}
	if err := b.writeParents(ctx); err != nil {
		return err
	}
	if err := b.reuse(ctx); err != nil {
		return fmt.Errorf("look for results that the jobs can have: %w", err)
	}
	return b.count(ctx)
}

// insertMost is how many jobs one statement of a large submit writes. Each statement has a timeout.
const insertMost = 1000

// writeJobs writes the jobs with their own rows.
func (b *submitBatch) writeJobs(ctx context.Context, db bun.IDB) error {
	rows := models.NewJobs{
		Jobs: make([]*models.NewJob, len(b.changes)), Judged: !b.start.Now.IsZero(), Now: b.start.Now, Wait: b.wait,
	}
	if !rows.Judged {
		rows.Accounts = b.expected()
	}
	var queued []*models.Job
	for i, c := range b.changes {
		rows.Jobs[i] = &models.NewJob{Job: c.Job, Event: c.Events[0], Input: b.of[c].input}
		if c.Job.Status == models.JobQueued && !c.Job.Reuse {
			queued = append(queued, c.Job)
		}
	}
	for _, message := range change.ReadyMessages(queued) {
		rows.Ready = append(rows.Ready, message.Payload)
	}
	all := rows.Jobs
	for some := range slices.Chunk(all, lo.Ternary(rows.Judged, insertMost, len(all))) {
		rows.Jobs = some
		if err := models.InsertJobs(ctx, db, rows); err != nil {
			return err
		}
		rows.Ready = nil
	}
	for i, c := range b.changes {
		if !all[i].Written && rows.Judged { // a plain submit used the key in the meantime
			return fmt.Errorf("job %s was not written: %w", c.Job.ID, postgres.ErrLostRace)
		}
		if c.Job.Status == models.JobQueued {
			c.Ready = change.ReadyOf(c.Job, all[i].VirtualTime)
		}
	}
	return nil
}

func (b *submitBatch) expected() []models.ExpectedAccount {
	return lo.MapToSlice(b.accounts, func(id models.AccountID, account *models.Account) models.ExpectedAccount {
		return models.ExpectedAccount{ID: id, Tier: account.Tier}
	})
}

// writeInputs writes which files the jobs start from, and for which jobs images must be fetched.
func (b *submitBatch) writeInputs(ctx context.Context) error {
	var uses []*models.InputUse
	var sources []models.JobSource
	var remote []*models.Job
	for _, c := range b.changes {
		one := b.of[c]
		ids := lo.Map(one.stored.Uploads, func(u inputs.Uploaded, _ int) models.ArtifactID { return u.ID })
		for _, id := range lo.Uniq(ids) {
			uses = append(uses, &models.InputUse{JobID: c.Job.ID, ArtifactID: id, Reference: string(id)})
		}
		sources = append(sources, inputs.SourcesOf(c.Job.ID, one.stored.Results)...)
		if len(inputs.Remotes(one.files)) > 0 {
			remote, c.Due = append(remote, c.Job), true
		}
	}
	if err := postgres.InBatches(sources, func(some []models.JobSource) error { return models.InsertSources(ctx, b.tx, some) }); err != nil {
		return err
	}
	if err := postgres.InBatches(uses, func(some []*models.InputUse) error { return models.InsertInputUses(ctx, b.tx, some) }); err != nil {
		return err
	}
	if len(remote) > 0 {
		return models.InsertInputFetches(ctx, b.tx, remote...)
	}
	return nil
}

// writeRequests writes the requests of the Videos API.
func (b *submitBatch) writeRequests(ctx context.Context) error {
	var kept []*models.Video
	for _, c := range b.changes {
		if video := b.of[c].in.Video; video != nil {
			kept = append(kept, video.row(c.Job))
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return models.InsertVideos(ctx, b.tx, kept)
}

// ensureCallbacks makes webhook secrets for accounts whose jobs have callbacks.
func (b *submitBatch) ensureCallbacks(ctx context.Context, sealer *seal.Sealer) error {
	var accounts []models.AccountID
	for _, c := range b.changes {
		if c.Job.CallbackURL != "" && !slices.Contains(accounts, c.Job.AccountID) {
			accounts = append(accounts, c.Job.AccountID)
		}
	}
	return change.EnsureCallbackEndpoints(ctx, b.tx, sealer, accounts)
}

// writeParents writes what the jobs depend on, and ends those that depend on a failed job.
func (b *submitBatch) writeParents(ctx context.Context) error {
	var edges []models.JobDependency
	for _, c := range b.changes {
		for _, id := range b.of[c].dependsOn {
			edges = append(edges, models.JobDependency{JobID: c.Job.ID, DependsOn: id, OnFailure: b.of[c].policy()})
		}
	}
	for some := range slices.Chunk(edges, insertMost) {
		if err := models.InsertDependencies(ctx, b.tx, some); err != nil {
			return fmt.Errorf("write what the jobs depend on: %w", err)
		}
	}
	var failed []*change.Change
	for _, c := range b.changes {
		if parent := b.of[c].failed; parent != nil {
			if err := failWithParent(c, parent); err != nil {
				return fmt.Errorf("fail job %s with its parent: %w", c.Job.ID, err)
			}
			failed = append(failed, c)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	if err := change.WriteRows(ctx, b.tx, failed, change.RowsOf(failed, models.Writes{})); err != nil {
		return fmt.Errorf("fail jobs with their parents: %w", err)
	}
	return change.Announce(ctx, b.tx, failed)
}

// reuse completes the jobs that can have the result of another one, and announces the others.
func (b *submitBatch) reuse(ctx context.Context) error {
	asking := lo.Filter(b.changes, func(c *change.Change, _ int) bool { return c.Job.Reuse && c.Job.Status == models.JobQueued })
	if len(asking) == 0 {
		return nil
	}
	for _, c := range asking { // they are written
		c.Before, c.From, c.Events = *c.Job, c.Job.Status, nil
	}
	if err := change.Reuse(ctx, b.tx, asking); err != nil {
		return err
	}
	var queued []*models.Job
	for _, c := range asking {
		if c.Job.Status == models.JobQueued {
			queued = append(queued, c.Job)
		} else {
			c.Ready, b.reused = nil, append(b.reused, c)
		}
	}
	if err := change.WriteReused(ctx, b.tx, b.reused); err != nil {
		return err
	}
	return postgres.InBatches(change.ReadyMessages(queued), func(some []*models.OutboxMessage) error {
		return models.InsertOutbox(ctx, b.tx, some...)
	})
}

// count locks the parents that had not ended, and the account, and counts the jobs that wait.
func (b *submitBatch) count(ctx context.Context) error {
	waiting := lo.Filter(b.changes, func(c *change.Change, _ int) bool { return c.Job.Status.Waiting() })
	if len(waiting) == 0 {
		return nil
	}
	ids := lo.Map(waiting, func(c *change.Change, _ int) models.JobID { return c.Job.ID })
	unsettled, err := b.seen.Confirm(ctx, b.tx, ids)
	if err != nil {
		return err
	}
	waiting[0].Due, b.unsettled = waiting[0].Due || unsettled, unsettled
	queued := map[models.Tier]int{}
	for _, c := range waiting {
		if c.Job.Status == models.JobQueued {
			queued[c.Job.Lane]++
		}
	}
	at, err := models.CountNewJobs(ctx, b.tx, b.accounts[b.calls[0].account], len(waiting), queued)
	if err != nil {
		return fmt.Errorf("count the jobs on their account: %w", err)
	}
	for _, c := range waiting {
		if c.Ready != nil {
			c.Ready.VirtualTime = at[c.Job.Lane]
		}
	}
	return nil
}

// publishSubmitted publishes new jobs after their commit, all at once and without delaying the
// answers. Nobody subscribes to one of them yet.
func publishSubmitted(ctx context.Context, n *change.Notifier, changes []*change.Change) {
	var ready []jobs.ReadyJob
	news := []string{change.TopicChanges}
	for _, c := range changes {
		if n.Observer != nil {
			n.Observer.Submitted(c.Job)
		}
		if c.Ready != nil {
			ready = append(ready, *c.Ready)
		}
		if c.DueSoon() && !slices.Contains(news, change.TopicDue) {
			news = append(news, change.TopicDue)
		}
	}
	if len(changes) == 0 {
		return
	}
	tell := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), change.NotifyTimeout)
		defer cancel()
		n.Ready(ctx, ready...)
		n.Notifications.Publish(ctx, news...)
	}
	if n.Aside != nil {
		n.Aside(tell)
		return
	}
	go tell()
}
