package budgets

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Hold is a hard budget that is spent, so that no job of its account or user starts.
type Hold struct {
	BudgetID  models.BudgetID  `bun:"budget_id"`
	AccountID models.AccountID `bun:"account_id"`
	// UserID is who has spent it; "" for the account.
	UserID   string          `bun:"user_id"`
	Period   Period          `bun:"period"`
	LimitUSD decimal.Decimal `bun:"limit_usd"`
	AtLimit  AtLimit         `bun:"at_limit"`
	// Until is the end of the period.
	Until time.Time `bun:"until"`
}

// Holds are the spent budgets of some accounts.
type Holds []*Hold

// ListHolds returns the spent budgets of accounts.
func ListHolds(ctx context.Context, db bun.IDB, accounts []models.AccountID) (found Holds, err error) {
	err = db.NewRaw(`
		SELECT h.budget_id, h.account_id, h.user_id, b.period, b.limit_usd, b.at_limit, h.until
		FROM budget_holds h JOIN budgets b ON b.id = h.budget_id WHERE h.account_id = ANY (?::uuid[])`, postgres.UUIDArray(accounts)).Scan(ctx, &found)
	return found, err
}

// Cancels returns a budget that cancels a job, or nil.
func (all Holds) Cancels(job *models.Job) *Hold {
	for _, h := range all {
		if h.AtLimit == LimitCancels && h.holds(job) {
			return h
		}
	}
	return nil
}

func (h *Hold) holds(job *models.Job) bool {
	return h.AccountID == job.AccountID && (h.UserID == "" || h.UserID == job.UserID)
}

// Of returns the budget that holds a job back the longest, or nil.
func (all Holds) Of(job *models.Job) (last *Hold) {
	for _, h := range all {
		if h.holds(job) && (last == nil || h.Until.After(last.Until)) {
			last = h
		}
	}
	return last
}

// Reconsider notes who of an account has spent a hard budget, and lets those go on who have not any more: after a change of
// budgets, and at the end of a period.
func Reconsider(ctx context.Context, tx bun.Tx, account models.AccountID) error {
	_, err := tx.NewRaw("SELECT hold_spent(?, NULL)", account).Exec(ctx)
	if err == nil {
		_, err = tx.NewRaw(`
			WITH spent AS MATERIALIZED (
				SELECT s.budget_id, s.user_id FROM budget_standing(?0, NULL) s JOIN budgets b ON b.id = s.budget_id
				WHERE b.hard AND s.spent_usd >= b.limit_usd)
			DELETE FROM budget_holds h WHERE h.account_id = ?0
				AND NOT EXISTS (SELECT FROM spent s WHERE s.budget_id = h.budget_id AND s.user_id = h.user_id)`, account).Exec(ctx)
	}
	return err
}

// Over returns accounts with holds whose periods are over.
func Over(ctx context.Context, db bun.IDB, limit int) (found []models.AccountID, err error) {
	err = db.NewRaw("SELECT account_id FROM budget_holds WHERE until <= clock_timestamp() GROUP BY account_id ORDER BY min(until) LIMIT ?", limit).
		Scan(ctx, &found)
	return found, err
}

// heldSQL is true for a job j that no worker may start, since a budget of it is spent.
const heldSQL = "EXISTS (SELECT FROM budget_holds h WHERE h.account_id = j.account_id AND h.user_id IN ('', j.user_id))"

// ToHold returns QUEUED jobs of those who have spent a hard budget that are not held yet, or that are to be cancelled.
func ToHold(ctx context.Context, db bun.IDB, limit int) (found []models.JobID, err error) {
	err = db.NewRaw(`
		SELECT j.id FROM budget_holds h JOIN jobs j ON j.account_id = h.account_id
		WHERE j.status = 'QUEUED' AND h.user_id IN ('', coalesce(j.user_id, '')) AND (j.needs NOT LIKE ?0 || '%'
			OR EXISTS (SELECT FROM budgets b WHERE b.id = h.budget_id AND b.at_limit = 'CANCEL'))
		GROUP BY j.id ORDER BY min(j.queue_order) LIMIT ?1`, models.HeldNeed, limit).Scan(ctx, &found)
	return found, err
}

// ToRelease returns held jobs whose budgets are not spent any more.
func ToRelease(ctx context.Context, db bun.IDB, limit int) (found []models.JobID, err error) {
	err = db.NewRaw("SELECT j.id FROM jobs j WHERE j.status = 'QUEUED' AND j.needs <> '' AND j.needs LIKE ?0 || '%' AND NOT "+heldSQL+" LIMIT ?1",
		models.HeldNeed, limit).Scan(ctx, &found)
	return found, err
}
