package query

import (
	"cmp"
	"context"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/shopspring/decimal"
)

// JobCost is what the attempts of a job cost that have ended. An amount is nil if it is unknown.
type JobCost struct {
	// USD is what the account pays: of a COMPLETED job what it was charged, nothing of one that failed or was
	// cancelled, and of any other what the useful time has cost so far.
	USD *decimal.Decimal
	// RestUSD is what the operator pays: the rest. It is nil for clients.
	RestUSD *decimal.Decimal
	// Unknown says why USD or what the operator pays is unknown, as the end of a sentence; "" if both are known.
	Unknown string
	// Attempts are the costs of each; clients have none.
	Attempts map[models.AttemptID]*costs.Cost
}

// Costs returns what the jobs have cost.
func (e Edges) Costs(ctx context.Context) (map[models.JobID]*JobCost, error) {
	sums, attempts := map[models.JobID]*costs.Cost{}, map[models.JobID]map[models.AttemptID]*costs.Cost{}
	unpriced := map[models.JobID]string{}
	var tried []models.JobID
	for _, job := range e.rows {
		sums[job.ID], attempts[job.ID] = new(costs.Nothing()), map[models.AttemptID]*costs.Cost{}
		if job.AttemptNo > 0 {
			tried = append(tried, job.ID)
		}
	}
	if len(tried) > 0 {
		rows, err := costs.OfJobs(ctx, e.jobs.db, tried)
		if err != nil {
			return nil, apierror.Wrap(err, "read the costs of jobs")
		}
		for _, row := range rows {
			sums[row.JobID].Add(&row.Cost)
			attempts[row.JobID][row.AttemptID] = &row.Cost
			unpriced[row.JobID] = cmp.Or(unpriced[row.JobID], row.Unpriced)
		}
	}
	found := make(map[models.JobID]*JobCost, len(e.rows))
	for _, job := range e.rows {
		sum := sums[job.ID]
		cost := &JobCost{USD: sum.UsefulUSD}
		switch job.Status {
		case models.JobCompleted:
			cost.USD = sum.ChargedUSD
		case models.JobFailed, models.JobCancelled:
			cost.USD = new(decimal.Zero)
		}
		known := cost.USD != nil
		if e.caller.RequireViewer() == nil {
			cost.Attempts = attempts[job.ID]
			if known = known && sum.UsefulUSD != nil && sum.WastedUSD != nil; known {
				cost.RestUSD = new(sum.UsefulUSD.Add(*sum.WastedUSD).Sub(*cost.USD))
			}
		}
		if !known {
			cost.Unknown = whyUnknown(job, unpriced[job.ID])
		}
		found[job.ID] = cost
	}
	return found, nil
}

// whyUnknown says why what a job cost is unknown: of a hosted provider whose fee is unknown, that its price was.
func whyUnknown(job *models.Job, unpriced string) string {
	if unpriced == "" {
		return "a pool had no price"
	}
	title := unpriced
	if adapter := provider.Find(unpriced); adapter != nil {
		title = adapter.Title
	}
	return fmt.Sprintf("the price book had no price of %s for what this job asked of it when it was submitted there (model %s)",
		title, job.Model)
}
