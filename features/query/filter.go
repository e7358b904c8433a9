package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Narrow parses a filter's search, and restricts the filter to what the caller may see. It
// returns INVALID_INPUT, or NOT_FOUND for an account that does not exist or that the caller
// may not see.
func Narrow(ctx context.Context, db bun.IDB, p jobs.Principal, f joblist.JobFilter) (joblist.JobFilter, error) {
	for name, value := range map[string]string{"type": f.Type, "model": f.Model, "userId": f.UserID} {
		if !text.Valid(value, 0, submit.MaxUserIDBytes) {
			return f, apierror.Invalid("filter."+name, "filter.%s may have %d printable characters.", name, submit.MaxUserIDBytes)
		}
	}
	search, err := ParseSearch(f.Search)
	if err != nil {
		return f, err
	}
	f.Terms = search.Terms
	if f.ScheduleID != "" {
		if !f.ScheduleID.Valid() {
			return f, apierror.NotFound("schedule")
		}
		f.Terms.ScheduleID = f.ScheduleID
	}
	if f.WorkflowID != "" {
		if !f.WorkflowID.Valid() {
			return f, apierror.NotFound("workflow")
		}
		f.Terms.WorkflowID = f.WorkflowID
	}
	if f.AccountID != "" && !f.AccountID.Valid() {
		return f, apierror.NotFound("account")
	}
	if search.Account != "" {
		id, err := namedAccount(ctx, db, p, search.Account)
		if err != nil {
			return f, err
		}
		if f.AccountID != "" && f.AccountID != id {
			return f, apierror.Invalid("filter.search", "The search names another account than filter.accountId.")
		}
		f.AccountID = id
	}
	if f.Within > 0 && (search.YoungerThan == 0 || f.Within < search.YoungerThan) {
		search.YoungerThan = f.Within
	}
	f.Within = 0
	if search.OlderThan > 0 || search.YoungerThan > 0 {
		now, err := postgres.Now(ctx, db)
		if err != nil {
			return f, fmt.Errorf("read the clock: %w", err)
		}
		f = withAge(f, now, search.OlderThan, search.YoungerThan)
	}
	if p.May(access.RoleViewer) {
		return f, nil
	}
	if f.AccountID != "" && f.AccountID != p.AccountID {
		return f, apierror.NotFound("account")
	}
	f.AccountID = p.AccountID
	return f, nil
}

// namedAccount returns the account of that id or name if the caller may see it, or NOT_FOUND.
func namedAccount(ctx context.Context, db bun.IDB, p jobs.Principal, name string) (models.AccountID, error) {
	if id := models.AccountID(name); id.Valid() {
		return id, nil
	}
	if !p.May(access.RoleViewer) {
		// Names are not unique: a client's search can only match the client's own account.
		accounts, err := models.GetAccounts(ctx, db, []models.AccountID{p.AccountID})
		if err == nil && (len(accounts) == 0 || accounts[0].Name != name) {
			return "", apierror.NotFound("account")
		}
		return p.AccountID, apierror.Wrap(err, "find the account of a search")
	}
	account, err := models.FindAccountByName(ctx, db, name)
	if errors.Is(err, sql.ErrNoRows) {
		return "", apierror.NotFound("account")
	}
	if err != nil {
		return "", fmt.Errorf("find the account of a search: %w", err)
	}
	return account.ID, nil
}

func withAge(f joblist.JobFilter, now time.Time, older, younger time.Duration) joblist.JobFilter {
	if before := now.Add(-older); older > 0 && (f.CreatedBefore.IsZero() || before.Before(f.CreatedBefore)) {
		f.CreatedBefore = before
	}
	if after := now.Add(-younger); younger > 0 && after.After(f.CreatedAfter) {
		f.CreatedAfter = after
	}
	return f
}
