package rest

import (
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
)

// Constraints are what a request demands of the capacity for its job.
type Constraints struct {
	MaxPreemptions  *int     `json:"max_preemptions,omitempty" doc:"After this number of lost spot workers, a run continues on on-demand capacity only: 0 to 1000. With 0 it never runs on spot capacity."`
	FinishBy        *string  `json:"finish_by,omitempty" format:"date-time" doc:"Deadline for completion, at most one year ahead. A job without slack runs on on-demand capacity only. A job that misses the deadline is late, and continues."`
	MaxPricePerHour *float64 `json:"max_price_per_hour,omitempty" doc:"The highest price of a worker that may run the job, in US dollars per hour: 0 to 10,000. Three digits of it count, rounded down."`
}

// Placing is when and where a request lets its job run.
type Placing struct {
	DependsOn      []models.JobID `json:"depends_on,omitempty" maxItems:"100" doc:"Ids of up to 100 jobs of the same account that must be completed first. If one fails or is cancelled, so does this job."`
	Region         *string        `json:"region,omitempty" doc:"The region that the job prefers."`
	RequireRegion  *bool          `json:"require_region,omitempty" doc:"Run the job only in region."`
	TimeoutSeconds *int           `json:"timeout_seconds,omitempty" minimum:"1" maximum:"18000" doc:"Seconds that one attempt may run. The default depends on the model."`
	ExpiresAt      *string        `json:"expires_at,omitempty" format:"date-time" doc:"If no worker has started the job by then, it fails. After execute_at."`
}

// addTo copies it to a submission.
func (p *Placing) addTo(in *submit.Submission) error {
	expires, err := readTime("expires_at", value(p.ExpiresAt))
	if err != nil {
		return err
	}
	in.DependsOn, in.Region, in.RequireRegion = p.DependsOn, value(p.Region), p.RequireRegion != nil && *p.RequireRegion
	in.TimeoutSeconds, in.ExpiresAt = p.TimeoutSeconds, wire.KnownTime(expires)
	return nil
}

// Own is what a request says of its job for the client's own use.
type Own struct {
	UserID   *string `json:"user_id,omitempty" doc:"Your id for the end user."`
	Metadata object  `json:"metadata,omitempty" doc:"Your own data, up to 64 keys, stored with the job, shown with it and sent with its webhooks: see docs/users/limits.md."`
}

// addTo copies it to a submission.
func (o *Own) addTo(in *submit.Submission) {
	in.UserID, in.Metadata = value(o.UserID), []byte(o.Metadata)
}

// addTo copies it to a submission.
func (b *Constraints) addTo(in *submit.Submission) error {
	finish, err := readTime("finish_by", value(b.FinishBy))
	if err != nil {
		return err
	}
	in.MaxPreemptions, in.FinishBy, in.MaxPricePerHour = b.MaxPreemptions, wire.KnownTime(finish), b.MaxPricePerHour
	return nil
}
