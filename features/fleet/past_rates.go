package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

const (
	// pastRatesAge is how long a forecast is reused.
	pastRatesAge = time.Minute
	// bootGuess is the assumed duration of a boot, in seconds, until one was measured.
	bootGuess = 120
)

// pastRates contains what a plan needs of the past. It is read about once a minute.
type pastRates struct {
	mu        sync.Mutex
	at        time.Time
	expected  []Expected
	preempted map[string]capacity.PreemptionRate
}

// voluntary lists the drain reasons of Reelay and of operators. Any other loss counts as a preemption.
var voluntary = []string{lease.LeavesFewer, lease.LeavesPaused, lease.LeavesIdle, lease.LeavesDrained}

// look adds the forecast to a snapshot. It first reads the forecast again if it is old.
func (o *pastRates) look(ctx context.Context, tx bun.Tx, s *snapshot) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.policy != (Policy{}) && len(s.pools) > 0 {
		if age := s.now.Sub(o.at); age < 0 || age >= pastRatesAge {
			if err := o.read(ctx, tx, s.now); err != nil {
				return fmt.Errorf("read what is expected: %w", err)
			}
		}
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
	return nil
}

func (o *pastRates) read(ctx context.Context, tx bun.Tx, now time.Time) error {
	history, err := models.ReadArrivalHours(ctx, tx)
	if err != nil {
		return err
	}
	boot, err := capacity.LongestBoot(ctx, tx)
	if err != nil {
		return err
	}
	if boot == 0 {
		boot = bootGuess
	}
	preempted, err := capacity.ReadPreemptionRates(ctx, tx, voluntary)
	if err != nil {
		return err
	}
	o.at, o.expected, o.preempted = now, Forecast(history, now, time.Duration(boot*float64(time.Second))), preempted
	return nil
}
