// Package reports has the page of what operators read from time to time.
package reports

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/reports"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// Config is what the page reads.
type Config struct {
	Reads *query.Reads
}

// controller serves the page.
type controller struct {
	*shell.Shell
	Config
}

// Routes lists the pages.
func Routes(pages *shell.Shell, config Config) []shell.Route {
	c := &controller{Shell: pages, Config: config}
	return []shell.Route{
		{Pattern: "GET /system/reports", Serve: c.show},
		{Pattern: "GET /system/reports.csv", Serve: c.file},
	}
}

// spans are the days that the page can be of, the first by default.
var spans = []int{7, 1, 30, 90}

func daysOf(r *http.Request) int {
	days, err := strconv.Atoi(r.URL.Query().Get("days"))
	if err != nil || !slices.Contains(spans, days) {
		return spans[0]
	}
	return days
}

func (c *controller) read(r *http.Request, p jobs.Principal) (*query.ReportSet, error) {
	ctx, read, err := c.Reads.Shares.Admit(r.Context(), p, query.TotalsPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	return c.Reads.Reports.Read(ctx, p, daysOf(r))
}

func (c *controller) show(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	set, err := c.read(r, p)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, page(set))
}

// file sends one of the reports as CSV.
func (c *controller) file(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	name := r.URL.Query().Get("report")
	if !slices.Contains(query.ReportNames, name) {
		name = query.ReportNames[0]
	}
	set, err := c.read(r, p)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.csv"`, name))
	return set.WriteCSV(w, name)
}

func spanName(days int) string {
	if days == 1 {
		return "1 day"
	}
	return fmt.Sprintf("%d days", days)
}

// filePath returns the address of a report as CSV.
func filePath(report string, days int) string {
	return fmt.Sprintf("/system/reports.csv?report=%s&days=%d", report, days)
}

func rows(k *query.Kept) string {
	if !k.Exact() {
		return "about " + ui.Count(int(k.Rows), 0)
	}
	return ui.Count(int(k.Rows), 0)
}

// keptFor says for how long a kind is kept.
func keptFor(k *query.Kept) string {
	switch {
	case k.For < 0:
		return "for ever"
	case k.Kind == reports.KeptDeletions:
		return "until the store has deleted it"
	}
	return fmt.Sprintf("%d days", int(k.For.Hours()/24))
}

// kindName is a kind in words.
func kindName(kind reports.Kind) string {
	switch kind {
	case reports.KeptJobs:
		return "Finished jobs"
	case reports.KeptFiles:
		return "Files in the object store"
	case reports.KeptDeletions:
		return "Files to be deleted"
	case reports.KeptWorkers:
		return "Workers that ended"
	case reports.KeptMachines:
		return "Machines that ended"
	}
	return ui.Words(strings.ToUpper(string(kind)))
}
