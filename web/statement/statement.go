// Package statement renders the statement of an account as a page to print.
package statement

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models/costs"
	"github.com/shopspring/decimal"
)

// Policy is the Content-Security-Policy of the page: it has its styles in itself, and loads nothing.
const Policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed statement.html
var source string

var page = template.Must(template.New("statement").Parse(source))

// part is a table of the page.
type part struct {
	Title, Column string
	Rows          []row
}

// row has the amounts as the page shows them.
type row struct {
	Name, Videos, Hours, Charged string
}

var titles = map[costs.Group][2]string{
	costs.ByDay: {"By day", "Day"}, costs.ByModel: {"By model", "Model"}, costs.ByUser: {"By user", "User"}, costs.ByType: {"By job type", "Type"},
}

// Write writes the page. Charges are rounded to cents so that the rows of each table add up to the total.
func Write(to io.Writer, s *query.Statement, made time.Time) error {
	v := struct {
		*query.Statement
		Title, Last, Made string
		Tables            []part
		Sum               row
	}{Statement: s, Title: s.From.Format("January 2006"), Last: s.To.AddDate(0, 0, -1).Format(time.DateOnly),
		Made: made.In(s.Zone).Format("2006-01-02 15:04 MST"), Sum: rowOf(s.Total, s.Total.ChargedUSD.Round(2))}
	v.Sum.Name = "Total"
	for _, p := range s.Parts {
		table := part{Title: titles[p.By][0], Column: titles[p.By][1]}
		cents := p.Cents()
		for i, r := range p.Rows {
			table.Rows = append(table.Rows, rowOf(r, cents[i]))
		}
		v.Tables = append(v.Tables, table)
	}
	return page.Execute(to, v)
}

func rowOf(r *query.CostRow, charged decimal.Decimal) row {
	name := r.Name
	if name == "" {
		name = "–"
	}
	return row{name, fmt.Sprint(r.Videos()), fmt.Sprintf("%.2f", r.UsefulSeconds/3600), "$" + charged.StringFixed(2)}
}
