package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Yielder asks running jobs to yield to jobs of higher lanes that wait past their target.
type Yielder struct {
	DB        *bun.DB
	Notifier  *change.Notifier
	Catalogue *catalogue.Catalogue
}

// yieldLock is the advisory lock that allows one process to decide at a time.
const yieldLock = 0x7969656c64

// Yield runs one round, and returns how many attempts it asked to yield. Any number of processes
// may call it: one of them decides, the others return.
func (y *Yielder) Yield(ctx context.Context) (int, error) {
	var asked []yield
	err := jobs.InTx(ctx, y.DB, func(ctx context.Context, tx bun.Tx) (err error) {
		asked = nil
		mine, err := postgres.TryLock(ctx, tx, yieldLock)
		if err != nil || !mine {
			return err
		}
		asked, err = y.decide(ctx, tx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ask jobs to give way: %w", err)
	}
	for _, a := range asked {
		slog.InfoContext(ctx, "a job is asked to give way", "job", a.JobID, "lane", a.Lane, "to", a.late.ID, "higher", a.late.Lane, "worker",
			a.Worker.ID)
		y.Notifier.Worker(ctx, a.Worker.ID)
	}
	return len(asked), nil
}

func (y *Yielder) decide(ctx context.Context, tx bun.Tx) ([]yield, error) {
	late, err := backlog.ListLateJobs(ctx, tx, lateLanes, lateAfter)
	if err != nil || len(late) == 0 {
		return nil, err
	}
	performers, pools, err := y.perform(ctx, tx, late)
	if err != nil {
		return nil, err
	}
	plan := planYields(late, performers)
	if len(plan) == 0 {
		return nil, nil
	}
	var requests []backlog.Yield
	for _, p := range plan {
		requests = append(requests, backlog.Yield{AttemptID: p.AttemptID, Token: p.Token, To: p.late.Lane})
	}
	asked, err := backlog.RequestYields(ctx, tx, requests)
	if err != nil {
		return nil, err
	}
	plan = slices.DeleteFunc(plan, func(p yield) bool { return !slices.Contains(asked, p.AttemptID) })
	return plan, explainYields(ctx, tx, plan, pools)
}

// perform reads the workers that can run the models of late jobs.
func (y *Yielder) perform(ctx context.Context, tx bun.Tx, late []backlog.LateJob) ([]performer, map[models.PoolID]*capacity.Pool, error) {
	var names []string
	for _, job := range late {
		names = append(names, job.Model)
	}
	slices.Sort(names)
	found, err := backlog.ListPerformers(ctx, tx, slices.Compact(names))
	if err != nil {
		return nil, nil, err
	}
	list, err := capacity.ListPools(ctx, tx, capacity.NoPoolLock)
	if err != nil {
		return nil, nil, err
	}
	pools := map[models.PoolID]*capacity.Pool{}
	for _, p := range list {
		pools[p.ID] = p
	}
	known, err := backlog.ListRenderTimes(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	return newPerformers(found, y.Catalogue.Current(), estimate.NewRenderTimes(known)), pools, nil
}

// lateLanes are the lanes with a wait target, and lateAfter the time after which their jobs are
// late.
var lateLanes, lateAfter = targets()

func targets() (lanes []models.Tier, after []time.Duration) {
	late := jobs.LateAfter()
	for _, lane := range models.Tiers {
		if target, ok := late[lane]; ok {
			lanes, after = append(lanes, lane), append(after, target)
		}
	}
	return lanes, after
}

// yieldInput is one request in the decision of its pool.
type yieldInput struct {
	Attempt       models.AttemptID `json:"attempt"`
	Job           models.JobID     `json:"job"`
	Lane          models.Tier      `json:"lane"`
	LateJob       models.JobID     `json:"lateJob"`
	LateLane      models.Tier      `json:"lateLane"`
	WaitedSeconds float64          `json:"waitedSeconds"`
	// UnsavedSeconds is the work since the newest checkpoint.
	UnsavedSeconds float64 `json:"unsavedSeconds"`
}

// explainYields writes a decision for each pool whose jobs are asked to yield. The number of its
// workers does not change.
func explainYields(ctx context.Context, tx bun.Tx, all []yield, pools map[models.PoolID]*capacity.Pool) error {
	byPool := map[models.PoolID][]yield{}
	for _, a := range all {
		byPool[a.PoolID] = append(byPool[a.PoolID], a)
	}
	for id, some := range byPool {
		pool := pools[id]
		if pool == nil {
			continue // workers without a pool
		}
		var inputs []yieldInput
		for _, a := range some {
			inputs = append(inputs, yieldInput{a.AttemptID, a.JobID, a.Lane, a.late.ID, a.late.Lane, a.late.WaitedSeconds, a.UnsavedSeconds})
		}
		written, err := json.Marshal(map[string]any{"yields": inputs})
		if err != nil {
			return err
		}
		err = capacity.InsertScalingDecision(ctx, tx, &capacity.ScalingDecision{
			PoolID: id, From: pool.Desired, To: pool.Desired, Reason: whyYield(some), Inputs: written,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// whyYield explains in a sentence why jobs of a pool are preempted.
func whyYield(all []yield) string {
	who := "1 running job is"
	if len(all) > 1 {
		who = fmt.Sprintf("%d running jobs are", len(all))
	}
	late := all[0].late
	return fmt.Sprintf("%s preempted: %s job has waited %s (target %s), and no worker is free for it soon.",
		who, text.A(string(late.Lane)), text.Seconds(late.WaitedSeconds), text.Setting(jobs.Policies[late.Lane].WaitTarget))
}
