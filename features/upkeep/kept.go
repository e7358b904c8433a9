package upkeep

import (
	"time"

	"github.com/reelay/reelay/models/reports"
)

// For returns for how long what is of a kind is kept: 0 for what goes as soon as it can, and -1 for what is kept for
// ever. Times of jobs, and of what belongs to them, count from the end of the job.
func (r Retention) For(kind reports.Kind) time.Duration {
	switch kind {
	case reports.KeptJobs, reports.KeptDeadLetters, reports.KeptWorkers:
		return r.Jobs
	case reports.KeptEvents:
		return r.Events
	case reports.KeptFiles:
		return r.Videos
	case reports.KeptMachines:
		return machineAge
	case reports.KeptWebhooks:
		return webhookAge
	case reports.KeptPrices:
		return priceAge
	case reports.KeptDeletions:
		return 0
	}
	return -1
}
