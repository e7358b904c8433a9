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
