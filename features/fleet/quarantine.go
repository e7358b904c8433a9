package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// crashedJobs is how many different jobs must crash on a host within crashWindow, and nowhere
	// else, before it is quarantined.
	crashedJobs = 3
	crashWindow = time.Hour
	// firstQuarantine is the duration of a host's first quarantine by Reelay. Each further one
	// takes twice as long, up to longestQuarantine.
	firstQuarantine   = 30 * time.Minute
	longestQuarantine = 24 * time.Hour
	// maxQuarantine is the longest quarantine that an operator can request.
	maxQuarantine = 30 * 24 * time.Hour
)

// fatalXids are the errors of NVIDIA's driver that indicate broken hardware and not a broken
// program: memory errors that could not be corrected or remapped (48, 64, 92, 95), halted
// processors of the GPU (62, 119, 120), NVLink (74), and a GPU that is lost (79) or must be
// replaced (140). Source: https://docs.nvidia.com/deploy/xid-errors.
var fatalXids = []int{48, 62, 64, 74, 79, 92, 95, 119, 120, 140}

// QuarantineWorker quarantines a worker's host for that many minutes, 1 to 43,200 (30 days). No
// worker on the machine gets a job, nor does one that registers there later. A running job
// continues. Another call replaces the time and the reason.
func (o *WorkerOperator) QuarantineWorker(ctx context.Context, p jobs.Principal, id models.WorkerID, minutes int,
	reason string) (*models.Worker, error) {
	if minutes < 1 || minutes > int(maxQuarantine.Minutes()) {
		return nil, apierror.Invalid("minutes", "minutes must be from 1 to %.0f.", maxQuarantine.Minutes())
	}
	if !text.Valid(reason, 1, lease.MaxMessageBytes) {
		return nil, apierror.Invalid("reason", "reason must have 1 to %d printable characters.", lease.MaxMessageBytes)
	}
	return o.quarantine(ctx, p, id, "quarantineWorker", jobs.Payload{"minutes": minutes, "reason": reason}, func(q *models.Quarantine) bool {
		q.Until, q.Cause, q.Reason = q.ChangedAt.Add(time.Duration(minutes)*time.Minute), models.QuarantineOperator, reason
		return true
	})
}

// ReleaseQuarantine ends the quarantine of a worker's host. Reelay ignores the causes of that
// quarantine from then on: only new crashes, and GPU errors that workers report when they register
// again, count. It does nothing to a host that is not in quarantine.
func (o *WorkerOperator) ReleaseQuarantine(ctx context.Context, p jobs.Principal, id models.WorkerID) (*models.Worker, error) {
	return o.quarantine(ctx, p, id, "releaseQuarantine", jobs.Payload{}, func(q *models.Quarantine) bool {
		was := q.Until
		q.Until, q.Cause, q.Times = time.Time{}, models.QuarantineOperator, 0
		return !was.IsZero()
	})
}

// quarantine changes the quarantine of a worker's host. change gets the present one, with ChangedAt
// set to now, and reports whether it changed it.
func (o *WorkerOperator) quarantine(ctx context.Context, p jobs.Principal, id models.WorkerID, action string, note jobs.Payload,
	change func(*models.Quarantine) bool) (*models.Worker, error) {
	if err := operates(p, id); err != nil {
		return nil, err
	}
	var workers []models.WorkerID
	err := jobs.InTx(ctx, o.DB, func(ctx context.Context, tx bun.Tx) error {
		w, err := jobs.GetWorker(ctx, tx, id)
		if err != nil {
			return err
		}
		if w.Status == models.WorkerTerminated {
			return errTerminated
		}
		q, err := quarantineOf(ctx, tx, models.Host{Provider: w.Provider, InstanceID: w.ProviderInstanceID})
		if err != nil || !change(q) {
			return err
		}
		if err := models.SetQuarantine(ctx, tx, q); err != nil {
			return err
		}
		if workers, err = models.CopyQuarantines(ctx, tx); err != nil {
			return err
		}
		return p.Audit(ctx, tx, action, string(id), note)
	})
	if err != nil {
		return nil, apierror.Wrap(err, "change the quarantine of worker %s", id)
	}
	for _, worker := range workers {
		o.Notifier.Worker(ctx, worker)
	}
	return jobs.GetWorker(ctx, o.DB, id)
}

// quarantineOf returns the present quarantine of a host, with ChangedAt set to now.
func quarantineOf(ctx context.Context, tx bun.Tx, host models.Host) (*models.Quarantine, error) {
	q, err := models.GetQuarantine(ctx, tx, host)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	q.ChangedAt, err = postgres.Now(ctx, tx)
	return q, err
}

// Quarantiner quarantines failing hosts, and has other machines replace them.
type Quarantiner struct {
	DB       *bun.DB
	Notifier *change.Notifier
	// Providers are those whose machines are replaced.
	Providers map[string]Provider
}

// quarantineLock is the advisory lock that allows one process to decide at a time.
const quarantineLock = 0x7175617261

// Pass runs one round. It returns how many hosts it quarantined. Any number of processes may call
// it: one of them decides, the others return.
func (q *Quarantiner) Pass(ctx context.Context) (int, error) {
	var bad []*models.Quarantine
	var workers []models.WorkerID
	err := jobs.InTx(ctx, q.DB, func(ctx context.Context, tx bun.Tx) (err error) {
		bad, workers = nil, nil
		mine, err := postgres.TryLock(ctx, tx, quarantineLock)
		if err != nil || !mine {
			return err
		}
		if bad, err = q.judge(ctx, tx); err != nil {
			return err
		}
		if _, err := models.ExtendOldestQuarantines(ctx, tx, longestQuarantine); err != nil {
			return fmt.Errorf("hold machines that failed: %w", err)
		}
		if workers, err = models.CopyQuarantines(ctx, tx); err != nil {
			return fmt.Errorf("copy quarantines to workers: %w", err)
		}
		drained, err := q.replace(ctx, tx)
		workers = append(workers, drained...)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("quarantine hosts: %w", err)
	}
	for _, b := range bad {
		slog.WarnContext(ctx, "a host is in quarantine", "provider", b.Provider, "instance", b.InstanceID, "cause", b.Cause, "reason", b.Reason,
			"until", b.Until)
	}
	for _, worker := range workers {
		q.Notifier.Worker(ctx, worker)
	}
	return len(bad), nil
}

// judge quarantines the failing hosts. Hosts on which models crash are handled one at a time, so
// that the next one is judged without the crashes of the first.
func (q *Quarantiner) judge(ctx context.Context, tx bun.Tx) ([]*models.Quarantine, error) {
	faulty, err := models.ListFaultyHosts(ctx, tx, fatalXids)
	if err != nil {
		return nil, fmt.Errorf("look for faulty GPUs: %w", err)
	}
	var bad []*models.Quarantine
	add := func(host models.Host, cause models.QuarantineCause, reason string) error {
		found, err := quarantineOf(ctx, tx, host)
		if err != nil {
			return err
		}
		found.Until, found.Cause, found.Reason = found.ChangedAt.Add(quarantineTime(found.Times)), cause, reason
		found.Times++
		bad = append(bad, found)
		return models.SetQuarantine(ctx, tx, found)
	}
	for _, f := range faulty {
		if err := add(f.Host, models.QuarantineGPU, whyFaulty(f)); err != nil {
			return nil, err
		}
	}
	crashing, err := models.ListCrashingHosts(ctx, tx, crashedJobs, crashWindow)
	if err != nil || len(crashing) == 0 {
		return bad, err
	}
	worst := crashing[0]
	reason := fmt.Sprintf("The models of %s crashed here within an hour, or made videos that were broken, and none of these jobs failed elsewhere.", text.Count(worst.Jobs, "job"))
	return bad, add(worst.Host, models.QuarantineCrashes, reason)
}

func whyFaulty(f models.FaultyHost) string {
	if f.Xid > 0 {
		return fmt.Sprintf("GPU %d reported XID %d, an error of its hardware.", f.GPU, f.Xid)
	}
	return fmt.Sprintf("GPU %d has had %s that could not be corrected.", f.GPU, text.Count(int(f.ECCUncorrected), "memory error"))
}

// quarantineTime returns the duration of the next quarantine of a host after so many earlier ones.
func quarantineTime(times int) time.Duration {
	return min(firstQuarantine<<min(times, 10), longestQuarantine)
}

// replace drains idle workers on failed hosts: their machines end, and the scaler boots others.
func (q *Quarantiner) replace(ctx context.Context, tx bun.Tx) (drained []models.WorkerID, err error) {
	ids, err := models.ListReplaceable(ctx, tx, slices.Sorted(maps.Keys(q.Providers)))
	if err != nil {
		return nil, fmt.Errorf("look for machines to replace: %w", err)
	}
	for _, id := range ids {
		ok, err := capacity.DrainIdleWorker(ctx, tx, id, "its host is in quarantine: another machine replaces it", false)
		if err != nil {
			return nil, fmt.Errorf("drain worker %s: %w", id, err)
		}
		if ok {
			drained = append(drained, id)
		}
	}
	return drained, nil
}
