package pools

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/ui"
)

// priceHours is how far the chart of a pool's price goes back.
const priceHours = 24

// dollars formats a price per hour.
func dollars(usd float64) string {
	if cents := usd * 100; usd != 0 && cents == math.Trunc(cents) {
		return fmt.Sprintf("$%.2f/h", usd)
	}
	return fmt.Sprintf("$%.4g/h", usd)
}

// price is what one worker costs now.
func (r poolRow) price() string {
	price := r.Price()
	if price.Stale {
		return dollars(price.PricePerHourUSD) + " (stale)"
	}
	return dollars(price.PricePerHourUSD)
}

// lostPerHour is how many attempts the pool loses per hour of work.
func (r poolRow) lostPerHour() string {
	rate := r.LossesPerHour()
	if rate == nil {
		return "none measured yet"
	}
	return fmt.Sprintf("%.2g per busy hour", *rate)
}

// advice is what the provider says of its spot machines, or "".
func (r poolRow) advice() string {
	a := r.Advice
	if a == nil || a.Problem != "" {
		return ""
	}
	var said []string
	add := func(format string, value *float64, unit float64) {
		if value != nil {
			said = append(said, fmt.Sprintf(format, *value/unit))
		}
	}
	add("list price $%.4g/h per machine", a.PricePerHourUSD, 1)
	add("%.0f %% preempted lately", a.Preempted, 0.01)
	add("%.0f %% obtainable", a.Obtainability, 0.01)
	add("most run %.3g h", a.UptimeSeconds, 3600)
	return strings.Join(said, ", ")
}

// whyNoPrice says why there is no chart of the pool's price.
func (v *poolShow) whyNoPrice() string {
	if v.Price().PricePerHourUSD > 0 {
		return fmt.Sprintf("No price was recorded in the last %d hours, so there is no chart yet.", priceHours)
	}
	return fmt.Sprintf("No chart: a worker cost $0 in the last %d hours. Edit the pool to give it a price, if its machines cost something.",
		priceHours)
}

// priceChart is what a worker cost over time.
type priceChart struct {
	Steps       []ui.Step
	Since       time.Time
	Least, Most float64
}

// chartUnits is how many units of a chart a dollar has.
const chartUnits = 10_000

func chartOf(prices []*capacity.PriceStep, now time.Time) priceChart {
	chart := priceChart{Since: now.Add(-priceHours * time.Hour)}
	for i, p := range prices {
		if i == 0 {
			chart.Least = p.PricePerHourUSD
		}
		chart.Least, chart.Most = min(chart.Least, p.PricePerHourUSD), max(chart.Most, p.PricePerHourUSD)
		chart.Steps = append(chart.Steps, ui.Step{At: p.From, Value: int(math.Round(p.PricePerHourUSD * chartUnits))})
	}
	return chart
}

func (c priceChart) top() int { return max(1, int(math.Round(c.Most*chartUnits))) }

// words says what the chart shows.
func (c priceChart) words() string {
	if c.Least == c.Most {
		return fmt.Sprintf("In the last %d hours a worker cost %s.", priceHours, dollars(c.Most))
	}
	return fmt.Sprintf("In the last %d hours a worker cost %s to %s.", priceHours, dollars(c.Least), dollars(c.Most))
}
