package fleet

import (
	"time"

	"github.com/reelay/reelay/models"
)

// SetAsked changes when a pool's provider was last asked for its machines, if the next round need
// not ask.
func SetAsked(s *Scaler, id models.PoolID, at time.Time) {
	s.surveys.mu.Lock()
	defer s.surveys.mu.Unlock()
	if last, known := s.surveys.newest[id]; known {
		last.asked = at
		s.surveys.newest[id] = last
	}
}

// Age makes what a scaler remembers of the lists of providers older.
func Age(s *Scaler, by time.Duration) {
	s.surveys.mu.Lock()
	defer s.surveys.mu.Unlock()
	for id, last := range s.surveys.newest {
		last.asked = last.asked.Add(-by)
		s.surveys.newest[id] = last
	}
	for id, at := range s.surveys.lists {
		s.surveys.lists[id] = at.Add(-by)
	}
	for _, machines := range s.surveys.taken {
		for id, i := range machines {
			machines[id] = takenAway{i.Instance, i.until.Add(-by)}
		}
	}
	for _, machines := range s.surveys.first {
		for id, at := range machines {
			machines[id] = at.Add(-by)
		}
	}
}
