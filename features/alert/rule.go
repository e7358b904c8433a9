package alert

import (
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/models/alerts"
)

// Rule is a condition that somebody must act on.
type Rule struct {
	// Name identifies it, such as drain-time.
	Name string
	// Title is the condition in words, without numbers.
	Title string
	// Says is the sentence of its alerts: see says.
	Says     string
	Severity alerts.Severity
	// Threshold is the value beyond which the condition holds: above it, or below it if Below.
	Threshold float64
	Below     bool
	// For is for how long the condition must hold.
	For time.Duration
	// Unit says how values are shown.
	Unit history.Unit
	// Value returns the figure, or nil if it is unknown.
	Value func(*State) *float64
	// Off rules are not evaluated.
	Off bool

	Runbook
}

// Runbook says what an alert means and what to do.
type Runbook struct {
	// Meaning is what users notice.
	Meaning string
	// Causes are the usual ones, the most frequent first.
	Causes []string
	// Steps are what to look at and what to do, in this order. They may name pages of the console
	// as (/path).
	Steps []string
}

// holds reports whether the condition holds for a value.
func (r *Rule) holds(value float64) bool {
	if r.Below {
		return value < r.Threshold
	}
	return value > r.Threshold
}

// Condition is the condition with its numbers, such as "above 10 min for 15 min".
func (r *Rule) Condition() string {
	side := "above "
	if r.Below {
		side = "below "
	}
	text := side + Show(r.Threshold, r.Unit)
	if r.For > 0 {
		text += " for " + long(r.For)
	}
	return text
}

// message says what is so now.
func (r *Rule) message(value float64) string {
	return strings.NewReplacer("{value}", Show(value, r.Unit), "{limit}", Show(r.Threshold, r.Unit)).Replace(r.Says)
}

// Show formats a value in its unit.
func Show(value float64, unit history.Unit) string {
	switch unit {
	case history.Share:
		return fmt.Sprintf("%.4g %%", value*100)
	case history.Seconds:
		if value < 120 {
			return fmt.Sprintf("%.3g s", value)
		}
		return long(time.Duration(value * float64(time.Second)))
	case history.Count:
		return fmt.Sprintf("%.4g", value)
	case history.PerMinute:
		return fmt.Sprintf("%.3g a minute", value)
	case history.PerHour:
		return fmt.Sprintf("%.3g an hour", value)
	}
	return fmt.Sprintf("%.3g %s", value, unit)
}

// long formats a duration of at least a second.
func long(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.3g days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.3g h", d.Hours())
	case d >= time.Minute:
		return fmt.Sprintf("%.3g min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// Regions is what is wrong with the other regions of an installation. It is zero if there is only one.
type Regions struct {
	// Silent do not answer, Serving were seen in the last ten minutes to claim to be the primary, too, and Overtaken were the
	// primary and are no standby yet. Foreign are of this region, or no copies.
	Silent, Serving, Overtaken, Foreign int
	// Alone is true if no standby follows the primary.
	Alone bool
	// Async counts the standbys if no commit waits for any of them.
	Async int
}

// State is what the rules look at.
type State struct {
	// Now is what was read now.
	Now *alerts.Health
	// Webhooks are the deliveries of the last hour.
	Webhooks *alerts.WebhookHealth
	// Refused is how many submits of the last hour failed through no fault of their callers.
	Refused int
	// Regions is how the regions stand.
	Regions Regions
	// Full reports whether no pool can grow.
	Full bool
	// Minute, Five, Ten and so on are the history of the last one, five, ten minutes, and so on.
	Minute, Five, Ten, HalfHour, Hour, SixHours, Day *history.Figures
	// Before is the history of the hour that ended an hour ago.
	Before *history.Figures
}
