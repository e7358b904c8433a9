package costs

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// span is a time that the table shows, in whole days of UTC.
type span struct {
	Name, Title string
	from        func(tomorrow time.Time) time.Time
	to          func(tomorrow time.Time) time.Time
}

func ahead(days int) func(time.Time) time.Time {
	return func(tomorrow time.Time) time.Time { return tomorrow.AddDate(0, 0, days) }
}

// month returns the first day of the month of today, and of those before it.
func month(back int) func(time.Time) time.Time {
	return func(tomorrow time.Time) time.Time {
		today := tomorrow.AddDate(0, 0, -1)
		return time.Date(today.Year(), today.Month()-time.Month(back), 1, 0, 0, 0, 0, time.UTC)
	}
}

// spans are all times, the first by default.
var spans = []span{
	{"7d", "7 days", ahead(-7), ahead(0)},
	{"yesterday", "Yesterday", ahead(-2), ahead(-1)},
	{"today", "Today", ahead(-1), ahead(0)},
	{"30d", "30 days", ahead(-30), ahead(0)},
	{"month", "This month", month(0), ahead(0)},
	{"last-month", "Last month", month(1), month(0)},
	{"year", "12 months", ahead(-365), ahead(0)},
}

// titles name what the table has a row for each of.
var titles = map[costs.Group]string{
	costs.ByDay: "Day", costs.ByAccount: "Account", costs.ByUser: "User", costs.ByModel: "Model", costs.ByType: "Type", costs.ByPool: "Pool",
	costs.ByProvider: "Provider", costs.ByRegion: "Region", costs.ByGPUType: "GPU type",
}

// page is what the page shows.
type page struct {
	Span  span
	By    costs.Group
	Table *query.CostReport
	// Days are those of the time, for the chart.
	Days *query.CostReport
	// Yesterday and Month are the reports of yesterday, and of this month until now.
	Yesterday, Month *query.CostReport
	Now              time.Time
}

func (c *controller) costs(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	ctx, read, err := c.Reads.Shares.Admit(r.Context(), p, query.TotalsPrice)
	if err != nil {
		return err
	}
	defer read.End()
	v := &page{Now: time.Now().UTC()}
	v.Span, v.By = choice(r.URL.Query())
	tomorrow := v.Now.Truncate(24*time.Hour).AddDate(0, 0, 1)
	for _, report := range []struct {
		to          **query.CostReport
		by          costs.Group
		from, until time.Time
	}{
		{&v.Table, v.By, v.Span.from(tomorrow), v.Span.to(tomorrow)},
		{&v.Days, costs.ByDay, v.Span.from(tomorrow), v.Span.to(tomorrow)},
		{&v.Yesterday, costs.ByAccount, ahead(-2)(tomorrow), ahead(-1)(tomorrow)},
		{&v.Month, costs.ByDay, month(0)(tomorrow), tomorrow},
	} {
		found, err := c.Reads.Costs.Report(ctx, p, query.CostRequest{From: report.from, To: report.until, By: report.by, First: rowsShown})
		if err != nil {
			return err
		}
		*report.to = found
	}
	return shell.Render(w, r, http.StatusOK, costsPage(v))
}

// rowsShown bounds the table: the days of a year.
const rowsShown = 400

// costsFile sends the table as CSV, with all its rows.
func (c *controller) costsFile(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	ctx, read, err := c.Reads.Shares.Admit(r.Context(), p, query.TotalsPrice)
	if err != nil {
		return err
	}
	defer read.End()
	of, by := choice(r.URL.Query())
	tomorrow := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	report, err := c.Reads.Costs.Report(ctx, p, query.CostRequest{From: of.from(tomorrow), To: of.to(tomorrow), By: by, First: query.MaxCostRows})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="costs-%s-%s.csv"`, of.Name, strings.ToLower(string(by))))
	return report.WriteCSV(w)
}

// choice returns what an address asks for: what is unknown means the default.
func choice(asked url.Values) (span, costs.Group) {
	of, by := spans[0], costs.ByAccount
	if i := slices.IndexFunc(spans, func(s span) bool { return s.Name == asked.Get("time") }); i >= 0 {
		of = spans[i]
	}
	if group := costs.Group(strings.ToUpper(asked.Get("by"))); slices.Contains(costs.Groups, group) {
		by = group
	}
	return of, by
}

// path returns the address of the page, or of its file, for another time or group.
func path(page string, of span, by costs.Group) string {
	return page + "?" + url.Values{"time": {of.Name}, "by": {strings.ToLower(string(by))}}.Encode()
}

// share is a part of a whole in percent, or unknown.
func share(part, whole float64) string {
	if whole <= 0 {
		return ui.Unknown
	}
	return ui.Figure(new(part/whole), "%")
}

// tiles answer in one look: what did yesterday cost, how much of it was wasted, and what will the month be.
func (v *page) tiles() []ui.Tile {
	yesterday, month := v.Yesterday.Machines.Total(), v.Month.Machines.Total()
	useful := v.Yesterday.Machines.Useful
	first := "no job ended"
	if len(v.Yesterday.Rows) > 0 {
		first = cmp.Or(v.Yesterday.Rows[0].Name, ui.Unknown) + " most: " + ui.USD(v.Yesterday.Rows[0].Cost())
	}
	begin := v.Month.From
	length, over := begin.AddDate(0, 1, 0).Sub(begin), v.Now.Sub(begin)
	return []ui.Tile{
		{Name: "Yesterday", Value: text.USD(yesterday.USD), Note: "accounts pay " + ui.USD(&v.Yesterday.Total.ChargedUSD),
			Help: "What all machines of yesterday cost, and what accounts pay of it", Link: path("/costs", spans[1], v.By), Level: "calm"},
		{Name: "Useful", Value: share(useful.USD, yesterday.USD), Note: text.USD(v.Yesterday.Machines.Wasted.USD) + " wasted · " +
			text.USD(v.Yesterday.Machines.Idle.USD) + " idle", Help: "The part of yesterday's cost that rendered what was kept", Link: "/heatmap", Level: "calm"},
		{Name: "Who", Value: fmt.Sprint(v.Yesterday.Total.Videos()) + " videos", Note: first,
			Help: "The videos of yesterday, and the account whose jobs cost most", Link: path("/costs", spans[1], costs.ByAccount), Level: "calm"},
		{Name: "Per video", Value: ui.USD(v.Yesterday.Total.CostPerVideo()), Note: "with what was wasted, yesterday",
			Help: "What the workers of a completed job cost, also those of attempts that failed", Link: path("/costs", spans[1], costs.ByModel), Level: "calm"},
		{Name: "This month", Value: text.USD(month.USD), Note: "about " + text.USD(month.USD*float64(length)/float64(max(over, time.Hour))) + " by its end",
			Help: "What all machines cost since the first of the month, and what the month will cost at this pace", Link: path("/costs", spans[4], v.By), Level: "calm"},
	}
}

// chart is what each day cost.
func (v *page) chart() ui.ChartData {
	days := int(v.Days.To.Sub(v.Days.From).Hours() / 24)
	useful, wasted := make([]*float64, days), make([]*float64, days)
	for i := range days {
		useful[i], wasted[i] = new(0.0), new(0.0)
	}
	for _, row := range v.Days.Rows {
		day, err := time.Parse(time.DateOnly, row.Key)
		if i := int(day.Sub(v.Days.From).Hours() / 24); err == nil && i >= 0 && i < days {
			*useful[i], *wasted[i] = row.UsefulUSD.InexactFloat64(), row.WastedUSD.InexactFloat64()
		}
	}
	return ui.ChartData{ID: "costs", Title: "Cost of attempts by day", Unit: "$", From: v.Days.From, Step: 24 * time.Hour, Series: []ui.Series{
		{Label: "useful", Tone: "good", Values: useful}, {Label: "wasted", Tone: "bad", Values: wasted},
	}}
}

// machines are the parts of what machines cost in the time of the table.
func (v *page) machines() (parts []models.PaidTime) {
	for _, paid := range v.Table.Machines.Times() {
		if paid.Seconds != 0 {
			parts = append(parts, paid)
		}
	}
	return parts
}

// rowPath returns the page of what a row is about, or "".
func (v *page) rowPath(row *query.CostRow) string {
	switch v.By {
	case costs.ByAccount:
		return address.ByID["acc"](row.Key)
	case costs.ByModel:
		return "/jobs?" + url.Values{"model": {row.Key}}.Encode()
	}
	return ""
}

// unpriced says that sums are too low.
func unpriced(n int64) string {
	return text.Count(int(n), "entry") + " in the ledger without an amount, since a pool or a model of a provider had no price: the sums are too low."
}
