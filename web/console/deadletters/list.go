package deadletters

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
)

const (
	// causesShown is the number of causes on the page, and hostsExamined that of each cause's newest
	// dead letters whose hosts are shown beside it.
	causesShown   = 100
	hostsExamined = 20
)

// deadLetterQuery is which dead letters a page shows.
type deadLetterQuery struct {
	// Customers shows those that the owners of the jobs caused, and their cascades, instead of those
	// that operators must act on.
	Customers bool
	// Resolved shows resolved ones instead of open ones.
	Resolved bool
}

// deadLetterList is the view of the page with dead letters by cause.
type deadLetterList struct {
	Query deadLetterQuery
	// Operators and Customers sum up the open ones of each audience.
	Operators, Customers *models.DeadLetterStats
	Causes               []causeRow
	// More is how many causes are not shown.
	More int
	Now  time.Time
}

// causeRow is the dead letters with one cause.
type causeRow struct {
	*models.DeadLetterGroup
	Hosts []*models.FailingHost
}

func deadLetterQueryOf(r *http.Request) deadLetterQuery {
	q := r.URL.Query()
	return deadLetterQuery{Customers: q.Get("audience") == "customer", Resolved: q.Get("resolved") != ""}
}

// path returns the address of a page of these dead letters.
func (q deadLetterQuery) path(page string) string {
	v := url.Values{}
	if q.Customers {
		v.Set("audience", "customer")
	}
	if q.Resolved {
		v.Set("resolved", "1")
	}
	if len(v) == 0 {
		return page
	}
	return page + "?" + v.Encode()
}

func (q deadLetterQuery) filter() models.DeadLetterFilter {
	audience := models.AudienceOperator
	if q.Customers {
		audience = models.AudienceCustomer
	}
	return models.DeadLetterFilter{Resolved: q.Resolved, Audience: []models.Audience{audience}}
}

func (c *controller) deadLetterList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readCauses(r.Context(), p, deadLetterQueryOf(r))
	if err != nil {
		return err
	}
	v.Now = time.Now()
	return shell.Render(w, r, http.StatusOK, deadLetterListPage(v))
}

func (c *controller) deadLetterListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := deadLetterQueryOf(r)
	return c.Refresh(w, r, p, asked.path("/dead-letters/live"), func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component,
		error) {
		v, err := c.readCauses(ctx, p, asked)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return causeTable(v)
		}, nil
	})
}

func (c *controller) readCauses(ctx context.Context, p jobs.Principal, q deadLetterQuery) (*deadLetterList, error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.CountPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	v := &deadLetterList{Query: q}
	if v.Operators, err = c.Reads.DeadLetters.Stats(ctx, []models.Audience{models.AudienceOperator}); err != nil {
		return nil, err
	}
	if v.Customers, err = c.Reads.DeadLetters.Stats(ctx, []models.Audience{models.AudienceCustomer}); err != nil {
		return nil, err
	}
	groups, err := c.Reads.DeadLetters.Groups(ctx, q.filter())
	if err != nil {
		return nil, err
	}
	if len(groups) > causesShown {
		v.More, groups = len(groups)-causesShown, groups[:causesShown]
	}
	var causes []string
	for _, g := range groups {
		causes = append(causes, g.Fingerprint)
	}
	hosts, err := c.Reads.DeadLetters.FailingHosts(ctx, causes, q.Resolved, hostsExamined)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		v.Causes = append(v.Causes, causeRow{g, hosts[g.Fingerprint]})
	}
	return v, nil
}

// one returns the host of all examined dead letters, or nil if there are none or several.
func (r causeRow) one() *models.FailingHost {
	if len(r.Hosts) != 1 {
		return nil
	}
	return r.Hosts[0]
}

// path returns the address of the page of this cause.
func (r causeRow) path() string { return address.Cause("", r.Fingerprint, r.Resolved) }

// poolNames lists the pools of some hosts, each once.
func poolNames(hosts []*models.FailingHost) (names []string) {
	seen := map[string]bool{}
	for _, h := range hosts {
		if h.Pool != "" && !seen[h.Pool] {
			seen[h.Pool] = true
			names = append(names, h.Pool)
		}
	}
	return names
}
