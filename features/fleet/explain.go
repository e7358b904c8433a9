package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// Static is the provider of machines that come by themselves.
const Static = "static"

// Scaled reports whether the scaler boots the workers of a provider. Those of the others come by
// themselves: agents that somebody starts, and the engines that agents drive.
func Scaled(provider string) bool { return provider != Static && provider != engine.Provider }

// Explanation is what the scaler would do with a pool now, and why. Explaining changes nothing.
type Explanation struct {
	Pool *capacity.Pool
	At   time.Time
	// Workers is the number of workers that are not draining, and Desired the number that the pool
	// should have.
	Workers, Desired int
	// Boot and Drain are how many workers a round would boot and drain now.
	Boot, Drain int
	// Reason is a sentence.
	Reason string
	// IdleSeconds is how long an idle worker above the minimum stays, and IdleReason why: a sentence.
	IdleSeconds float64
	IdleReason  string
	// WarmCostPerHourUSD and ReserveCostPerHourUSD are what the workers cost that the pool keeps for
	// its WarmWorkers and for the reserve of its region.
	WarmCostPerHourUSD, ReserveCostPerHourUSD float64
	Demand                                    Demand
}

// Explain returns what the scaler would do with a pool now. For a pool that is not [Scaled] it
// returns how many workers it should have.
func (s *Pools) Explain(ctx context.Context, p jobs.Principal, id models.PoolID) (*Explanation, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	return s.explain(ctx, func(pool *capacity.Pool) bool { return pool.ID == id })
}

// ExplainNamed is Explain for the pool with a name.
func (s *Pools) ExplainNamed(ctx context.Context, p jobs.Principal, name string) (*Explanation, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	var known []string
	found, err := s.explain(ctx, func(pool *capacity.Pool) bool {
		if pool.DeletedAt.IsZero() {
			known = append(known, pool.Name)
		}
		return pool.Name == name && pool.DeletedAt.IsZero()
	})
	if near := text.DidYouMean(name, known); near != "" && apierror.HasCode(err, apierror.CodeNotFound) {
		return nil, apierror.New(apierror.CodeNotFound, "There is no pool of that name%s", near)
	}
	return found, err
}

func (s *Pools) explain(ctx context.Context, match func(*capacity.Pool) bool) (*Explanation, error) {
	var state snapshot
	err := jobs.InSnapshot(ctx, s.DB, func(ctx context.Context, tx bun.Tx) (err error) {
		if state, err = readSnapshot(ctx, tx, capacity.NoPoolLock, s.Policy); err != nil {
			return err
		}
		return new(pastRates).look(ctx, tx, &state)
	})
	if err != nil {
		return nil, apierror.Wrap(err, "read what the scaler decides from")
	}
	var scaled []*capacity.Pool
	for _, p := range state.pools {
		if Scaled(p.pool.Provider) || match(p.pool) {
			scaled = append(scaled, p.pool)
		}
	}
	state.freeze(scaled)
	for i, p := range state.pools {
		if p.frozen == "" && Scaled(p.pool.Provider) && p.pool.ProviderProblem != "" {
			state.pools[i].frozen = "nothing is changed, because its provider fails: " + p.pool.ProviderProblem
		}
	}
	for _, d := range plan(state) {
		if match(d.pool) {
			return &Explanation{
				Pool: d.pool, At: state.now, Workers: d.have(), Desired: d.workers, Boot: d.create(), Drain: len(d.drain), Reason: d.reason,
				IdleSeconds: d.stay.limit.Seconds(), IdleReason: d.stay.String(), WarmCostPerHourUSD: d.costOf(d.demand.Warm),
				ReserveCostPerHourUSD: d.costOf(d.reserved), Demand: d.demand,
			}, nil
		}
	}
	return nil, apierror.NotFound("pool")
}

// Inputs returns the numbers that the plan is based on, as JSON.
func (e *Explanation) Inputs() (json.RawMessage, error) { return json.Marshal(e.Demand) }
