package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/text"
)

// priceNow is what a worker of a pool costs per hour.
func priceNow(p client.Pool) string {
	price := fmt.Sprintf("$%.4g", p.Price.PricePerHourUsd)
	if p.Price.Stale {
		price += " stale"
	}
	return price
}

// maxShownAhead is how many of the prices to come are shown.
const maxShownAhead = 6

// printPrice prints what a worker of a pool costs, where that comes from, and what comes next.
func printPrice(field func(name, format string, args ...any), p *client.Pool) {
	field("price", "$%.4g per worker and hour", p.Price.PricePerHourUsd)
	if p.Price.Source != nil && p.Price.At != nil {
		stale := ""
		if p.Price.Stale {
			stale = ", stale"
		}
		field("", "by %s, %s%s", *p.Price.Source, output.Since(p.Price.At), stale)
	}
	if p.PriceSource != nil && *p.PriceSource != "" {
		field("constant price", "$%.4g, if the source %s gives none", p.PricePerHourUsd, *p.PriceSource)
	}
	if p.Price.Problem != nil && *p.Price.Problem != "" {
		field("price problem", "%s", output.Clean(*p.Price.Problem))
	}
	for i, step := range p.Price.Ahead {
		if i == maxShownAhead {
			field("", "and %d more", len(p.Price.Ahead)-i)
			break
		}
		field("price ahead", "$%.4g from %s", step.PricePerHourUsd, text.Moment(step.From.Local(), time.Now()))
	}
	if paid := paidWords(p.Paid); paid != "" {
		field("paid, 24 h", "%s", paid)
	}
	if p.LossesPerHour != nil {
		field("losses", "%.2g per busy hour", *p.LossesPerHour)
	}
	if p.Advice != nil {
		field("advice", "%s, %s", adviceWords(p.Advice), output.Since(&p.Advice.At))
	}
}

// paidWords says what machines were paid for, or "" if none were.
func paidWords(all []client.PaidTime) string {
	var seconds, usd float64
	for _, time := range all {
		seconds, usd = seconds+time.Seconds, usd+time.Usd
	}
	if seconds <= 0 {
		return ""
	}
	var parts []string
	for _, time := range all {
		if share := max(time.Seconds, 0) / seconds; share >= 0.0005 {
			parts = append(parts, fmt.Sprintf("%.3g %% %s", 100*share, strings.ToLower(string(time.Class))))
		}
	}
	return fmt.Sprintf("$%.4g for %.3g worker hours: %s", usd, seconds/3600, strings.Join(parts, ", "))
}

// adviceWords is what a provider says of spot machines.
func adviceWords(a *client.PoolAdvice) string {
	var said []string
	add := func(format string, value *float64, unit float64) {
		if value != nil {
			said = append(said, fmt.Sprintf(format, *value/unit))
		}
	}
	add("list price $%.4g per machine", a.PricePerHourUsd, 1)
	add("%.0f %% preempted lately", a.Preempted, 0.01)
	add("%.0f %% obtainable", a.Obtainability, 0.01)
	add("most run %.3g h", a.UptimeSeconds, 3600)
	if a.Problem != nil && *a.Problem != "" {
		said = append(said, output.Clean(*a.Problem))
	}
	return strings.Join(said, ", ")
}
