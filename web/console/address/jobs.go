package address

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/ui"
)

// Jobs is the query in the address of a page with jobs. Its zero value is the list of all
// jobs, newest first.
type Jobs struct {
	Status []models.JobStatus
	Search string
	// Within names the age of the jobs: one of timeRanges, or "". From and To bound the time of
	// submit instead.
	Within   string
	From, To time.Time
	Order    joblist.JobOrder
	// Size is the number of jobs on a page, or 0 for JobsOnPage.
	Size  int
	After string
}

// JobsOnPage is the number of jobs on a page, unless the address says otherwise.
const JobsOnPage = 50

// PageSizes can be chosen. 100 ids of selected jobs still fit into an address.
var PageSizes = []int{25, JobsOnPage, 100}

var timeRanges = []timeRange{{"1h", "1 h", time.Hour}, {"24h", "24 h", 24 * time.Hour}, {"7d", "7 days", 7 * 24 * time.Hour}}

// JobOrders are the orders of a list of jobs, with their names in addresses and on pages.
var JobOrders = []struct {
	Order joblist.JobOrder
	Name  string
	Label string
}{
	{"", "", "Newest first"},
	{joblist.OrderOldest, "oldest", "Oldest first"},
	{joblist.OrderWaiting, "waiting", "Longest waiting"},
	{joblist.OrderRunning, "running", "Longest running"},
	{joblist.OrderDue, "due", "Due next"},
	{joblist.OrderEnded, "ended", "Ended last"},
}

// ReadJobs reads an address. For an invalid value it returns INVALID_INPUT and the rest of
// the query.
func ReadJobs(v url.Values) (q Jobs, err error) {
	q = Jobs{Search: strings.TrimSpace(v.Get("q")), After: v.Get("after"), Within: v.Get("range")}
	for _, key := range []string{"model", "tier"} { // older addresses
		if value := v.Get(key); value != "" {
			q.Search = strings.TrimSpace(q.Search + " " + SearchTerm(key, value))
		}
	}
	for name := range strings.SplitSeq(v.Get("status"), ",") {
		name = strings.TrimSpace(name)
		if status := models.JobStatus(strings.ToUpper(name)); slices.Contains(models.JobStatuses, status) {
			q.Status = append(q.Status, status)
		} else if name != "" {
			err = badFilter("status", name, models.JobStatuses)
		}
	}
	if !slices.ContainsFunc(timeRanges, func(r timeRange) bool { return r.name == q.Within }) && q.Within != "" {
		q.Within, err = "", apierror.Invalid("range", "There is no range %q. Choose 1h, 24h or 7d, or use from and to.", ui.Clip(q.Within, 32))
	}
	for name, at := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		if text := v.Get(name); text != "" {
			var bad error
			if *at, bad = readMinute(text); bad != nil {
				err = apierror.Invalid(name, "%s must be a time in UTC such as 2026-01-31T18:30; it is %q.", name, ui.Clip(text, 40))
			}
			q.Within = ""
		}
	}
	for _, known := range JobOrders {
		if known.Name == v.Get("sort") {
			q.Order = known.Order
		}
	}
	if q.Order == "" && v.Get("sort") != "" {
		err = apierror.Invalid("sort", "There is no order %q. Choose oldest, waiting, running, due or ended.", ui.Clip(v.Get("sort"), 32))
	}
	if only := q.Order.Statuses(); len(only) > 0 && len(q.Status) > 0 &&
		!slices.ContainsFunc(q.Status, func(s models.JobStatus) bool { return slices.Contains(only, s) }) {
		q.Order = "" // it would show nothing
	}
	if n, _ := strconv.Atoi(v.Get("size")); slices.Contains(PageSizes, n) && n != JobsOnPage {
		q.Size = n
	}
	return q, err
}

type timeRange struct {
	name, label string
	last        time.Duration
}

// minuteForm is how browsers write a time of a field.
const minuteForm = "2006-01-02T15:04"

func readMinute(text string) (time.Time, error) {
	for _, form := range []string{minuteForm, "2006-01-02T15:04:05", "2006-01-02"} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Parse(time.RFC3339Nano, text)
}

// Minute formats a time for a field, or returns "" for none.
func Minute(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(minuteForm)
}

func badFilter[T ~string](field, value string, known []T) error {
	var names []string
	for _, name := range known {
		names = append(names, strings.ToLower(string(name)))
	}
	return apierror.Invalid(field, "There is no %s %q. Choose %s.", field, ui.Clip(value, 32), strings.Join(names, ", "))
}

// SearchTerm writes a term of a search. The value is quoted if it must be.
func SearchTerm(key, value string) string {
	if strings.ContainsAny(value, " ,:\t") {
		value = `"` + strings.ReplaceAll(value, `"`, "") + `"`
	}
	return key + ":" + value
}

// Filter returns the filter of the query, for reads.
func (q Jobs) Filter() joblist.JobFilter {
	f := joblist.JobFilter{Status: q.Status, Search: q.Search, CreatedAfter: q.From, CreatedBefore: q.To}
	if len(f.Status) == 0 {
		f.Status = q.Order.Statuses()
	}
	for _, r := range timeRanges {
		if r.name == q.Within {
			f.Within = r.last
		}
	}
	return f
}

// SortedBy returns the order of the query: the newest first, unless it says otherwise.
func (q Jobs) SortedBy() joblist.JobOrder { return cmp.Or(q.Order, joblist.OrderNewest) }

// PageSize returns the number of jobs on a page.
func (q Jobs) PageSize() int { return cmp.Or(q.Size, JobsOnPage) }

func (q Jobs) sort() string {
	for _, known := range JobOrders {
		if known.Order == q.Order {
			return known.Name
		}
	}
	return ""
}

// Statuses returns the states as the address has them: separated by commas.
func (q Jobs) Statuses() string {
	var names []string
	for _, status := range q.Status {
		names = append(names, string(status))
	}
	return strings.Join(names, ",")
}

// Values returns the parameters of the query's address.
func (q Jobs) Values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"status": q.Statuses(), "q": q.Search, "range": q.Within, "from": Minute(q.From), "to": Minute(q.To), "sort": q.sort(), "after": q.After,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Size != 0 {
		v.Set("size", strconv.Itoa(q.Size))
	}
	return v
}

// Path returns the address of this query on a page.
func (q Jobs) Path(page string) string {
	v := q.Values()
	if len(v) == 0 {
		return page
	}
	return page + "?" + v.Encode()
}

// Newest returns the address of the list's first page.
func (q Jobs) Newest() string { return q.First("/jobs") }

// First returns the address of a page about all jobs of the query.
func (q Jobs) First(page string) string {
	q.After = ""
	return q.Path(page)
}

// Live returns the address of the list's stream. Only the first page has one.
func (q Jobs) Live() string {
	if q.After != "" {
		return ""
	}
	return q.Path("/jobs/live")
}

// Narrows reports whether the query excludes any jobs.
func (q Jobs) Narrows() bool {
	q.Size = 0
	return q.Path("") != ""
}

// With returns the query's first page, changed.
func (q Jobs) With(change func(q *Jobs)) Jobs {
	q.After = ""
	change(&q)
	return q
}

// Ranges returns the links that choose a time of submit.
func (q Jobs) Ranges() []Facet {
	all := []Facet{{Name: "Any time", Href: q.With(func(q *Jobs) { q.Within, q.From, q.To = "", time.Time{}, time.Time{} }).Path("/jobs"),
		On: q.Within == "" && !q.Custom()}}
	for _, r := range timeRanges {
		all = append(all, Facet{
			Name: r.label, On: q.Within == r.name,
			Href: q.With(func(q *Jobs) { q.Within, q.From, q.To = r.name, time.Time{}, time.Time{} }).Path("/jobs"),
		})
	}
	return all
}

// Custom reports whether the time of submit is bounded by From or To.
func (q Jobs) Custom() bool { return !q.From.IsZero() || !q.To.IsZero() }

// Describe says in words which jobs the query is about.
func (q Jobs) Describe() string {
	var parts []string
	if len(q.Status) > 0 {
		parts = append(parts, strings.ToLower(strings.ReplaceAll(q.Statuses(), ",", " or ")))
	}
	if q.Search != "" {
		parts = append(parts, q.Search)
	}
	switch {
	case q.Within != "":
		parts = append(parts, "submitted within "+q.Within)
	case !q.From.IsZero() && !q.To.IsZero():
		parts = append(parts, fmt.Sprintf("submitted from %s to %s UTC", Minute(q.From), Minute(q.To)))
	case !q.From.IsZero():
		parts = append(parts, "submitted after "+Minute(q.From)+" UTC")
	case !q.To.IsZero():
		parts = append(parts, "submitted before "+Minute(q.To)+" UTC")
	}
	if len(parts) == 0 {
		return "all jobs"
	}
	return ui.Upright(strings.Join(parts, ", "))
}

// param is one parameter of an address.
type param struct{ Name, Value string }

// Scope returns the parameters that say which jobs match, for a form.
func (q Jobs) Scope() []param {
	var all []param
	for name, value := range map[string]string{
		"status": q.Statuses(), "q": q.Search, "range": q.Within, "from": instant(q.From), "to": instant(q.To), "sort": q.sort(),
	} {
		if value != "" {
			all = append(all, param{name, value})
		}
	}
	slices.SortFunc(all, func(a, b param) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// instant formats a time exactly, or returns "" for none.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// SizeValue returns a size as the address has it: "" for the usual one.
func SizeValue(n int) string {
	if n == JobsOnPage {
		return ""
	}
	return strconv.Itoa(n)
}

// SizeLabel names a size in the choice of sizes.
func SizeLabel(n int) string { return strconv.Itoa(n) + " per page" }

// Facet is a choice that narrows a list, with the number of jobs in it.
type Facet struct {
	Name  string
	Href  string
	Count string
	// On marks the current choice, Quiet one without jobs.
	On, Quiet bool
}
