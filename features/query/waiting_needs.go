package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// needs describes what a job requires of a worker.
func needs(job *models.Job) string {
	text := ": it needs " + job.Model
	if job.GPURank > 0 {
		text += " on a larger GPU"
	}
	if job.RequireRegion {
		text += " in the region " + job.Region
	}
	return text
}

// restrictions says, in sentences after another, what the job can bear that leaves it fewer
// workers than others have.
func restrictions(job *models.Job, now time.Time) string {
	var all string
	if why := job.WhyOnDemand(); why != "" {
		all += " It runs on on-demand capacity only: " + why + "."
	}
	if job.Needs.Cheap() {
		all += " Its finishBy leaves slack until " + text.Moment(job.SlackUntil.UTC(), now) +
			": until then it runs on spot capacity, or where a worker has no price."
	}
	if job.MaxPricePerHour != nil {
		all += fmt.Sprintf(" It runs only where a worker costs at most $%g per hour, its maxPricePerHour.", *job.MaxPricePerHour)
	}
	return all
}

// tooDear reports whether only the job's limit of the price keeps a pool or worker from running
// it.
func (s *situation) tooDear(job *models.Job) bool {
	anyPrice := job.Queue()
	anyPrice.Needs = anyPrice.Needs.AtAnyPrice()
	return job.Needs != anyPrice.Needs && slices.ContainsFunc(s.capacity, func(c capacity.Capacity) bool {
		return c.Booting+c.Idle+c.Busy+c.Most > 0 && s.catalogue.CapabilityOf(c.Offer).Serves(anyPrice, job.AccountID)
	})
}

// forOthers says that pools or workers could run the job but for its lane or account, if so. It
// names no account.
func (s *situation) forOthers(job *models.Job) string {
	lanes, accounts := false, false
	for _, c := range s.capacity {
		if s.catalogue.CapabilityOf(c.Offer).Runs(job.Queue()) {
			lanes, accounts = lanes || !c.ServesLane(job.Lane), accounts || !c.ServesAccount(job.AccountID)
		}
	}
	switch lane := strings.ToLower(string(job.Lane)); {
	case lanes && accounts:
		return ", and those that have it do not serve the " + lane + " lane or are dedicated to other accounts"
	case lanes:
		return ", and those that have it do not serve the " + lane + " lane"
	case accounts:
		return ", and those that have it are dedicated to other accounts"
	}
	return ""
}
