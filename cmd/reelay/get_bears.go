package main

import (
	"fmt"
	"time"

	"github.com/reelay/reelay/client"
)

// bears says what a job can bear, and where that leaves it.
func bears(job *client.Job) []string {
	var lines []string
	if job.MaxPreemptions != nil {
		lines = append(lines, fmt.Sprintf("%d preemptions, of which it had %d in this run", *job.MaxPreemptions, job.Preemptions))
	}
	if job.FinishBy != nil {
		line := "completion by " + job.FinishBy.Local().Format(time.RFC3339)
		if job.Late {
			line += ": it is late"
		}
		lines = append(lines, line)
	}
	if job.MaxPricePerHour != nil {
		lines = append(lines, fmt.Sprintf("workers that cost at most $%g per hour", *job.MaxPricePerHour))
	}
	if job.OnDemandOnly {
		lines = append(lines, "on-demand capacity only, for now")
	}
	return lines
}
