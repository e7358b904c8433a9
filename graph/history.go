package graph

import "time"

// HistoryResolution is the time between two values of a history.
type HistoryResolution string

// step returns it as a duration, or 0 if the client leaves the choice to the server.
func (r *HistoryResolution) step() time.Duration {
	if r == nil {
		return 0
	}
	return map[HistoryResolution]time.Duration{"MINUTE": time.Minute, "TEN_MINUTES": 10 * time.Minute, "HOUR": time.Hour,
		"DAY": 24 * time.Hour}[*r]
}
