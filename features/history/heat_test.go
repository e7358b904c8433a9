package history_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestHeatMap(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/operators/heat-map.md")
	require.NoError(t, err)
	pool := func(shape func(*history.HeatPool)) history.HeatPool {
		p := history.HeatPool{Pool: &capacity.Pool{PoolSpec: capacity.PoolSpec{
			Name: "a", Region: "mars", GPUType: "h100", CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MaxWorkers: 4,
		}}}
		if shape != nil {
			shape(&p)
		}
		return p
	}
	waiting := []backlog.QueueCount{{Lane: models.TierPro, Model: "testcard", Depth: 7}, {Lane: models.TierPro, Model: "other", Depth: 90}}
	for name, c := range map[string]struct {
		past  models.HistoryPool
		pool  history.HeatPool
		now   models.HistoryPool
		queue []backlog.QueueCount
		cause string
		level history.HeatLevel
	}{
		"healthy": {models.HistoryPool{Attempts: 10, Paid: spent(100, 0), Busy: 9, Idle: 1}, pool(nil), models.HistoryPool{Busy: 3}, nil,
			"Healthy", history.HeatCalm},
		"empty": {models.HistoryPool{}, pool(nil), models.HistoryPool{}, nil, "Empty", history.HeatCalm},
		"reclaimed": {models.HistoryPool{Attempts: 10, Preempted: 5, Paid: spent(60, 40)}, pool(nil),
			models.HistoryPool{Busy: 3}, waiting, "Machines are taken away", history.HeatAct},
		"reclaimed and kept": {models.HistoryPool{Attempts: 10, Preempted: 5, Paid: spent(96, 4)}, pool(nil),
			models.HistoryPool{Busy: 3}, nil, "Preempted, little lost", history.HeatWatch},
		"failing": {models.HistoryPool{Attempts: 10, Paid: spent(60, 40)}, pool(nil), models.HistoryPool{Busy: 3},
			nil, "Attempts fail", history.HeatAct},
		"a drill of seconds": {models.HistoryPool{Attempts: 3, Paid: spent(0, 9)}, pool(nil), models.HistoryPool{Busy: 3}, nil,
			"Healthy", history.HeatCalm},
		"idle with a queue": {models.HistoryPool{}, pool(nil), models.HistoryPool{Idle: 3}, waiting, "Idle beside a queue", history.HeatAct},
		"booting":           {models.HistoryPool{}, pool(nil), models.HistoryPool{Booting: 1}, waiting, "Workers boot", history.HeatWatch},
		"no workers":        {models.HistoryPool{}, pool(nil), models.HistoryPool{}, waiting, "No workers", history.HeatAct},
		"refused": {models.HistoryPool{}, pool(func(p *history.HeatPool) { p.Refused = true }), models.HistoryPool{}, waiting,
			"No capacity", history.HeatAct},
		"not booting": {models.HistoryPool{}, pool(func(p *history.HeatPool) { p.BootFailures, p.BootFailure = 3, "no key" }),
			models.HistoryPool{Booting: 1}, waiting, "Machines do not start", history.HeatAct},
		"at the limit": {models.HistoryPool{}, pool(nil), models.HistoryPool{Busy: 4}, waiting, "At its limit", history.HeatAct},
		"too large":    {models.HistoryPool{Busy: 1, Idle: 9}, pool(nil), models.HistoryPool{Idle: 4}, nil, "Too large", history.HeatWatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.past.Region, c.past.GPUType, c.now.Region, c.now.GPUType = "mars", "h100", "mars", "h100"

			cells := history.HeatMap(&history.Figures{Covered: time.Hour, Pools: []*models.HistoryPool{&c.past}}, []history.HeatPool{c.pool},
				[]*models.HistoryPool{&c.now}, c.queue, false)

			require.Len(t, cells, 1)
			require.Equal(t, c.cause, cells[0].Verdict.Cause)
			require.Equal(t, c.level, cells[0].Verdict.Level)
			if len(c.queue) > 0 {
				require.Equal(t, 7, cells[0].Depth)
			}
			if runbook := cells[0].Verdict.Runbook; runbook != "" {
				heading := "## " + strings.ReplaceAll(runbook, "-", " ") + "\n"
				require.Contains(t, strings.ToLower(string(page)), heading, "the runbook has an entry")
			}
		})
	}
}

// spent is so many seconds of useful and wasted render time.
func spent(useful, wasted float64) models.Paid {
	return models.Paid{Useful: models.PaidSum{Seconds: useful}, Wasted: models.PaidSum{Seconds: wasted}}
}
