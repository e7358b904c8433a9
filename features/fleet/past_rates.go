package fleet

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

const (
	// pastRatesAge is how long a forecast is reused.
	pastRatesAge = time.Minute
)

// pastRates contains what a plan needs of the past. It is read about once a minute.
type pastRates struct {
	mu        sync.Mutex
	at        time.Time
	expected  []Expected
	preempted map[string]capacity.PreemptionRate
	starts    map[models.PoolID]Start
}

// voluntary lists the drain reasons of Reelay and of operators. Any other loss counts as a preemption.
var voluntary = []string{models.LeavesFewer, models.LeavesDear, models.LeavesPaused, models.LeavesIdle, models.LeavesDrained}

// look adds the forecast to a snapshot. It first reads the forecast again if it is old.
func (o *pastRates) look(ctx context.Context, tx bun.Tx, s *snapshot) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if age := s.now.Sub(o.at); len(s.pools) > 0 && (age < 0 || age >= pastRatesAge) {
		if err := o.read(ctx, tx, s.now); err != nil {
			return fmt.Errorf("read what is expected: %w", err)
		}
	}
	if s.policy != (Policy{}) && len(s.pools) > 0 {
		patient, err := capacity.CountPatientWorkers(ctx, tx)
		if err != nil {
			return fmt.Errorf("count workers with patient jobs: %w", err)
		}
		for i, p := range s.pools {
			s.pools[i].patient = patient[p.pool.ID]
		}
	}
	s.expected = lo.Reject(o.expected, func(e Expected, _ int) bool { return s.isClosed(e.Lane, e.Model) })
	s.preempted = o.preempted
	for i, p := range s.pools {
		s.pools[i].start = o.starts[p.pool.ID]
	}
	return nil
}

func (o *pastRates) read(ctx context.Context, tx bun.Tx, now time.Time) error {
	history, err := models.ReadArrivalHours(ctx, tx)
	if err != nil {
		return err
	}
	starts, longest, err := readStarts(ctx, tx)
	if err != nil {
		return err
	}
	preempted, err := capacity.ReadPreemptionRates(ctx, tx, voluntary)
	if err != nil {
		return err
	}
	o.starts = starts
	o.at, o.expected, o.preempted = now, Forecast(history, now, longest), preempted
	return nil
}

// readStarts returns how long new workers of the pools take until they can render, and the longest boot.
func readStarts(ctx context.Context, tx bun.Tx) (starts map[models.PoolID]Start, longest time.Duration, err error) {
	boots, err := capacity.MedianBoots(ctx, tx)
	if err != nil {
		return nil, 0, err
	}
	measured, err := models.ListModelLoads(ctx, tx)
	if err != nil {
		return nil, 0, err
	}
	loads, count := map[models.PoolID]float64{}, map[models.PoolID]float64{}
	for _, m := range measured {
		loads[m.PoolID] += estimate.LoadTimeOf(m).ColdSeconds() * float64(m.Loads)
		count[m.PoolID] += float64(m.Loads)
	}
	starts = map[models.PoolID]Start{}
	for id, boot := range boots {
		starts[id] = NewStart(boot, loads[id]/max(count[id], 1))
		if boot > 0 {
			longest = max(longest, starts[id].Boot)
		}
	}
	return starts, cmp.Or(longest, estimate.BootGuess), nil
}
