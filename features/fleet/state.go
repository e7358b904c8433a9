package fleet

import (
	"time"

	"github.com/reelay/reelay/models/capacity"
)

// State is what prevents a pool from getting more workers.
type State string

const (
	StateActive State = "ACTIVE"
	// StateServesNobody means that all accounts that the pool is dedicated to are deleted.
	StateServesNobody State = "SERVES_NOBODY"
	// StatePaused means that an operator paused the pool.
	StatePaused State = "PAUSED"
	// StateClosed means that now is outside the pool's active hours.
	StateClosed State = "CLOSED_BY_HOURS"
	// StateRefused means that the provider refused machines, and will be asked again later.
	StateRefused State = "REFUSED"
	// StateNotBooting means that several machines in a row did not start. The scaler tries one at a time.
	StateNotBooting State = "NOT_BOOTING"
	// StateFailing means that the provider cannot list or delete machines.
	StateFailing State = "FAILING"
	// StateTooDear means that the price is above the pool's limit.
	StateTooDear State = "TOO_DEAR"
)

// StateOf returns the state of a pool. If several apply, it is the first in the order of: whether
// somebody can use it, what the operator asked for, what the provider does, the price.
func StateOf(p *capacity.Pool, now time.Time) State {
	switch {
	case p.Deserted:
		return StateServesNobody
	case !p.PausedAt.IsZero():
		return StatePaused
	case OutsideHours(p, now):
		return StateClosed
	case p.BackoffUntil.After(now):
		return StateRefused
	case p.NotBooting():
		return StateNotBooting
	case p.ProviderProblem != "":
		return StateFailing
	case tooDear(p, now) != "":
		return StateTooDear
	}
	return StateActive
}
