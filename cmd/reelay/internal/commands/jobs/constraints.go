package jobs

import (
	"fmt"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/text"
)

// constraints says which constraints a job has, and what they leave it.
func constraints(job *client.Job) []string {
	var lines []string
	if job.MaxPreemptions != nil {
		lines = append(lines, fmt.Sprintf("%s, of which it had %d in this run", text.Count(*job.MaxPreemptions, "preemption"), job.Preemptions))
	}
	if job.FinishBy != nil {
		line := "completion by " + output.Moment(*job.FinishBy)
		switch {
		case job.Late && job.Status.Terminal():
			line += ": it was late"
		case job.Late:
			line += ": it is late"
		}
		lines = append(lines, line)
	}
	if job.MaxPricePerHour != nil {
		lines = append(lines, fmt.Sprintf("workers that cost at most $%g per hour", *job.MaxPricePerHour))
	}
	if job.OnDemandOnly && !job.Status.Terminal() {
		lines = append(lines, "on-demand capacity only now")
	}
	return lines
}

// Infeasible says that a deadline is not expected to be met, or returns "".
func Infeasible(d *client.Deadline) string {
	switch {
	case d == nil || d.Feasible == nil || *d.Feasible:
		return ""
	case d.EarliestFinish == nil:
		return "the job is not expected to be complete by " + output.Moment(d.FinishBy)
	}
	return fmt.Sprintf("the job is not expected to be complete by %s, but at %s at the earliest",
		output.Moment(d.FinishBy), output.Moment(*d.EarliestFinish))
}
