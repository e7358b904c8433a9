package wire

import (
	"time"

	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
)

// ConstraintState is the constraints of a job, and what came of them so far.
type ConstraintState struct {
	MaxPreemptions  *int       `json:"max_preemptions,omitempty" doc:"After this number of preemptions, a run continues on on-demand capacity only."`
	Preemptions     int        `json:"preemptions,omitempty" doc:"How often this run lost a spot worker."`
	FinishBy        *time.Time `json:"finish_by,omitempty" doc:"Deadline for completion."`
	Late            bool       `json:"late,omitempty" doc:"True if finish_by passed before the job was complete."`
	MaxPricePerHour *float64   `json:"max_price_per_hour,omitempty" doc:"The highest price of a worker that may run the job, in US dollars per hour."`
	OnDemandOnly    bool       `json:"on_demand_only,omitempty" doc:"True if the job runs on on-demand capacity only now."`
}

// ConstraintStateOf returns the constraints of a job.
func ConstraintStateOf(job *models.Job) ConstraintState {
	return ConstraintState{
		MaxPreemptions: job.MaxPreemptions, Preemptions: job.Preemptions, FinishBy: KnownTime(job.FinishBy), Late: job.LateNow(),
		MaxPricePerHour: job.MaxPricePerHour, OnDemandOnly: job.OnDemandOnly(),
	}
}

// Deadline is what is expected of a job's finish_by, as things are now.
type Deadline struct {
	FinishBy       time.Time  `json:"finish_by"`
	Feasible       *bool      `json:"feasible" doc:"Whether the job is expected to be complete by then, also if its render is slow. Null if that is unknown."`
	EarliestFinish *time.Time `json:"earliest_finish" doc:"The earliest time at which the job is expected to be complete. Null if that is unknown, and if the job expires before a worker is expected to start it."`
}

// DeadlineOf returns a deadline, or nil for none.
func DeadlineOf(d *estimate.Deadline) *Deadline {
	if d == nil {
		return nil
	}
	return &Deadline{d.FinishBy.UTC(), d.Feasible, KnownTime(d.EarliestFinish)}
}

// Steady returns the deadline without the earliest finish, which moves with the clock: the rest of it
// changes only if something happens.
func (d *Deadline) Steady() *Deadline {
	if d == nil {
		return nil
	}
	return &Deadline{FinishBy: d.FinishBy, Feasible: d.Feasible}
}
