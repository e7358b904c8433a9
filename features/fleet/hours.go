package fleet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Hours is a recurring window of time.
type Hours struct {
	begins cron.Schedule
	lasts  time.Duration
	zone   *time.Location
}

// maxHours bounds how long a window of [Hours] lasts.
const maxHours = 7 * 24 * time.Hour

// ParseHours parses a window such as "0 2 * * * for 6h Europe/Berlin": the five cron fields of its
// beginning, its length (1m to 168h), and the time zone, which is UTC if omitted.
func ParseHours(s string) (*Hours, error) {
	when, rest, found := strings.Cut(s, " for ")
	lasts, zone, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if !found || strings.Contains(when, "=") || strings.HasPrefix(when, "@") {
		return nil, errors.New(`write five cron fields, "for", a duration and a time zone, such as "0 2 * * * for 6h Europe/Berlin"`)
	}
	h := new(Hours)
	var err error
	if h.begins, err = cron.ParseStandard(when); err != nil {
		return nil, fmt.Errorf("%q is not five cron fields: %w", when, err)
	}
	if h.lasts, err = time.ParseDuration(lasts); err != nil || h.lasts < time.Minute || h.lasts > maxHours {
		return nil, fmt.Errorf("%q is not a duration from 1m to 168h", lasts)
	}
	if h.zone, err = time.LoadLocation(strings.TrimSpace(zone)); err != nil || strings.TrimSpace(zone) == "Local" {
		return nil, fmt.Errorf("there is no time zone %q: write one such as Europe/Berlin", zone)
	}
	return h, nil
}

// Open reports whether a window is open at t.
func (h *Hours) Open(t time.Time) bool {
	begun := h.begins.Next(t.In(h.zone).Add(-h.lasts))
	return !begun.IsZero() && !begun.After(t)
}

// Opens returns the beginning of the next window after t, or zero if there is none.
func (h *Hours) Opens(t time.Time) time.Time { return h.begins.Next(t.In(h.zone)) }
