package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChart(t *testing.T) {
	t.Parallel()

	drawn := func(t *testing.T, c ChartData) string {
		t.Helper()
		var page strings.Builder
		c.From, c.Step = time.Unix(0, 0), time.Minute
		require.NoError(t, Chart(c).Render(t.Context(), &page))
		return page.String()
	}

	t.Run("EndsAtARoundStep", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			unit string
			most float64
			edge string
		}{
			{"s", 0.07, "0.1 s"}, {"s", 3, "5 s"}, {"s", 14, "20 s"}, {"s", 45, "1 min"}, {"s", 200, "5 min"}, {"s", 400, "10 min"},
			{"s", 2000, "1 h"}, {"s", 4000, "2 h"}, {"s", 80_000, "1 d"},
			{"/min", 33, "50/min"}, {"%", 0.2, "20 %"}, {"", 7, "10"},
			{"", 0.4, "1"}, {"", 2.2, "5"}, {"", 22, "25"}, {"/min", 2.2, "2.50/min"},
		} {
			require.Contains(t, drawn(t, ChartData{Unit: c.unit, Series: []Series{{Label: "one", Values: []*float64{&c.most}}}}),
				`<span class="chart-top">`+c.edge+`</span>`)
		}
	})

	t.Run("SaysWhenAValueWasThatIsNotNew", func(t *testing.T) {
		t.Parallel()
		page := drawn(t, ChartData{Series: []Series{
			{Label: "old", Values: []*float64{nil, new(3.0), nil, nil}}, {Label: "new", Values: []*float64{nil, nil, nil, new(4.0)}},
			{Label: "none", Values: []*float64{nil}},
		}})
		for _, part := range []string{"old <b>3 at 1 Jan 1970 00:01 UTC</b>", "new <b>4</b>", "none <b>n/a</b>",
			"newest values: old 3 at 1 Jan 1970 00:01 UTC, new 4, none n/a."} {
			require.Contains(t, page, part)
		}
	})

	t.Run("SaysThatItHasNoData", func(t *testing.T) {
		t.Parallel()
		for name, series := range map[string][]Series{"no lines": nil, "unknown values": {{Label: "one", Values: []*float64{nil, nil}}}} {
			page := drawn(t, ChartData{Title: "Queued", Series: series})
			require.Contains(t, page, "No data in this range", name)
			for _, part := range []string{"chart-legend", "<table", "chart-scale", "<svg"} {
				require.NotContains(t, page, part, name)
			}
		}
	})
}
