package job

import (
	"context"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

// relatedShown is how many of the jobs that wait for a job are shown.
const relatedShown = 20

// readRelations reads the jobs, keys and the dead letter around a job, and its forecast.
func (c *controller) readRelations(ctx context.Context, p jobs.Principal, v *jobView) error {
	edges, err := c.Reads.Jobs.Of(p, v.Job)
	if err != nil {
		return err
	}
	parents, err := edges.Parents(ctx)
	if err != nil {
		return err
	}
	v.Parents = parents[v.ID]
	if v.Children, err = c.Reads.Jobs.Children(ctx, p, v.ID, relatedShown+1); err != nil {
		return err
	}
	if v.Keys, err = c.KeyNames(ctx, p, string(v.CreatedBy), v.CancelBy); err != nil {
		return err
	}
	if v.OpenDeadLetter = nil; v.Status == models.JobFailed {
		if v.OpenDeadLetter, err = c.Reads.DeadLetters.OpenOf(ctx, p, v.Job); err != nil {
			return err
		}
	}
	estimates, err := edges.Estimates(ctx)
	v.Estimate = estimates[v.ID]
	return err
}

// laneText says in which lane the job is, and whether that is another one than its tier's.
func (v *jobView) laneText() string {
	if v.Lane == v.Tier {
		return ui.Words(string(v.Lane))
	}
	return ui.Words(string(v.Lane)) + ", " + v.promotion()
}

// promotion says why the job is in a higher lane than its tier's.
func (v *jobView) promotion() string {
	if v.Lane == models.TierCritical {
		return "since it was redriven"
	}
	return "since it waited long"
}

func (v *jobView) regionText() string {
	if v.RequireRegion {
		return v.Region + ", required"
	}
	return v.Region + ", preferred"
}

// estimatedStart returns when a worker is expected to start the job, or zero.
func (v *jobView) estimatedStart() time.Time {
	if v.Estimate.WaitSeconds == nil {
		return time.Time{}
	}
	return v.Now.Add(time.Duration(*v.Estimate.WaitSeconds * float64(time.Second)))
}

// infeasible reports whether the job is not expected to meet its FinishBy.
func (v *jobView) infeasible() bool {
	d := v.Estimate.Deadline
	return d != nil && d.Feasible != nil && !*d.Feasible
}

// gpuTime returns the GPU time of the attempts that have ended.
func (v *jobView) gpuTime() string {
	ended := lo.Filter(v.Attempts, func(a *models.Attempt, _ int) bool { return !a.EndedAt.IsZero() })
	if len(ended) == 0 {
		return ui.Unknown
	}
	return shell.GPUSeconds(lo.SumBy(ended, func(a *models.Attempt) float64 { return a.GPUSeconds }))
}

// cost is what the account pays, and what the operator does.
func (v *jobView) cost() string {
	if v.Costs.RestUSD == nil || v.Costs.RestUSD.IsZero() {
		return ui.USD(v.Costs.USD)
	}
	return ui.USD(v.Costs.USD) + ", and " + ui.USD(v.Costs.RestUSD) + " that the account does not pay"
}

// retryText describes the delays between attempts.
func retryText(policy *models.RetryPolicy) string {
	if policy == nil {
		return "by the failure's class"
	}
	text := map[models.Backoff]string{models.BackoffFixed: "fixed delay", models.BackoffExponential: "doubled delay"}[policy.Backoff]
	if policy.InitialDelaySeconds != nil {
		text += ", from " + ui.Seconds(policy.InitialDelaySeconds)
	}
	if policy.MaxDelaySeconds != nil {
		text += ", up to " + ui.Seconds(policy.MaxDelaySeconds)
	}
	return text
}

// jobLink is an action on the job's page: a link to the page that asks for it.
type jobLink struct {
	Label, Href string
	// Key is the key that opens it, or "".
	Key    string
	Danger bool
}

// keys tells console.js and the person which key opens the page.
func (l jobLink) keys() templ.Attributes {
	if l.Key == "" {
		return nil
	}
	return templ.Attributes{"data-keys": l.Key, "title": "Key: " + l.Key}
}

// actions lists what is possible in the job's state.
func (v *jobView) actions() (links []jobLink) {
	path := string(address.Job(v.ID))
	a := &jobAction{Job: v.Job, DeadLetter: v.OpenDeadLetter}
	if a.redrivable() {
		links = append(links, jobLink{Label: "Redrive…", Href: path + "/redrive"})
	}
	if a.retryable() {
		links = append(links, jobLink{Label: "Retry…", Href: path + "/retry", Key: "r"})
	}
	if v.DeletedAt.IsZero() {
		links = append(links, jobLink{Label: "Clone", Href: "/jobs/new?from=" + string(v.ID)})
	}
	if a.open() {
		links = append(links, jobLink{Label: "Priority…", Href: path + "/order"})
	}
	if a.cancellable() {
		links = append(links, jobLink{Label: "Cancel…", Href: path + "/cancel", Key: "c", Danger: true})
	}
	if a.deletable() {
		links = append(links, jobLink{Label: "Delete…", Href: path + "/delete", Danger: true})
	}
	return links
}
