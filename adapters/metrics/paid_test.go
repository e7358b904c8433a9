package metrics

import (
	"context"
	"errors"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

func TestPaid(t *testing.T) {
	t.Parallel()

	known := New(Sources{Queues: none, Paid: func(context.Context) ([]*models.PaidTotal, error) {
		return []*models.PaidTotal{
			{Pool: "", Paid: models.Paid{Idle: models.PaidSum{Seconds: 5}}},
			{Pool: "spot", Paid: models.Paid{Boot: models.PaidSum{Seconds: 1, USD: 0.5}, Load: models.PaidSum{Seconds: 2, USD: 1},
				Useful: models.PaidSum{Seconds: 30, USD: 15}, Wasted: models.PaidSum{Seconds: 4, USD: 2},
				Ending: models.PaidSum{Seconds: 6, USD: 3}}},
		}, nil
	}})
	unknown := New(Sources{Queues: none, Paid: func(context.Context) ([]*models.PaidTotal, error) { return nil, errors.New("down") }})

	require.Subset(t, scrape(t, known), []string{
		`reelay_paid_seconds_total{class="boot",pool="spot"} 1`, `reelay_paid_seconds_total{class="load",pool="spot"} 2`,
		`reelay_paid_seconds_total{class="idle",pool="spot"} 0`, `reelay_paid_seconds_total{class="render",pool="spot"} 34`,
		`reelay_paid_seconds_total{class="ending",pool="spot"} 6`,
		`reelay_paid_seconds_total{class="idle",pool="none"} 5`,
		`reelay_cost_usd_total{pool="spot"} 21.5`, `reelay_cost_usd_total{pool="none"} 0`,
		`reelay_gpu_seconds_total{pool="spot"} 36`, `reelay_wasted_gpu_seconds_total{pool="spot"} 4`,
	})
	require.Empty(t, scrape(t, unknown), "unknown is not 0")
}

func TestSpent(t *testing.T) {
	t.Parallel()

	usd := decimal.RequireFromString
	known := New(Sources{Queues: none, Spent: func(context.Context) ([]*costs.Row, error) {
		return []*costs.Row{{Key: "gce", UsefulUSD: usd("3"), WastedUSD: usd("0.5"), ChargedUSD: usd("2.5")}, {Key: ""}}, nil
	}})
	unknown := New(Sources{Queues: none, Spent: func(context.Context) ([]*costs.Row, error) { return nil, errors.New("down") }})

	require.Subset(t, scrape(t, known), []string{
		`reelay_spent_today_usd{part="useful",provider="gce"} 3`, `reelay_spent_today_usd{part="wasted",provider="gce"} 0.5`,
		`reelay_charged_today_usd{provider="gce"} 2.5`, `reelay_charged_today_usd{provider="none"} 0`,
	})
	require.Empty(t, scrape(t, unknown), "unknown is not 0")
}
