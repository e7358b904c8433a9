package jobs

import "github.com/reelay/reelay/models/backlog"

func readyHint(job backlog.QueuedJob) ReadyJob {
	return ReadyJob{
		Queue: job.Queue, ID: job.ID, Account: job.AccountID, PreferredRegion: job.PreferredRegion, Order: job.QueueOrder,
		VirtualTime: job.VirtualTime,
	}
}

// ReadyHints returns what the ready index holds of queued jobs.
func ReadyHints(queued []backlog.QueuedJob) []ReadyJob {
	hints := make([]ReadyJob, len(queued))
	for i, job := range queued {
		hints[i] = readyHint(job)
	}
	return hints
}
