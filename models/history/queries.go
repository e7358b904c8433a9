package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// Query is a page, a count or figures that somebody can ask for.
type Query struct {
	// List names the list, Filter its filter, and What what is read: a page, a count or
	// figures.
	List, Filter, What string
	Run                func(context.Context, bun.IDB) error
}

// The sizes of pages and counts, as in the API.
const (
	page    = 51
	counted = 10_001
	bulk    = 100_001
	// exact is how many jobs the queue counters count exactly.
	exact = 100_000
)

// Queries returns all queries that must be fast, on the history of n jobs in db.
func Queries(ctx context.Context, db bun.IDB, n int) ([]Query, error) {
	// deep is a job behind nine tenths of all jobs.
	var deep models.JobID
	if err := db.NewRaw("SELECT id FROM jobs ORDER BY id OFFSET ? LIMIT 1", n/10).Scan(ctx, &deep); err != nil {
		return nil, fmt.Errorf("find a job of the history: %w", err)
	}
	all := jobQueries(n, deep)
	all = append(all, deadLetterQueries(deep)...)
	all = append(all, webhookQueries(deep)...)
	all = append(all, orderQueries(deep)...)
	return append(all, otherQueries(deep)...), nil
}

func run[T any](ask func(context.Context, bun.IDB) (T, error)) func(context.Context, bun.IDB) error {
	return func(ctx context.Context, db bun.IDB) error { _, err := ask(ctx, db); return err }
}

func jobQueries(n int, deep models.JobID) (all []Query) {
	filters := Filters(n)
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		for list, account := range map[string]models.AccountID{"jobs, everybody's": "", "jobs, one account's": Big} {
			f := filters[name]
			f.AccountID = account
			for what, after := range map[string]models.JobID{"page": "", "deep page": deep} {
				all = append(all, Query{list, name, what, run(func(ctx context.Context, db bun.IDB) (*joblist.JobList, error) {
					return joblist.ListJobs(ctx, db, f, after, page)
				})})
			}
			all = append(all, Query{list, name, "count", run(func(ctx context.Context, db bun.IDB) (int, error) {
				return joblist.CountJobs(ctx, db, f, counted)
			})}, Query{list, name, "bulk preview", run(func(ctx context.Context, db bun.IDB) (int, error) {
				return joblist.CountJobs(ctx, db, f, bulk)
			})})
		}
	}
	return all
}

func deadLetterQueries(deep models.JobID) (all []Query) {
	const fingerprint = "f2621659785dd90a"
	operators := []models.Audience{models.AudienceOperator}
	for name, f := range map[string]models.DeadLetterFilter{
		"nothing": {}, "of operators": {Audience: operators}, "fingerprint": {Fingerprint: fingerprint},
		"fingerprint, unknown":    {Fingerprint: "none"},
		"failure class, frequent": {FailureClass: models.FailTimeout}, "failure class, rare": {FailureClass: models.FailPoison},
		"failure class, none": {FailureClass: models.FailBudget}, "model, unknown": {Model: "none"}, "provider": {Provider: "p2"},
		"provider, unknown": {Provider: "none"}, "class and model that never meet": {FailureClass: models.FailPoison, Model: "beta"},
	} {
		for list, resolved := range map[string]bool{"dead letters, open": false, "dead letters, resolved": true} {
			f.Resolved = resolved
			for what, after := range map[string]models.DeadLetterID{"page": "", "deep page": models.DeadLetterID("dead" + deep[3:])} {
				all = append(all, Query{list, name, what, run(func(ctx context.Context, db bun.IDB) ([]*models.DeadLetter, error) {
					return models.ListDeadLetters(ctx, db, f, after, page)
				})})
			}
			all = append(all, Query{list, name, "count", run(func(ctx context.Context, db bun.IDB) (int, error) {
				return models.CountDeadLetters(ctx, db, f, counted)
			})})
		}
	}
	for list, resolved := range map[string]bool{"dead letters, open": false, "dead letters, resolved": true} {
		all = append(all, Query{list, "by cause", "figures", run(func(ctx context.Context, db bun.IDB) ([]*models.DeadLetterGroup, error) {
			return models.GroupDeadLetters(ctx, db, models.DeadLetterFilter{Resolved: resolved, Audience: operators}, 500)
		})})
	}
	return append(all, Query{"dead letters, open", "statistics", "figures",
		run(func(ctx context.Context, db bun.IDB) (*models.DeadLetterStats, error) {
			return models.CountOpenDeadLetters(ctx, db, operators)
		})})
}

func webhookQueries(deep models.JobID) (all []Query) {
	for name, f := range map[string]webhooks.DeliveryFilter{
		"account": {AccountID: Big}, "account, failed": {AccountID: Big, FailedOnly: true},
		"account of few, failed": {AccountID: few, FailedOnly: true},
		"endpoint":               {AccountID: Big, EndpointID: Endpoint}, "endpoint, failed": {AccountID: Big, EndpointID: Endpoint,
			FailedOnly: true},
		"endpoint, unknown": {AccountID: Big, EndpointID: models.NewWebhookEndpointID()},
		"job":               {AccountID: Big, JobID: deep}, "job, unknown": {AccountID: Big, JobID: models.NewJobID()},
		"everybody's, failed": {FailedOnly: true}, "everybody's": {},
	} {
		for what, after := range map[string]models.WebhookDeliveryID{"page": "", "deep page": models.WebhookDeliveryID("whd" + deep[3:])} {
			all = append(all, Query{"webhook deliveries", name, what, run(func(ctx context.Context, db bun.IDB) ([]*webhooks.Delivery, error) {
				return webhooks.ListDeliveries(ctx, db, f, after, page)
			})})
		}
	}
	return all
}

// orderQueries returns the orders of all jobs, with filters that many and that no jobs of an
// order match.
func orderQueries(deep models.JobID) (all []Query) {
	for name, f := range map[string]joblist.JobFilter{
		"nothing": {}, "account": {AccountID: Big}, "model, unknown": {Model: "none"},
		"word, unknown":                  {Terms: joblist.JobTerms{Words: []joblist.Word{{Text: "none"}}}},
		"user and class that never meet": {UserID: "crowd", FailureClass: []models.FailureClass{models.FailBudget}},
	} {
		for _, order := range joblist.JobOrders {
			all = append(all, Query{"jobs, " + string(order), name, "page", run(func(ctx context.Context, db bun.IDB) (*joblist.JobList, error) {
				return joblist.ListJobsIn(ctx, db, order, f, "", page)
			})})
		}
		all = append(all, Query{"jobs, oldest first", name, "deep page", run(func(ctx context.Context, db bun.IDB) (*joblist.JobList, error) {
			return joblist.ListJobsIn(ctx, db, joblist.OrderOldest, f, string(deep), page)
		})})
	}
	return all
}

func otherQueries(deep models.JobID) (all []Query) {
	for what, after := range map[string]models.JobID{"page": "", "deep page": deep} {
		for name, oldestFirst := range map[string]bool{"newest first": false, "oldest first": true} {
			all = append(all, Query{"videos", name, what, run(func(ctx context.Context, db bun.IDB) ([]*models.Job, error) {
				return models.ListVideoJobs(ctx, db, Big, after, oldestFirst, page)
			})})
		}
		for name, target := range map[string]string{"everything": "", "target": "target-50", "target, unknown": "none"} {
			all = append(all, Query{"audit", name, what, run(func(ctx context.Context, db bun.IDB) ([]*access.AuditEntry, error) {
				before := models.AuditID("")
				if after != "" {
					before = models.AuditID("aud" + after[3:])
				}
				return access.ListAudit(ctx, db, target, before, page)
			})})
		}
	}
	all = append(all, pageQueries(deep)...)
	return append(all,
		Query{"queues", "all", "figures", run(func(ctx context.Context, db bun.IDB) ([]backlog.QueueCount,
			error) {
			return backlog.CountQueues(ctx, db)
		})},
		Query{"queues", "one", "figures", run(func(ctx context.Context, db bun.IDB) (*backlog.QueueCount, error) {
			return backlog.CountQueue(ctx, db, models.TierPro, "beta")
		})},
		Query{"queue statistics", "all", "figures", run(func(ctx context.Context, db bun.IDB) ([]joblist.StatusCount, error) {
			return joblist.CountStatuses(ctx, db, exact)
		})},
	)
}

// pageQueries returns what pages of the console ask for besides lists.
func pageQueries(deep models.JobID) (all []Query) {
	for name, f := range map[string]joblist.JobFilter{
		"pool, unknown": {Terms: joblist.JobTerms{Pools: []string{"none"}}}, "zone, unknown": {Terms: joblist.JobTerms{Zones: []string{"none"}}},
		"checkpoint":              {Terms: joblist.JobTerms{CheckpointOver: 10 * time.Minute}},
		"bulk operation, unknown": {Terms: joblist.JobTerms{BulkID: models.NewBulkID()}},
		"user, frequent":          {UserID: "crowd"}, "word, frequent": {Terms: joblist.JobTerms{Words: []joblist.Word{{Text: "prod"}}}},
	} {
		all = append(all,
			Query{"jobs, everybody's", name, "page", run(func(ctx context.Context, db bun.IDB) (*joblist.JobList, error) {
				return joblist.ListJobs(ctx, db, f, "", page)
			})},
			Query{"jobs, everybody's", name, "count", run(func(ctx context.Context, db bun.IDB) (int,
				error) {
				return joblist.CountJobs(ctx, db, f, counted)
			})},
			Query{"jobs, everybody's, by status", name, "page", run(func(ctx context.Context, db bun.IDB) (*joblist.StatusCounts, error) {
				return joblist.CountFacets(ctx, db, f, 2_000)
			})})
	}
	for name, worker := range map[string]models.WorkerID{"busy": Busy, "quiet": Quiet} {
		all = append(all,
			Query{"attempts of a worker", name, "page", run(func(ctx context.Context, db bun.IDB) ([]*models.Attempt, error) {
				return models.ListWorkerAttempts(ctx, db, worker, "", page)
			})},
			Query{"attempts of a worker, by end", name, "page", run(func(ctx context.Context, db bun.IDB) ([]models.AttemptSum, error) {
				return models.SumWorkerAttempts(ctx, db, worker, 2_000)
			})})
	}
	return append(all,
		Query{"children of a job", "all", "page", run(func(ctx context.Context, db bun.IDB) ([]*models.Job, error) {
			return models.ListChildren(ctx, db, deep, page)
		})},
		Query{"hosts that eat jobs", "of a day", "page", run(func(ctx context.Context, db bun.IDB) ([]*capacity.EatingHost, error) {
			return capacity.ListEatingHosts(ctx, db, 24*time.Hour, nil, []string{"drill"}, 20)
		})},
		Query{"reclamations", "of a day", "page", run(func(ctx context.Context, db bun.IDB) ([]*capacity.Reclamation, error) {
			return capacity.ListReclamations(ctx, db, "", 24*time.Hour, 10*time.Minute, nil, "an operator preempted its machine", 50)
		})})
}
