package jobs_test

import (
	"sync"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// tally records the calls of an observer.
type tally struct {
	mu      sync.Mutex
	refused map[apierror.Code]int
	changed [][2]models.Job
	made    []models.Job
	yielded []models.Job
	ended   []jobs.AttemptEnd
	// checkpoints are how long checkpoints took.
	checkpoints []*float64
}

// Yielded implements [jobs.Observer].
func (m *tally) Yielded(_ models.Tier, job *models.Job, _ float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.yielded = append(m.yielded, *job)
}

// Ended implements [jobs.Observer].
func (m *tally) Ended(end jobs.AttemptEnd) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = append(m.ended, end)
}

// Checkpointed implements [jobs.Observer].
func (m *tally) Checkpointed(_ *models.Job, seconds *float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkpoints = append(m.checkpoints, seconds)
}

// Submitted implements [jobs.Observer].
func (m *tally) Submitted(job *models.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made = append(m.made, *job)
}

// Refused implements [jobs.Observer].
func (m *tally) Refused(code apierror.Code, _ models.Tier) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused == nil {
		m.refused = map[apierror.Code]int{}
	}
	m.refused[code]++
}

// Changed implements [jobs.Observer].
func (m *tally) Changed(before, after *models.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed = append(m.changed, [2]models.Job{*before, *after})
}

// into returns the jobs that changed to a status.
func (m *tally) into(status models.JobStatus) []models.Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []models.Job
	for _, c := range m.changed {
		if c[0].Status != status && c[1].Status == status {
			found = append(found, c[1])
		}
	}
	return found
}
