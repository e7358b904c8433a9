package costs

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/web/statement"
)

// statement sends what an account pays for a month as a page to print, or as CSV.
func (c *controller) statement(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	ctx, read, err := c.Reads.Shares.Admit(r.Context(), p, query.TotalsPrice)
	if err != nil {
		return err
	}
	defer read.End()
	asked := r.URL.Query()
	found, err := c.Reads.Costs.Statement(ctx, p, query.StatementRequest{Account: models.AccountID(asked.Get("account")), Month: asked.Get("month")})
	if err != nil {
		return err
	}
	var file bytes.Buffer
	if asked.Get("format") == "csv" {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": found.FileName("csv")}))
		err = found.WriteCSV(&file)
	} else {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", statement.Policy)
		err = statement.Write(&file, found, time.Now())
	}
	if err == nil {
		_, _ = file.WriteTo(w)
	}
	return err
}

// statementPath returns the address of an account's statement of the month that the table shows, or "" if it shows
// another time or has other rows.
func (v *page) statementPath(row *query.CostRow) string {
	if v.By != costs.ByAccount || v.Span.Name != "month" && v.Span.Name != "last-month" {
		return ""
	}
	return "/costs/statement?" + url.Values{"account": {row.Key}, "month": {v.Table.From.Format("2006-01")}}.Encode()
}
