package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// Adviser asks providers for advice about the spot machines of pools.
type Adviser struct {
	DB        *bun.DB
	Providers map[string]Provider
}

const (
	// AdviseEvery is how often providers are asked. Their figures change daily.
	AdviseEvery = 15 * time.Minute
	// adviceLimit bounds the time of one request to a provider, and advised how many run at the
	// same time.
	adviceLimit = 20 * time.Second
	advised     = 8
)

// Pass asks the providers that give advice for each spot pool, and stores what they say. If a
// provider fails, the advice is the reason.
func (a *Adviser) Pass(ctx context.Context) error {
	pools, err := capacity.ListPools(ctx, a.DB, capacity.NoPoolLock)
	if err != nil {
		return fmt.Errorf("list pools: %w", err)
	}
	var mu sync.Mutex
	var failed []error
	var asked sync.WaitGroup
	room := make(chan struct{}, advised)
	for _, p := range pools {
		advisor, can := a.Providers[p.Provider].(Advisor)
		if !can || p.CapacityClass != models.CapacitySpot || !p.PausedAt.IsZero() {
			continue
		}
		room <- struct{}{}
		asked.Go(func() {
			defer func() { <-room }()
			p.Advice = ask(ctx, advisor, p)
			if err := capacity.SetAdvice(ctx, a.DB, p); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, fmt.Errorf("write the advice for pool %s: %w", p.Name, err))
			}
		})
	}
	asked.Wait()
	return errors.Join(failed...)
}

func ask(ctx context.Context, advisor Advisor, pool *capacity.Pool) *capacity.PoolAdvice {
	ctx, cancel := context.WithTimeout(ctx, adviceLimit)
	defer cancel()
	said, err := advisor.Advise(ctx, pool)
	if err != nil {
		return &capacity.PoolAdvice{At: time.Now(), Problem: text.Clip(text.Printable(err.Error()), lease.MaxMessageBytes)}
	}
	advice := &capacity.PoolAdvice{At: time.Now(), PricePerHourUSD: said.PricePerHourUSD, Preempted: said.Preempted,
		Obtainability: said.Obtainability}
	if said.Uptime > 0 {
		seconds := said.Uptime.Seconds()
		advice.UptimeSeconds = &seconds
	}
	return advice
}
