package query

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// QueueCapacity is what the pools that serve a queue can do for it.
type QueueCapacity struct {
	Lane  models.Tier
	Model string
	// Workers is how many workers the pools have that are not paused, and Maximum how many they may
	// have.
	Workers, Maximum int
	// AtMaximum means that all of these pools have as many workers as they may have, and none is
	// idle: more jobs only wait longer.
	AtMaximum bool
	// Cause says what sets how fast the queue empties, in a few words.
	Cause string
}

// QueueCapacities returns the capacity of each of these queues, by lane and model.
func (r *Reader) QueueCapacities(ctx context.Context, queues []models.QueueCount) ([]QueueCapacity, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	pools, err := r.Pools(ctx)
	if err != nil {
		return nil, err
	}
	now, err := models.Now(ctx, r.DB)
	if err != nil {
		return nil, apierror.Wrap(err, "read the time")
	}
	found := make([]QueueCapacity, len(queues))
	for i, q := range queues {
		found[i] = CapacityOf(q.Lane, q.Model, pools, now)
	}
	return found, nil
}

// serves reports whether a pool's workers run a model's jobs of a lane.
func serves(p *PoolStatus, lane models.Tier, model string) bool {
	return slices.Contains(p.Models, model) && (len(p.Tiers) == 0 || slices.Contains(p.Tiers, lane))
}

// CapacityOf returns what these pools can do for the jobs of a lane and model.
func CapacityOf(lane models.Tier, model string, pools []*PoolStatus, now time.Time) QueueCapacity {
	c := QueueCapacity{Lane: lane, Model: model}
	var booting, idle, serving, refused int
	full := true
	for _, p := range pools {
		if !serves(p, lane, model) {
			continue
		}
		if serving++; p.Paused() {
			continue
		}
		workers := p.Booting + p.Idle + p.Busy + p.Draining
		c.Workers, c.Maximum = c.Workers+workers, c.Maximum+p.MaxWorkers
		booting, idle = booting+p.Booting, idle+p.Idle
		full = full && workers >= p.MaxWorkers
		if p.BackoffUntil.After(now) || p.ProviderProblem != "" {
			refused++
		}
	}
	c.AtMaximum = full && c.Maximum > 0 && idle == 0
	switch {
	case serving == 0:
		c.Cause = "no pool serves it"
	case c.Maximum == 0:
		c.Cause = "its pools are paused or may have no workers"
	case c.AtMaximum:
		c.Cause = "at the maximum of " + text.Count(c.Maximum, "worker")
	case refused > 0:
		c.Cause = fmt.Sprintf("%s; a pool gets no machines", ofMaximum(c))
	case booting > 0:
		c.Cause = fmt.Sprintf("%s, %d booting", ofMaximum(c), booting)
	default:
		c.Cause = ofMaximum(c)
	}
	return c
}

func ofMaximum(c QueueCapacity) string {
	return fmt.Sprintf("%d of at most %s", c.Workers, text.Count(c.Maximum, "worker"))
}
