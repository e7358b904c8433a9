package query

import (
	"context"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
)

const (
	day = 24 * time.Hour
	// maxUsageDays is how far back the usage of drafts can be asked: as long as drafts can be kept.
	maxUsageDays = 90
)

// DraftUsage sums up the drafts that were submitted within the last 1 to 90 days: the caller's
// account's, or for an operator those of all accounts. Drafts whose rows were deleted since do
// not count. It returns INVALID_INPUT for other days.
func (r *Jobs) DraftUsage(ctx context.Context, p jobs.Principal, days int) (models.DraftUsage, error) {
	if days < 1 || days > maxUsageDays {
		return models.DraftUsage{}, apierror.Invalid("days", "days is 1 to %d; it is %d.", maxUsageDays, days)
	}
	account := p.AccountID
	if p.May(access.RoleViewer) {
		account = ""
	}
	usage, err := models.SumDrafts(ctx, r.db, account, time.Duration(days)*day)
	return usage, apierror.Wrap(err, "sum up drafts")
}

// RecentDrafts is the usage of all accounts' drafts of the last 30 days, for metrics.
func (r *Jobs) RecentDrafts(ctx context.Context) (models.DraftUsage, error) {
	usage, err := models.SumDrafts(ctx, r.db, "", 30*day)
	return usage, apierror.Wrap(err, "sum up drafts")
}
