package query

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// StatementRequest asks for the statement of an account.
type StatementRequest struct {
	// Account is the id of an account; "" is the caller's own.
	Account models.AccountID
	// Month is such as 2026-10.
	Month string
}

// Statement is what an account pays for a month. Each part sums up the same entries: its rows add up to Total.
type Statement struct {
	Account *models.Account
	Month   string
	// From is the begin of the month in Zone, and To that of the next.
	From, To time.Time
	Zone     *time.Location
	// Complete is true once no entry can be added any more.
	Complete bool
	Total    *CostRow
	Parts    []*StatementPart
}

// StatementPart are the sums of a statement by day, model, user or job type.
type StatementPart struct {
	By costs.Group
	// Rows are the dearest first, but days in their order. The last one sums up all others if there are more than
	// MaxCostRows.
	Rows []*CostRow
}

// statementParts are the parts of a statement, in their order.
var statementParts = []costs.Group{costs.ByDay, costs.ByModel, costs.ByUser, costs.ByType}

// settled is how long after its end a month gets no entries any more: costs.CloseDay waits as long.
const settled = time.Hour

// Statement returns what an account pays for a month in its time zone. It returns NOT_FOUND for an account that the caller may not see,
// and INVALID_INPUT for a month that has not begun, or is none.
func (r *Costs) Statement(ctx context.Context, p jobs.Principal, in StatementRequest) (*Statement, error) {
	account, err := r.payer(ctx, p, in.Account)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(account.TimeZone)
	if err != nil {
		return nil, apierror.Wrap(err, "read the time zone of account %s", account.ID)
	}
	return r.statement(ctx, account, in.Month, zone)
}

// statement sums up the month in a time zone. All parts are of one snapshot: in the current month entries are added.
func (r *Costs) statement(ctx context.Context, account *models.Account, month string, zone *time.Location) (*Statement, error) {
	from, err := time.ParseInLocation("2006-01", month, zone)
	if err != nil || from.Year() < 2000 {
		return nil, apierror.Invalid("month", "month must be a month such as 2026-10; it is %.40q.", month)
	}
	s := &Statement{Account: account, Month: month, From: from, To: from.AddDate(0, 1, 0), Zone: zone}
	now := time.Now()
	if from.After(now) {
		return nil, apierror.Invalid("month", "The month %s has not begun. Ask for this month or an earlier one.", month)
	}
	s.Complete = now.After(s.To.Add(settled))
	err = jobs.InSnapshot(ctx, r.db, func(ctx context.Context, tx bun.Tx) error {
		for _, by := range statementParts {
			rows, err := costs.Report(ctx, tx, by, costs.Filter{From: s.From, To: s.To, Account: account.ID, Zone: zone.String()}, MaxCostRows+1)
			if err != nil {
				return err
			}
			s.add(by, rows)
		}
		return nil
	})
	return s, apierror.Wrap(err, "sum up the ledger of a month")
}

// add adds a part, and its total, which is that of all parts.
func (s *Statement) add(by costs.Group, rows []*costs.Row) {
	report := &CostReport{By: by, More: len(rows) > MaxCostRows+1}
	for _, row := range rows[:min(len(rows), MaxCostRows+1)] {
		named := &CostRow{Row: *row, Name: row.Key, own: true}
		if row.Total {
			s.Total, report.Total = named, named
			continue
		}
		report.Rows = append(report.Rows, named)
	}
	part := &StatementPart{By: by, Rows: report.Rows}
	if report.More {
		part.Rows = append(part.Rows, &CostRow{Row: report.rest(), Name: allOthers, own: true})
	}
	s.Parts = append(s.Parts, part)
}

// allOthers names the row of what was left out.
const allOthers = "(all others)"

// payer returns the account of a statement.
func (r *Costs) payer(ctx context.Context, p jobs.Principal, id models.AccountID) (*models.Account, error) {
	if id == "" {
		id = p.AccountID
	}
	if id.Valid() && p.Sees(id) {
		found, err := models.GetAccounts(ctx, r.db, []models.AccountID{id})
		if err != nil {
			return nil, apierror.Wrap(err, "read the account of a statement")
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return nil, apierror.NotFound("account")
}

// AccountID is the id of the account.
func (s *Statement) AccountID() models.AccountID { return s.Account.ID }

// AccountName is the name of the account.
func (s *Statement) AccountName() string { return s.Account.Name }

// ZoneName is the name of the time zone.
func (s *Statement) ZoneName() string { return s.Zone.String() }

// FileName is the name of a file with the statement, with an extension such as csv.
func (s *Statement) FileName(extension string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, s.Account.Name)
	return fmt.Sprintf("statement-%s-%s.%s", name, s.Month, extension)
}

// Cents are the charges of the rows of a part in cents, which add up to the total in cents: each is rounded with what
// the rows before it left over.
func (s *StatementPart) Cents() []decimal.Decimal {
	var exact, shown decimal.Decimal
	cents := make([]decimal.Decimal, len(s.Rows))
	for i, row := range s.Rows {
		exact = exact.Add(row.ChargedUSD)
		cents[i] = exact.Round(2).Sub(shown)
		shown = exact.Round(2)
	}
	return cents
}

// WriteCSV writes all parts and the total. Amounts are exact. A text that a spreadsheet would read as a formula begins
// with an apostrophe.
func (s *Statement) WriteCSV(to io.Writer) error {
	out := csv.NewWriter(to)
	_ = out.Write([]string{"account", "month", "time_zone", "part", "name", "videos", "attempts", "useful_seconds", "charged_usd", "unpriced"})
	write := func(part string, row *CostRow) {
		_ = out.Write([]string{text.Cell(s.Account.Name), s.Month, s.Zone.String(), part, text.Cell(row.Name), fmt.Sprint(row.Videos()),
			fmt.Sprint(row.Attempts), fmt.Sprintf("%.3f", row.UsefulSeconds), row.ChargedUSD.String(), fmt.Sprint(row.Unpriced)})
	}
	for _, part := range s.Parts {
		for _, row := range part.Rows {
			write(strings.ToLower(string(part.By)), row)
		}
	}
	write("total", s.Total)
	out.Flush()
	return out.Error()
}
