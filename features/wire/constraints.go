package wire

import (
	"time"

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
