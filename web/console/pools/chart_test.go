package pools

import (
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/ui"
	"github.com/stretchr/testify/require"
)

func TestPoolChart(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration, to int) *capacity.ScalingDecision {
		return &capacity.ScalingDecision{At: now.Add(-ago), To: to, Inputs: []byte(`{"yields": []}`)}
	}
	past := func(ago time.Duration, pool string, busy, idle, booting float64) *history.Figures {
		return &history.Figures{From: now.Add(-ago), To: now.Add(10*time.Minute - ago), Covered: 10 * time.Minute, Samples: 1,
			Pools: []*models.HistoryPool{{Pool: pool, Busy: busy, Idle: idle, Booting: booting}}}
	}
	many := make([]*capacity.ScalingDecision, decisionsRead)
	for i := range many {
		many[i] = at(time.Duration(i+1)*time.Minute, i%3)
	}
	for _, c := range []struct {
		name      string
		decisions []*capacity.ScalingDecision
		past      []*history.Figures
		steps     int
		words     string
		top       int
		busy      string // the outline of its area
	}{
		{"none", nil, nil, 0, "Since 25 Nov 12:00 UTC the scaler wanted 0 to 0 workers, and decided 0 times.", 1, ""},
		{"one before", []*capacity.ScalingDecision{at(30*time.Hour, 2), at(40*time.Hour, 7)}, nil, 1,
			"Since 25 Nov 12:00 UTC the scaler wanted 2 to 2 workers, and decided 0 times.", 2, ""},
		{"some within", []*capacity.ScalingDecision{at(time.Hour, 1), at(2*time.Hour, 5), at(30*time.Hour, 2)}, nil, 3,
			"Since 25 Nov 12:00 UTC the scaler wanted 1 to 5 workers, and decided 2 times.", 5, ""},
		{"too many", many, nil, decisionsRead, "Since 26 Nov 08:40 UTC the scaler wanted 0 to 2 workers, and decided 199 times.", 2, ""},
		{
			"with a past", []*capacity.ScalingDecision{at(3*time.Hour, 4), at(6*time.Hour, 4), at(30*time.Hour, 2), at(40*time.Hour, 9)},
			[]*history.Figures{
				past(40*time.Hour, "mine", 9, 9, 9), past(24*time.Hour+5*time.Minute, "mine", 1, 0, 0), past(12*time.Hour, "mine", 3.2, 2, 2),
				past(6*time.Hour, "other", 8, 8, 8),
			}, 3,
			"Since 25 Nov 12:00 UTC the scaler wanted 2 to 4 workers, and decided 2 times. Up to 4 were busy, 3 idle and 2 booting; now 2, 3 and 1.",
			8, "M0.00 39L0.00 34.25L50.00 20.00L100.00 29.50V39Z",
		},
	} {
		chart := (&poolShow{poolRow: poolRow{PoolStatus: &query.PoolStatus{Pool: &capacity.Pool{PoolSpec: capacity.PoolSpec{Name: "mine"}}}},
			Decisions: c.decisions, Past: c.past, Now: now,
			Explanation: &fleet.Explanation{Demand: fleet.Demand{Busy: 2, Idle: 3, Booting: 1}}}).chart()
		require.Len(t, chart.Steps, c.steps, c.name)
		require.Equal(t, c.words, chart.words(), c.name)
		require.Equal(t, c.top, chart.top(), c.name)
		var drawn strings.Builder
		areas := chart.areas()
		require.NoError(t, ui.Area("area-busy", areas[2].Steps, chart.Since, now, chart.top()).Render(t.Context(), &drawn))
		require.Contains(t, drawn.String(), `class="area-busy" d="`+c.busy+`"`, c.name)
	}
}
