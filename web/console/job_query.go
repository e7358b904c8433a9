package console

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
	"github.com/reelay/reelay/web/ui"
)

// jobQuery is the query in the address of a page with jobs. Its zero value is the list of all
// jobs, newest first.
type jobQuery struct {
	Status []models.JobStatus
	Search string
	// Within names the age of the jobs: one of timeRanges, or "". From and To bound the time of
	// submit instead.
	Within   string
	From, To time.Time
	Order    models.JobOrder
	// Size is the number of jobs on a page, or 0 for jobListSize.
	Size  int
	After string
}

// jobListSize is the number of jobs on a page, unless the address says otherwise.
const jobListSize = 50

// pageSizes can be chosen. 100 ids of selected jobs still fit into an address.
var pageSizes = []int{25, jobListSize, 100}

var timeRanges = []timeRange{{"1h", "1 h", time.Hour}, {"24h", "24 h", 24 * time.Hour}, {"7d", "7 days", 7 * 24 * time.Hour}}

var jobOrders = []struct {
	order models.JobOrder
	name  string
	label string
}{
	{"", "", "Newest first"},
	{models.OrderOldest, "oldest", "Oldest first"},
	{models.OrderWaiting, "waiting", "Longest waiting"},
	{models.OrderRunning, "running", "Longest running"},
	{models.OrderDue, "due", "Due next"},
	{models.OrderEnded, "ended", "Ended last"},
}

// readJobQuery reads an address. For an invalid value it returns INVALID_INPUT and the rest of
// the query.
func readJobQuery(v url.Values) (q jobQuery, err error) {
	q = jobQuery{Search: strings.TrimSpace(v.Get("q")), After: v.Get("after"), Within: v.Get("range")}
	for _, key := range []string{"model", "tier"} { // older addresses
		if value := v.Get(key); value != "" {
			q.Search = strings.TrimSpace(q.Search + " " + searchTerm(key, value))
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
	for _, known := range jobOrders {
		if known.name == v.Get("sort") {
			q.Order = known.order
		}
	}
	if q.Order == "" && v.Get("sort") != "" {
		err = apierror.Invalid("sort", "There is no order %q. Choose oldest, waiting, running, due or ended.", ui.Clip(v.Get("sort"), 32))
	}
	if only := q.Order.Statuses(); len(only) > 0 && len(q.Status) > 0 && !slices.ContainsFunc(q.Status, func(s models.JobStatus) bool { return slices.Contains(only, s) }) {
		q.Order = "" // it would show nothing
	}
	if n, _ := strconv.Atoi(v.Get("size")); slices.Contains(pageSizes, n) && n != jobListSize {
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

// minute formats a time for a field, or returns "" for none.
func minute(t time.Time) string {
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

// searchTerm writes a term of a search. The value is quoted if it must be.
func searchTerm(key, value string) string {
	if strings.ContainsAny(value, " ,:\t") {
		value = `"` + strings.ReplaceAll(value, `"`, "") + `"`
	}
	return key + ":" + value
}

func (q jobQuery) filter() models.JobFilter {
	f := models.JobFilter{Status: q.Status, Search: q.Search, CreatedAfter: q.From, CreatedBefore: q.To}
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

func (q jobQuery) order() models.JobOrder { return cmp.Or(q.Order, models.OrderNewest) }

func (q jobQuery) size() int { return cmp.Or(q.Size, jobListSize) }

func (q jobQuery) sort() string {
	for _, known := range jobOrders {
		if known.order == q.Order {
			return known.name
		}
	}
	return ""
}

func (q jobQuery) statuses() string {
	var names []string
	for _, status := range q.Status {
		names = append(names, string(status))
	}
	return strings.Join(names, ",")
}

// values returns the parameters of the query's address.
func (q jobQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"status": q.statuses(), "q": q.Search, "range": q.Within, "from": minute(q.From), "to": minute(q.To), "sort": q.sort(), "after": q.After,
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

// path returns the address of this query on a page.
func (q jobQuery) path(page string) string {
	v := q.values()
	if len(v) == 0 {
		return page
	}
	return page + "?" + v.Encode()
}

// newest returns the address of the list's first page.
func (q jobQuery) newest() string { return q.first("/jobs") }

// first returns the address of a page about all jobs of the query.
func (q jobQuery) first(page string) string {
	q.After = ""
	return q.path(page)
}

// live returns the address of the list's stream. Only the first page has one.
func (q jobQuery) live() string {
	if q.After != "" {
		return ""
	}
	return q.path("/jobs/live")
}

// narrows reports whether the query excludes any jobs.
func (q jobQuery) narrows() bool {
	q.Size = 0
	return q.path("") != ""
}

// with returns the query's first page, changed.
func (q jobQuery) with(change func(q *jobQuery)) jobQuery {
	q.After = ""
	change(&q)
	return q
}

// ranges returns the links that choose a time of submit.
func (q jobQuery) ranges() []facet {
	all := []facet{{Name: "Any time", Href: q.with(func(q *jobQuery) { q.Within, q.From, q.To = "", time.Time{}, time.Time{} }).path("/jobs"), On: q.Within == "" && !q.custom()}}
	for _, r := range timeRanges {
		all = append(all, facet{
			Name: r.label, On: q.Within == r.name,
			Href: q.with(func(q *jobQuery) { q.Within, q.From, q.To = r.name, time.Time{}, time.Time{} }).path("/jobs"),
		})
	}
	return all
}

// custom reports whether the time of submit is bounded by From or To.
func (q jobQuery) custom() bool { return !q.From.IsZero() || !q.To.IsZero() }

// describe says in words which jobs the query is about.
func (q jobQuery) describe() string {
	var parts []string
	if len(q.Status) > 0 {
		parts = append(parts, strings.ToLower(strings.ReplaceAll(q.statuses(), ",", " or ")))
	}
	if q.Search != "" {
		parts = append(parts, q.Search)
	}
	switch {
	case q.Within != "":
		parts = append(parts, "submitted within "+q.Within)
	case !q.From.IsZero() && !q.To.IsZero():
		parts = append(parts, fmt.Sprintf("submitted from %s to %s UTC", minute(q.From), minute(q.To)))
	case !q.From.IsZero():
		parts = append(parts, "submitted after "+minute(q.From)+" UTC")
	case !q.To.IsZero():
		parts = append(parts, "submitted before "+minute(q.To)+" UTC")
	}
	if len(parts) == 0 {
		return "all jobs"
	}
	return ui.Upright(strings.Join(parts, ", "))
}

// param is one parameter of an address.
type param struct{ name, value string }

// scope returns the parameters that say which jobs match, for a form.
func (q jobQuery) scope() []param {
	var all []param
	for name, value := range map[string]string{
		"status": q.statuses(), "q": q.Search, "range": q.Within, "from": instant(q.From), "to": instant(q.To), "sort": q.sort(),
	} {
		if value != "" {
			all = append(all, param{name, value})
		}
	}
	slices.SortFunc(all, func(a, b param) int { return strings.Compare(a.name, b.name) })
	return all
}

// instant formats a time exactly, or returns "" for none.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func sizeValue(n int) string {
	if n == jobListSize {
		return ""
	}
	return strconv.Itoa(n)
}

func sizeLabel(n int) string { return strconv.Itoa(n) + " per page" }

// facet is a choice that narrows a list, with the number of jobs in it.
type facet struct {
	Name  string
	Href  string
	Count string
	// On marks the current choice, Quiet one without jobs.
	On, Quiet bool
}
