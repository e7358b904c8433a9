package query

import (
	"context"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Halts returns what operators have halted. It is for those who may read what operators read.
func (r *Queues) Halts(ctx context.Context, p jobs.Principal) ([]models.Halt, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	halts, err := models.ListHalts(ctx, r.db)
	return halts, apierror.Wrap(err, "list what is halted")
}
