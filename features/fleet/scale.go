package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Scaler sizes pools by the jobs that wait for them.
type Scaler struct {
	DB        *bun.DB
	Notifier  *change.Notifier
	Providers map[string]Provider
	Policy    Policy

	calls     calls
	pastRates pastRates
	surveys   surveys
}

// scalerLock is the advisory lock that allows one process to scale at a time.
const scalerLock = 0x7363616c65

// Stop cancels the running calls to providers and waits for them for some seconds, so that no
// program of a provider outlives the process. Call it after the last round. Another process
// completes the unfinished work.
func (s *Scaler) Stop() { s.calls.stop() }

// Scale runs one round over all pools whose provider is available here. It ends workers whose
// machine no longer exists and machines that no worker needs, boots workers, and drains those that
// were idle for long. Any number of processes may call it: one of them decides, the others return.
// A provider that does not answer delays only its own pools.
func (s *Scaler) Scale(ctx context.Context) error {
	pools, err := s.survey(ctx)
	if len(pools) == 0 {
		return err
	}
	r, failed := s.decide(ctx, pools)
	if failed != nil {
		return errors.Join(err, fmt.Errorf("scale pools: %w", failed))
	}
	for _, id := range r.drained {
		s.Notifier.Worker(ctx, id)
	}
	return errors.Join(err, s.create(ctx, r.boots))
}

// round contains what one round has written: machines to create, and drained workers.
type round struct {
	boots   []boot
	drained []models.WorkerID
}

// boot contains the workers of a pool to boot, and their decision.
type boot struct {
	pool     *capacity.Pool
	workers  []*models.Worker
	decision *capacity.ScalingDecision
}

// decide reads a snapshot, plans, and writes the plan, all under one lock. If another process has
// the lock, it writes nothing.
func (s *Scaler) decide(ctx context.Context, pools []*capacity.Pool) (r round, err error) {
	err = jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		r = round{}
		mine, err := postgres.TryLock(ctx, tx, scalerLock)
		if err != nil || !mine {
			return err
		}
		snapshot, err := readSnapshot(ctx, tx, capacity.PoolsToWrite, s.Policy)
		if err != nil {
			return err
		}
		s.surveys.look(snapshot.pools)
		if err := copyPrices(ctx, tx, snapshot); err != nil {
			return err
		}
		if err := s.pastRates.look(ctx, tx, &snapshot); err != nil {
			return err
		}
		if err := settleBoots(ctx, tx, snapshot); err != nil {
			return err
		}
		snapshot.freeze(pools)
		decisions := plan(snapshot)
		if err := notePatience(ctx, tx, decisions); err != nil {
			return err
		}
		if err := noteHours(ctx, tx, decisions, snapshot.now); err != nil {
			return err
		}
		decisions = slices.DeleteFunc(decisions, func(d *decision) bool { return d.frozen != "" })
		drained, err := drainIdle(ctx, tx, decisions)
		if err != nil {
			return err
		}
		for _, d := range decisions {
			if err := r.write(ctx, tx, d, drained); err != nil {
				return fmt.Errorf("pool %s: %w", d.pool.Name, err)
			}
		}
		return nil
	})
	return r, err
}

// readPools returns the pools that match, by name, with their workers and machines, and
// PostgreSQL's time.
func readPools(ctx context.Context, db bun.IDB, lock capacity.PoolLock, match func(*capacity.Pool) bool) ([]poolState, time.Time, error) {
	pools, err := capacity.ListScaledPools(ctx, db, lock)
	if err != nil {
		return nil, time.Time{}, err
	}
	pools = slices.DeleteFunc(pools, func(p *capacity.Pool) bool { return !match(p) })
	var ids []models.PoolID
	for _, p := range pools {
		ids = append(ids, p.ID)
	}
	workers, err := capacity.ListPoolWorkers(ctx, db, ids)
	if err != nil {
		return nil, time.Time{}, err
	}
	var states []poolState
	machines, err := capacity.ListMachines(ctx, db, ids)
	if err != nil {
		return nil, time.Time{}, err
	}
	byPool := map[models.PoolID]*poolState{}
	for _, p := range pools {
		byPool[p.ID] = &poolState{pool: p}
	}
	for _, w := range workers {
		byPool[w.PoolID].workers = append(byPool[w.PoolID].workers, w)
	}
	for _, m := range machines {
		byPool[m.PoolID].machines = append(byPool[m.PoolID].machines, m)
	}
	for _, p := range pools {
		states = append(states, *byPool[p.ID])
	}
	now, err := postgres.Now(ctx, db)
	return states, now, err
}

// readSnapshot reads the input of the plan.
func readSnapshot(ctx context.Context, tx bun.Tx, lock capacity.PoolLock, policy Policy) (snapshot, error) {
	s := snapshot{policy: policy}
	var err error
	s.pools, s.now, err = readPools(ctx, tx, lock, func(*capacity.Pool) bool { return true })
	if err != nil {
		return s, fmt.Errorf("list pools and workers: %w", err)
	}
	known, err := backlog.ListRenderTimes(ctx, tx)
	if err != nil {
		return s, fmt.Errorf("read render times: %w", err)
	}
	s.times = estimate.NewRenderTimes(known)
	if s.closed, err = models.ListClosedQueues(ctx, tx); err != nil {
		return s, fmt.Errorf("list the queues that are paused or halted: %w", err)
	}
	gpus, err := capacity.ListModelGPUs(ctx, tx)
	if err != nil {
		return s, fmt.Errorf("list the GPU types of models: %w", err)
	}
	s.models = map[string]*catalogue.Model{}
	for _, m := range gpus {
		s.models[m.Name] = &catalogue.Model{Name: m.Name, GPUTypes: m.GPUTypes}
	}
	if s.queues, err = readDemands(ctx, tx, s.pools); err != nil {
		return s, fmt.Errorf("sum up what waits: %w", err)
	}
	s.queues = slices.DeleteFunc(s.queues, func(q backlog.QueueDemand) bool { return s.isClosed(q.Lane, q.Model) })
	return s, nil
}

// drainIdle drains the workers of all decisions, in lock order, and returns them: those that are still
// idle, and of pools that are too dear also busy ones.
func drainIdle(ctx context.Context, tx bun.Tx, decisions []*decision) (map[models.WorkerID]bool, error) {
	var ids []models.WorkerID
	dear := map[models.WorkerID]bool{}
	for _, d := range decisions {
		ids = append(ids, d.drain...)
		for _, id := range d.drain {
			dear[id] = tooDear(d.pool, d.now) != ""
		}
	}
	slices.Sort(ids)
	drained := map[models.WorkerID]bool{}
	for _, id := range ids {
		reason := lo.Ternary(dear[id], models.LeavesDear, models.LeavesFewer)
		ok, err := capacity.DrainIdleWorker(ctx, tx, id, reason, dear[id])
		if err != nil {
			return nil, fmt.Errorf("drain worker %s: %w", id, err)
		}
		drained[id] = ok
	}
	return drained, nil
}

// write writes the rows of the workers to boot and, if anything changed, the decision. Rows are
// written before machines are created, so that after a crash in between the next round finds what
// to clean up.
func (r *round) write(ctx context.Context, tx bun.Tx, d *decision, drained map[models.WorkerID]bool) error {
	gone := slices.DeleteFunc(slices.Clone(d.drain), func(id models.WorkerID) bool { return !drained[id] })
	workers := bootingWorkers(d.pool, d.create(), d.now)
	if len(workers) == 0 && len(gone) == 0 {
		return nil
	}
	for _, w := range workers {
		if err := models.InsertWorker(ctx, tx, w); err != nil {
			return fmt.Errorf("write a booting worker: %w", err)
		}
	}
	if machines := rowsOfMachines(d.pool, workers); len(machines) > 0 {
		if err := capacity.InsertMachines(ctx, tx, machines); err != nil {
			return fmt.Errorf("write machines into the ledger: %w", err)
		}
	}
	inputs, err := json.Marshal(d.demand)
	if err != nil {
		return err
	}
	written := &capacity.ScalingDecision{
		PoolID: d.pool.ID, From: d.have(), To: d.have() + len(workers) - len(gone), Reason: d.reason, Inputs: inputs,
	}
	if err := capacity.InsertScalingDecision(ctx, tx, written); err != nil {
		return err
	}
	r.drained = append(r.drained, gone...)
	if len(workers) > 0 {
		r.boots = append(r.boots, boot{d.pool, workers, written})
	}
	return capacity.SetDesired(ctx, tx, d.pool.ID, written.To)
}

// create boots the machines of all pools at once, because bootGrace begins with the commit of their
// rows.
func (s *Scaler) create(ctx context.Context, boots []boot) error {
	for _, b := range boots {
		s.surveys.drop(b.pool.ID)
		s.calls.start(ctx, b.pool.ID, func(ctx context.Context) error { return s.createPool(ctx, b) })
	}
	return s.calls.wait(ctx)
}

// createPool creates the machines of one pool. It ends the workers that got none, and adds the
// errors to the decision. The pause is recorded first, so that no round asks again meanwhile. An
// answer in parts is no error.
func (s *Scaler) createPool(ctx context.Context, b boot) error {
	var ids []string
	for _, w := range b.workers {
		ids = append(ids, w.ProviderInstanceID)
	}
	ids = slices.Compact(ids) // the workers of a machine are neighbours
	refused := refusals{}
	var with, without []string
	asked, err := postgres.Now(ctx, s.DB)
	if err != nil {
		return err
	}
	for i, result := range s.Providers[b.pool.Provider].Create(ctx, b.pool, uuid.NewString(), ids) {
		if result.Err != nil {
			refused.add(result.Err)
			without = append(without, ids[i])
		} else {
			with = append(with, ids[i])
		}
	}
	noted := capacity.MachinesCreated(ctx, s.DB, b.pool.Provider, asked, with, without)
	if len(refused) == 0 {
		return errors.Join(noted, capacity.EndBackoff(ctx, s.DB, b.pool.ID, growBy(b.pool, len(ids))))
	}
	created := len(with)
	failed := []error{noted, s.refuse(ctx, b.pool, refused, created > 0), capacity.SetDecisionError(ctx, s.DB, b.decision.ID, refused.Error())}
	for _, machine := range without {
		failed = append(failed, s.unboot(ctx, b.workers, machine))
	}
	if created > 0 {
		slog.InfoContext(ctx, "the provider had only some of the machines", "pool", b.pool.Name, "machines", created, "of", len(ids),
			"error", refused)
		return errors.Join(failed...)
	}
	return fmt.Errorf("create workers of pool %s: %w", b.pool.Name, errors.Join(append([]error{refused}, failed...)...))
}

// refuse records that the provider refused machines of a pool, all of an answer or a part.
func (s *Scaler) refuse(ctx context.Context, pool *capacity.Pool, refused refusals, partly bool) error {
	why := refused.worst()
	wait := pauses[why.class].after(pool.Refusals)
	if partly {
		wait = pauses[why.class].first
	}
	return capacity.RecordRefusal(ctx, s.DB, pool.ID, string(why.class), text.Clip(text.Printable(why.err.Error()), lease.MaxMessageBytes),
		wait, partly)
}

// unboot ends the workers that wait for a machine that was not created.
func (s *Scaler) unboot(ctx context.Context, workers []*models.Worker, machine string) error {
	var failed []error
	for _, w := range workers {
		if w.ProviderInstanceID == machine {
			_, err := terminateWorker(ctx, s.DB, s.Notifier, w.ID, lease.Loss{Reason: "it could not be started", Blameless: true})
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// notePatience records for each pool whether BATCH jobs wait for cheaper workers, if that changed.
func notePatience(ctx context.Context, tx bun.Tx, decisions []*decision) error {
	for _, d := range decisions {
		if waits := d.cheaper != ""; waits != d.pool.BatchWaits {
			if err := capacity.SetBatchWaits(ctx, tx, d.pool.ID, waits); err != nil {
				return fmt.Errorf("note what jobs wait for at pool %s: %w", d.pool.Name, err)
			}
		}
	}
	return nil
}

// noteHours records for each pool when its active hours begin again, if that changed. Callers learn
// from it how long their jobs wait.
func noteHours(ctx context.Context, tx bun.Tx, decisions []*decision, now time.Time) error {
	for _, d := range decisions {
		var until time.Time
		if OutsideHours(d.pool, now) {
			if hours, err := ParseHours(d.pool.ActiveHours); err == nil {
				until = hours.Opens(now)
			}
		}
		if !until.Equal(d.pool.ClosedUntil) {
			if err := capacity.SetClosedUntil(ctx, tx, d.pool.ID, until); err != nil {
				return fmt.Errorf("note the hours of pool %s: %w", d.pool.Name, err)
			}
		}
	}
	return nil
}
