package jobstest

import (
	"sync"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Tally records the calls of an observer.
type Tally struct {
	mu       sync.Mutex
	Refusals map[apierror.Code]int
	Changes  [][2]models.Job
	Made     []models.Job
	Yields   []models.Job
	Ends     []jobs.AttemptEnd
	// Checkpoints are how long checkpoints took.
	Checkpoints []*float64
}

// Yielded implements [jobs.Observer].
func (m *Tally) Yielded(_ models.Tier, job *models.Job, _ float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Yields = append(m.Yields, *job)
}

// Ended implements [jobs.Observer].
func (m *Tally) Ended(end jobs.AttemptEnd) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Ends = append(m.Ends, end)
}

// Checkpointed implements [jobs.Observer].
func (m *Tally) Checkpointed(_ *models.Job, seconds *float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Checkpoints = append(m.Checkpoints, seconds)
}

// Submitted implements [jobs.Observer].
func (m *Tally) Submitted(job *models.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Made = append(m.Made, *job)
}

// Refused implements [jobs.Observer].
func (m *Tally) Refused(code apierror.Code, _ models.Tier) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Refusals == nil {
		m.Refusals = map[apierror.Code]int{}
	}
	m.Refusals[code]++
}

// Changed implements [jobs.Observer].
func (m *Tally) Changed(before, after *models.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Changes = append(m.Changes, [2]models.Job{*before, *after})
}

// Into returns the jobs that changed to a status.
func (m *Tally) Into(status models.JobStatus) []models.Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []models.Job
	for _, c := range m.Changes {
		if c[0].Status != status && c[1].Status == status {
			found = append(found, c[1])
		}
	}
	return found
}
