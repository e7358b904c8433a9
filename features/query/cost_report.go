package query

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/samber/lo"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Costs reports what jobs and machines cost.
type Costs struct {
	db       *bun.DB
	timeline *history.Timeline
}

const (
	usualCostDays = 30
	// maxCostDays is how many days a report may cover: three years.
	maxCostDays = 1100
	// MaxCostRows bounds the rows of a report.
	MaxCostRows = 5000
)

// CostRequest asks for a report of whole days in UTC.
type CostRequest struct {
	// From is the first day, and To the day after the last. The zero times mean the last 30 days, today included.
	From, To time.Time
	By       costs.Group
	// Account narrows it to one account. Clients see only their own.
	Account models.AccountID
	// First bounds the rows: 1 to MaxCostRows.
	First int
}

// CostRow is a row of a report.
type CostRow struct {
	costs.Row
	// Name is the key as people know it: the name of an account, or the key itself.
	Name string
	own  bool // the reader is an account: what the operator pays is not its business
}

// CostReport is what the attempts of some days cost.
type CostReport struct {
	From, To time.Time
	By       costs.Group
	// Total sums up all rows, also those that were left out. More is true if there are any.
	Total *CostRow
	Rows  []*CostRow
	More  bool
	// Machines is what the machines of these days cost, by what their time was used for: what operators pay. It is
	// nil for clients and for a single account.
	Machines *models.Paid
}

// own are the groups of the reports of accounts. The others say how the operator renders.
var ownGroups = []costs.Group{costs.ByDay, costs.ByUser, costs.ByModel, costs.ByType}

// Report returns what attempts cost: of all accounts for operators and viewers, and of the caller's own for clients. It
// returns INVALID_INPUT for days that make no sense, and FORBIDDEN for what the caller may not see.
func (r *Costs) Report(ctx context.Context, p jobs.Principal, in CostRequest) (*CostReport, error) {
	scope := p.Scope()
	switch {
	case !slices.Contains(costs.Groups, in.By):
		return nil, apierror.Invalid("by", "There is no group %.40q: it must be one of %s.", in.By, text.Join(costs.Groups))
	case scope != "" && in.Account != "" && in.Account != scope:
		return nil, apierror.Forbidden("The costs of other accounts are for operators and viewers.")
	case in.Account != "" && !in.Account.Valid():
		return nil, apierror.Invalid("account", "account must be the id of an account: acc_ and a UUID.")
	case scope != "" && !slices.Contains(ownGroups, in.By):
		return nil, apierror.Forbidden("Reports by %s are for operators and viewers. An account can have them by DAY, USER, MODEL and TYPE.", in.By)
	case in.First < 1 || in.First > MaxCostRows:
		return nil, apierror.Invalid("first", "first must be from 1 to %d.", MaxCostRows)
	}
	if scope != "" {
		in.Account = scope
	}
	now := time.Now().UTC()
	tomorrow := now.Truncate(day).AddDate(0, 0, 1)
	if in.To.IsZero() {
		in.To = tomorrow
	}
	if in.To = in.To.UTC().Truncate(day); in.To.After(tomorrow) {
		in.To = tomorrow
	}
	if in.From.IsZero() {
		in.From = in.To.AddDate(0, 0, -usualCostDays)
	}
	in.From = in.From.UTC().Truncate(day)
	switch days := in.To.Sub(in.From).Hours() / 24; {
	case days < 1:
		return nil, apierror.Invalid("to", "to must be after from, and from not in the future. A report covers whole days in UTC.")
	case days > maxCostDays:
		return nil, apierror.Invalid("from", "A report covers at most %d days.", maxCostDays)
	}
	rows, err := costs.Report(ctx, r.db, in.By, costs.Filter{From: in.From, To: in.To, Account: in.Account}, in.First+1)
	if err != nil {
		return nil, apierror.Wrap(err, "sum up the ledger")
	}
	report := &CostReport{From: in.From, To: in.To, By: in.By, More: len(rows) > in.First+1}
	for _, row := range rows[:min(len(rows), in.First+1)] {
		named := &CostRow{Row: *row, Name: row.Key, own: scope != ""}
		if row.Total {
			report.Total = named
			continue
		}
		report.Rows = append(report.Rows, named)
	}
	if in.By == costs.ByAccount {
		if err := r.nameAccounts(ctx, report.Rows); err != nil {
			return nil, err
		}
	}
	if in.Account == "" {
		figures, err := r.timeline.Window(ctx, in.From, in.To)
		if err != nil {
			return nil, err
		}
		report.Machines = new(figures.Paid())
	}
	return report, nil
}

func (r *Costs) nameAccounts(ctx context.Context, rows []*CostRow) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]models.AccountID, len(rows))
	for i, row := range rows {
		if err := ids[i].Scan(row.Key); err != nil {
			return fmt.Errorf("read the id of an account: %w", err)
		}
	}
	accounts, err := models.GetAccounts(ctx, r.db, ids)
	if err != nil {
		return apierror.Wrap(err, "read accounts")
	}
	names := lo.SliceToMap(accounts, func(a *models.Account) (models.AccountID, string) { return a.ID, a.Name })
	for i, row := range rows {
		row.Key, row.Name = string(ids[i]), names[ids[i]]
	}
	return nil
}

// Cost is what the time of the row cost; nil for clients, who see what they pay.
func (r *CostRow) Cost() *decimal.Decimal {
	if r.own {
		return nil
	}
	return new(r.USD())
}

// Wasted is the part of Cost of which nothing was kept; nil for clients.
func (r *CostRow) Wasted() *decimal.Decimal {
	if r.own {
		return nil
	}
	return &r.WastedUSD
}

// CostPerVideo is Cost for each of Videos; nil for clients, and without a video.
func (r *CostRow) CostPerVideo() *decimal.Decimal {
	if r.own {
		return nil
	}
	return r.PerVideo()
}

// WriteCSV writes the rows and the total. Amounts are exact. A text that a spreadsheet would read as a formula begins
// with an apostrophe.
func (r *CostReport) WriteCSV(to io.Writer) error {
	out := csv.NewWriter(to)
	amount := func(usd *decimal.Decimal) string {
		if usd == nil {
			return ""
		}
		return usd.String()
	}
	_ = out.Write([]string{"key", "name", "attempts", "completed", "videos", "useful_seconds", "wasted_seconds", "charged_usd", "cost_usd", "wasted_usd",
		"cost_per_video_usd", "unpriced"})
	rows := slices.Clone(r.Rows)
	if r.More {
		rows = append(rows, &CostRow{Row: r.rest(), Name: "(all others)", own: r.Total.own})
	}
	for _, row := range append(rows, r.Total) {
		key := row.Key
		if row.Total {
			row.Name = "(total)"
		}
		_ = out.Write([]string{text.Cell(key), text.Cell(row.Name), fmt.Sprint(row.Attempts), fmt.Sprint(row.Completed), fmt.Sprint(row.Videos()),
			fmt.Sprintf("%.3f", row.UsefulSeconds),
			fmt.Sprintf("%.3f", row.WastedSeconds), row.ChargedUSD.String(), amount(row.Cost()), amount(row.Wasted()),
			amount(row.CostPerVideo()), fmt.Sprint(row.Unpriced)})
	}
	out.Flush()
	return out.Error()
}

// rest sums up the rows that were left out.
func (r *CostReport) rest() costs.Row {
	all := r.Total.Row
	all.Total = false
	for _, row := range r.Rows {
		all.Attempts, all.Unpriced = all.Attempts-row.Attempts, all.Unpriced-row.Unpriced
		all.Completed, all.Drafts = all.Completed-row.Completed, all.Drafts-row.Drafts
		all.UsefulSeconds, all.WastedSeconds = all.UsefulSeconds-row.UsefulSeconds, all.WastedSeconds-row.WastedSeconds
		all.UsefulUSD, all.WastedUSD = all.UsefulUSD.Sub(row.UsefulUSD), all.WastedUSD.Sub(row.WastedUSD)
		all.ChargedUSD = all.ChargedUSD.Sub(row.ChargedUSD)
	}
	return all
}
