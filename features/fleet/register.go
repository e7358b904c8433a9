package fleet

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Registration is a worker's description of itself.
type Registration struct {
	Provider           string
	ProviderInstanceID string
	Slot               int
	GPUCount           int
	PoolID             models.PoolID // or the pool's name
	Region             string
	Zone               string
	GPUType            string
	GPUMemoryBytes     *int64
	CapacityClass      models.CapacityClass
	Models             []string
	WarmModels         []string
	AgentVersion       string
	// IdentityToken is a secret. The API verifies it: see jobs.Principal.Machine.
	IdentityToken string
}

// maxSlot bounds the number of a worker's slot on its machine.
const maxSlot = 1000

// Registrar registers and deregisters workers.
type Registrar struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
	Notifier  *change.Notifier
}

// Register makes a worker and its own token. A worker that was registered in the same slot of the
// same machine ends, and its job is queued again; only the same enrolment key, or the same machine,
// may do that. If the scaler booted the worker, Register completes the row that the scaler wrote.
func (r *Registrar) Register(ctx context.Context, p jobs.Principal, in Registration) (*models.Worker, string, error) {
	if p.WorkerID != "" {
		return nil, "", apierror.Forbidden("A worker registers with an enrolment key (rl_live_…), not with a worker's token.")
	}
	if err := r.validate(&in); err != nil {
		return nil, "", r.refused(ctx, in, err)
	}
	secret, hash := secrets.New(secrets.WorkerPrefix)
	fresh := models.Worker{
		ID: models.NewWorkerID(), Provider: in.Provider, ProviderInstanceID: in.ProviderInstanceID, Slot: in.Slot, EnrolmentKeyID: p.KeyID,
	}
	var worker *models.Worker
	var done *change.Change
	err := jobs.InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
		in := in // a repetition of the transaction looks for the name again
		pool, err := enter(ctx, tx, in.PoolID)
		if err != nil {
			return err
		}
		if pool != nil {
			in.PoolID = pool.ID
		}
		if err := admit(ctx, tx, p.Machine, pool, &in); err != nil {
			return err
		}
		if err := drives(ctx, tx, pool, &in); err != nil {
			return err
		}
		booted, requeued, err := r.replace(ctx, tx, p, in)
		if err != nil {
			return err
		}
		done = requeued
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		first := fresh
		first.PoolID = in.PoolID
		worker = cmp.Or(booted, &first)
		in.describe(worker)
		if pool != nil {
			worker.Tiers, worker.Accounts, worker.PricePerHourUSD = pool.Tiers, pool.Accounts, new(pool.PriceAt(now))
		}
		worker.Status, worker.TokenHash, worker.EnrolmentKeyID = models.WorkerIdle, hash, p.KeyID
		worker.Machine = placeOf(p)
		worker.RegisteredAt, worker.LastHeartbeatAt, worker.IdleSince, worker.BootFailure = now, now, now, ""
		if err := started(ctx, tx, pool); err != nil {
			return err
		}
		if worker.WorkerQuarantine, err = models.QuarantineOf(ctx, tx,
			models.Host{Provider: in.Provider, InstanceID: in.ProviderInstanceID}); err != nil {
			return err
		}
		if err := capacity.MachineRegistered(ctx, tx, in.Provider, in.ProviderInstanceID, now); err != nil {
			return fmt.Errorf("write the registration into the ledger of machines: %w", err)
		}
		if booted != nil {
			return models.UpdateWorker(ctx, tx, worker, models.WorkerBooting)
		}
		err = models.InsertWorker(ctx, tx, worker)
		if errors.Is(err, sql.ErrNoRows) {
			return errSlotTaken
		}
		return err
	})
	if err != nil {
		return nil, "", apierror.Wrap(r.refused(ctx, in, err), "register %s", text.Clip(in.ProviderInstanceID, 64))
	}
	r.Notifier.After(ctx, done)
	return worker, secret, nil
}

var errSlotTaken = apierror.Conflict("Another agent has just registered as this instance.")

func (in *Registration) describe(w *models.Worker) {
	w.GPUCount, w.Region, w.Zone, w.GPUType, w.GPUMemoryBytes = in.GPUCount, in.Region, in.Zone, in.GPUType, in.GPUMemoryBytes
	w.CapacityClass, w.Models, w.WarmModels, w.AgentVersion = in.CapacityClass, in.Models, in.WarmModels, in.AgentVersion
}

// replace ends the worker that was registered there before. If a booting worker waits there,
// replace returns it instead.
func (r *Registrar) replace(ctx context.Context, tx bun.Tx, p jobs.Principal, in Registration) (*models.Worker, *change.Change, error) {
	old, err := models.FindWorkerBySlot(ctx, tx, in.Provider, in.ProviderInstanceID, in.Slot)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if old.Status == models.WorkerBooting {
		w, err := models.LockWorker(ctx, tx, old.ID)
		if err == nil && w.Status != models.WorkerBooting {
			err = errSlotTaken
		}
		if err == nil && p.Machine != nil && w.PoolID != in.PoolID {
			err = apierror.Forbidden("This instance was made for another pool.")
		}
		return w, nil, err
	}
	if err := mayReplace(ctx, tx, p, old); err != nil {
		return nil, nil, err
	}
	c, err := terminate(ctx, tx, old.ID, lease.Loss{Reason: "its agent registered again"})
	return nil, c, err
}

// mayReplace returns nil if an enrolment key may take over a worker's slot: it is the key that
// enrolled the worker or, if that key is no longer valid, another one of its account.
func mayReplace(ctx context.Context, tx bun.Tx, p jobs.Principal, old *models.Worker) error {
	switch {
	case p.Machine != nil && old.Machine == placeOf(p), p.Machine == nil && old.Machine == "" && old.EnrolmentKeyID == p.KeyID:
		return nil
	case p.Machine != nil || old.Machine != "":
		return apierror.Forbidden("This instance is registered in another way, by a key or by the identity of a machine: terminate its worker first.")
	}
	keys, err := access.GetAPIKeys(ctx, tx, []models.KeyID{old.EnrolmentKeyID})
	if err != nil {
		return err
	}
	if len(keys) == 1 && keys[0].AccountID == p.AccountID {
		_, err := access.GetAPIKey(ctx, tx, old.EnrolmentKeyID)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return apierror.Forbidden("This instance is registered under another enrolment key: revoke that one first.")
}

// terminate ends a worker permanently and requeues its job. The change is nil if it had none. The
// worker's row is locked first, so that it cannot get another job.
func terminate(ctx context.Context, tx bun.Tx, id models.WorkerID, lost lease.Loss) (*change.Change, error) {
	w, err := models.LockWorker(ctx, tx, id)
	if err != nil || w.Status == models.WorkerTerminated {
		return nil, err
	}
	var done *change.Change
	attempt, err := models.FindLiveAttempt(ctx, tx, id)
	if err == nil {
		if done, err = lease.EndLost(ctx, tx, attempt, lost); err == nil {
			w, err = models.LockWorker(ctx, tx, id) // the present row
		}
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	was := w.Status
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	w.Status, w.TokenHash, w.EndedAt = models.WorkerTerminated, nil, now
	if was == models.WorkerIdle || was == models.WorkerBusy {
		w.LostAt = now
	}
	if err := models.UpdateWorker(ctx, tx, w, was); err != nil {
		return nil, fmt.Errorf("terminate worker %s: %w", id, err)
	}
	return done, nil
}

func (r *Registrar) validate(in *Registration) error {
	for name, value := range map[string]string{"provider": in.Provider, "providerInstanceId": in.ProviderInstanceID, "region": in.Region,
		"gpuType": in.GPUType} {
		if !text.Valid(value, 1, text.MaxName) {
			return apierror.Invalid(name, "%s must have 1 to %d printable characters.", name, text.MaxName)
		}
	}
	switch {
	case !text.Valid(in.Zone, 0, text.MaxName):
		return apierror.Invalid("zone", "zone may have %d printable characters.", text.MaxName)
	case !text.Valid(in.AgentVersion, 0, text.MaxName):
		return apierror.Invalid("agentVersion", "agentVersion may have %d printable characters.", text.MaxName)
	case in.Slot < 0 || in.Slot > maxSlot:
		return apierror.Invalid("slot", "slot must be from 0 to %d.", maxSlot)
	case in.GPUCount < 1 || in.GPUCount > lease.MaxGPUs:
		return apierror.Invalid("gpuCount", "gpuCount must be from 1 to %d.", lease.MaxGPUs)
	case in.GPUMemoryBytes != nil && *in.GPUMemoryBytes < 0:
		return apierror.Invalid("gpuMemoryBytes", "gpuMemoryBytes must be 0 or more.")
	case len(in.Models) == 0 && in.Provider != engine.Provider:
		return apierror.Invalid("models", "A worker runs 1 to %d models.", catalogue.MaxWorkerModels)
	}
	if err := cmp.Or(catalogue.ValidNames("models", in.Models), catalogue.ValidNames("warmModels", in.WarmModels)); err != nil {
		return err
	}
	if in.WarmModels == nil {
		in.WarmModels = []string{}
	}
	if in.PoolID != "" && !in.PoolID.Valid() && !poolName.MatchString(string(in.PoolID)) {
		return apierror.Invalid("poolId",
			"poolId must be the id or the name of a pool: a name has 1 to 40 lower-case letters, digits and hyphens.")
	}
	return nil
}

// When a worker should try again to register in a pool that is paused, or that does not exist yet.
const (
	pauseRetry   = time.Minute
	newPoolRetry = 10 * time.Second
)

// refused records with a booting worker why the registration of its agent was refused, and returns
// the error. It does not record refusals that end by themselves or that the API did not decide.
func (r *Registrar) refused(ctx context.Context, in Registration, err error) error {
	var why *apierror.Error
	if !errors.As(err, &why) || why.Code == apierror.CodeUnavailable || why.Code == apierror.CodeOverloaded ||
		!text.Valid(in.Provider, 1, text.MaxName) || !text.Valid(in.ProviderInstanceID, 1, text.MaxName) || in.Slot < 0 || in.Slot > maxSlot {
		return err
	}
	cause := text.Clip(text.Printable("the API refused the registration: "+why.Message), lease.MaxMessageBytes)
	if failed := capacity.RecordBootFailure(ctx, r.DB, in.Provider, in.ProviderInstanceID, in.Slot, cause); failed != nil {
		slog.WarnContext(ctx, "the refusal of a registration could not be recorded", "machine", text.Clip(in.ProviderInstanceID, 64), "error",
			failed)
	}
	return err
}

// started clears the refusals of a pool whose provider accepts machines again, and its boot
// failures, unless its last machine also registered and then ended: see settleBoots. If the pool
// has any of these, it is locked for a write.
func started(ctx context.Context, tx bun.Tx, pool *capacity.Pool) error {
	if pool == nil {
		return nil
	}
	if refusedBefore(pool) {
		if err := capacity.ClearRefusals(ctx, tx, pool.ID); err != nil {
			return err
		}
	}
	if pool.BootFailures == 0 || pool.BootExits {
		return nil
	}
	pool.PoolBoots = capacity.PoolBoots{}
	return capacity.SetPoolBoots(ctx, tx, pool)
}

// refusedBefore reports whether the provider refused machines of the pool before it accepted the
// newest one.
func refusedBefore(p *capacity.Pool) bool { return p.Refusals > 0 && p.BackoffUntil.IsZero() }

// enter locks the pool with this id or name until a worker has joined it. A paused pool accepts no
// workers. A worker can come before the pool of its name, so that refusal is temporary, too.
func enter(ctx context.Context, tx bun.Tx, id models.PoolID) (*capacity.Pool, error) {
	if id == "" {
		return nil, nil
	}
	if !id.Valid() {
		var err error
		if id, err = findPool(ctx, tx, string(id), "poolId"); err != nil {
			return nil, err
		}
	}
	lock := capacity.PoolsStay
	seen, err := capacity.GetPools(ctx, tx, []models.PoolID{id})
	if err != nil {
		return nil, err
	}
	if len(seen) > 0 && (seen[0].BootFailures > 0 || refusedBefore(seen[0])) {
		lock = capacity.PoolsToWrite // see started
	}
	pool, err := capacity.LockPool(ctx, tx, id, lock)
	if err == nil && lock == capacity.PoolsStay {
		// Failures since then wait for the next machine.
		pool.PoolBoots, pool.PoolBackoff = capacity.PoolBoots{}, capacity.PoolBackoff{}
	}
	if err != nil {
		return nil, apierror.OrNotFound(err, "pool")
	}
	if !pool.PausedAt.IsZero() {
		return nil, apierror.Later(apierror.CodeUnavailable, pauseRetry, "The pool %s is paused: it takes no workers.", pool.Name)
	}
	return pool, nil
}

// findPool returns the id of the pool with a name, which the caller gave in a field.
func findPool(ctx context.Context, tx bun.Tx, name, field string) (models.PoolID, error) {
	id, err := capacity.FindPoolID(ctx, tx, name)
	if errors.Is(err, sql.ErrNoRows) {
		err = apierror.Later(apierror.CodeUnavailable, newPoolRetry,
			"There is no pool %s: create it (reelay pools apply), or correct the agent's --pool.", name).In(field)
	}
	return id, err
}

const (
	// maxDrain bounds how far ahead the deadline of a drain may be.
	maxDrain = 24 * time.Hour
	// maxSkew is how far a worker's clock may be wrong.
	maxSkew = 5 * time.Minute
)

// DrainSelf records that a worker takes no more work. deadline is when it will end, or zero if it
// does not know. DrainSelf returns INVALID_INPUT for a deadline in the past or more than a day
// ahead.
func (r *Registrar) DrainSelf(ctx context.Context, p jobs.Principal, id models.WorkerID, reason string, deadline time.Time) (*models.Worker,
	error) {
	if err := p.RequireWorker(id); err != nil {
		return nil, err
	}
	now, err := postgres.Now(ctx, r.DB)
	if err != nil {
		return nil, apierror.Wrap(err, "drain worker %s", id)
	}
	if left := deadline.Sub(now); !deadline.IsZero() && (left < -maxSkew || left > maxDrain) {
		return nil, apierror.Invalid("deadline", "deadline must be within the next %.0f hours; it is now %s.", maxDrain.Hours(),
			text.MomentToSecond(now.UTC(), now))
	}
	return drain(ctx, r.DB, id, text.Clip(text.Printable(reason), lease.MaxMessageBytes), func(time.Time) time.Time { return deadline }, nil)
}

// Deregister ends the worker and requeues its job.
func (r *Registrar) Deregister(ctx context.Context, p jobs.Principal, id models.WorkerID) (*models.Worker, error) {
	if err := p.RequireWorker(id); err != nil {
		return nil, err
	}
	return terminateWorker(ctx, r.DB, r.Notifier, id, lease.Loss{Reason: "its agent went away", Blameless: true})
}

func terminateWorker(ctx context.Context, db *bun.DB, n *change.Notifier, id models.WorkerID, lost lease.Loss) (*models.Worker, error) {
	var done *change.Change
	err := jobs.InTx(ctx, db, func(ctx context.Context, tx bun.Tx) (err error) {
		done, err = terminate(ctx, tx, id, lost)
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "worker"), "end worker %s", id)
	}
	n.After(ctx, done)
	n.Worker(ctx, id)
	return jobs.GetWorker(ctx, db, id)
}

// drain makes a worker take no more jobs. A worker that drains or has ended stays as it is. note,
// if not nil, is called with the worker in the transaction.
func drain(
	ctx context.Context, db *bun.DB, id models.WorkerID, reason string, deadline func(now time.Time) time.Time,
	note func(tx bun.Tx, w *models.Worker) error,
) (*models.Worker, error) {
	var w *models.Worker
	err := jobs.InTx(ctx, db, func(ctx context.Context, tx bun.Tx) error {
		var err error
		if w, err = models.LockWorker(ctx, tx, id); err != nil {
			return apierror.OrNotFound(err, "worker")
		}
		if note != nil {
			if err := note(tx, w); err != nil {
				return err
			}
		}
		was := w.Status
		if !change.CanWorkerMove(was, models.WorkerDraining) {
			return nil
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		w.Status, w.DrainReason, w.DrainDeadline = models.WorkerDraining, reason, deadline(now)
		return models.UpdateWorker(ctx, tx, w, was)
	})
	return w, apierror.Wrap(err, "drain worker %s", id)
}
