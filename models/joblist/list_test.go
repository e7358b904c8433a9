package joblist_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/history"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// past writes a history of n jobs.
func past(t testing.TB, db *bun.DB, n int) {
	t.Helper()
	patient, done, err := postgres.OpenPatient(t.Context(), modelstest.DSNOf(t, db), 1)
	require.NoError(t, err)
	defer done()
	conn, err := patient.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, history.Write(t.Context(), conn, n, func(string, int, int) {}))
}

// someFilter returns a filter of a few random conditions.
func someFilter(r *rand.Rand) joblist.JobFilter {
	var f joblist.JobFilter
	maybe := func(set func()) {
		if r.IntN(5) == 0 {
			set()
		}
	}
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	if r.IntN(2) == 0 {
		f.AccountID = history.Big
	}
	maybe(func() {
		f.Status = []models.JobStatus{models.JobStatus(pick("FAILED", "COMPLETED", "QUEUED", "BLOCKED"))}
	})
	maybe(func() { f.Status = append(f.Status, models.JobScheduled, models.JobCancelled) })
	maybe(func() { f.Type = pick("video.generate", "still.generate", "none") })
	maybe(func() { f.Model = pick("alpha", "beta", "gamma-1", "none") })
	maybe(func() { f.Tier = []models.Tier{models.Tier(pick("FREE", "PRO", "BATCH"))} })
	maybe(func() { f.UserID = pick("crowd", "user-5", "nobody") })
	maybe(func() {
		f.FailureClass = []models.FailureClass{models.FailTimeout, models.FailureClass(pick("POISON", "MODEL_CRASH"))}
	})
	maybe(func() { f.CreatedAfter = time.Now().Add(-time.Duration(r.IntN(3000)) * time.Second) })
	maybe(func() { f.CreatedBefore = time.Now().Add(-time.Duration(r.IntN(3000)) * time.Second) })
	maybe(func() { f.Dead = true })
	maybe(func() {
		f.Terms.Words = append(f.Terms.Words, joblist.Word{Text: pick("prod", "c6", "key-400", "hidden", "nothing")})
	})
	maybe(func() {
		f.Terms.Facets = append(f.Terms.Facets, joblist.Facet{Column: pick("status", "model", "failure_class", "tier"), Not: true,
			Values: []string{"COMPLETED", "alpha", "TIMEOUT", "PRO"}})
	})
	maybe(func() {
		f.Terms.Facets = append(f.Terms.Facets, joblist.Facet{Column: "model", Prefix: true, Values: []string{"gam", "b"}})
	})
	maybe(func() { f.Terms.WorkerID = []models.WorkerID{history.Quiet, history.Busy}[r.IntN(2)] })
	maybe(func() {
		value := pick("prod", "c6")
		f.Terms.Words = append(f.Terms.Words, joblist.Word{Text: value})
		f.Terms.Metadata = append(f.Terms.Metadata, joblist.MetadataField{Key: pick("stage", "campaign", "none"), Value: value})
	})
	if r.IntN(15) == 0 {
		f.Terms.Facets = append(f.Terms.Facets, joblist.Facet{Column: "lane", Values: []string{"PRO"}, Not: r.IntN(2) == 0})
	}
	maybe(func() { f.Terms.WasteOver = new(float64(r.IntN(50))) })
	return f
}

func TestListJobs(t *testing.T) {
	t.Parallel()

	t.Run("AppliesTheFilterWithEveryPlan", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		past(t, db, 3_000)
		r := rand.New(rand.NewPCG(1, 2))
		var all []*models.Job
		require.NoError(t, db.NewSelect().Model(&all).Order("j.id DESC").Scan(t.Context()))

		for range 150 {
			f := someFilter(r)
			var want, got []models.JobID
			require.NoError(t, joblist.MatchJobs(db, f).Scan(t.Context(), &want))
			after, size := models.JobID(""), 1+r.IntN(700)
			for {
				list, err := joblist.ListJobs(t.Context(), db, f, after, size)
				require.NoError(t, err)
				for _, job := range list.Jobs {
					got = append(got, job.ID)
				}
				if after = list.Edge; after == "" {
					break
				}
			}
			n, err := joblist.CountJobs(t.Context(), db, f, 2_001)

			require.NoError(t, err)
			require.Equal(t, want, got, fmt.Sprintf("%+v", f))
			if !f.Dead && f.Terms.WorkerID == "" {
				var matched []models.JobID
				for _, job := range all {
					if f.Matches(job) {
						matched = append(matched, job.ID)
					}
				}
				require.Equal(t, want, matched, fmt.Sprintf("%+v", f))
			}
			require.Equal(t, min(2_001, len(want)), n, fmt.Sprintf("%+v", f))
		}
	})
}

// TestListJobsIn compares the pages of every order with all matching jobs, sorted.
func TestListJobsIn(t *testing.T) {
	t.Parallel()

	t.Run("SortsByEveryOrder", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		past(t, db, 3_000)
		r := rand.New(rand.NewPCG(3, 4))
		sorted := map[joblist.JobOrder]string{
			joblist.OrderNewest: "j.id DESC", joblist.OrderOldest: "j.id", joblist.OrderWaiting: "j.queued_at, j.id",
			joblist.OrderRunning: "j.leased_at, j.id",
			joblist.OrderDue:     "j.run_at, j.id", joblist.OrderEnded: "j.completed_at DESC, j.id DESC",
		}
		only := map[joblist.JobOrder]string{
			joblist.OrderWaiting: "j.status = 'QUEUED'", joblist.OrderRunning: "j.status IN ('ASSIGNED', 'RUNNING', 'COMPLETING')",
			joblist.OrderDue: "j.status = 'SCHEDULED'", joblist.OrderEnded: "j.completed_at IS NOT NULL",
		}
		for i := range 120 {
			f, order := someFilter(r), joblist.JobOrders[i%len(joblist.JobOrders)]
			if i < len(joblist.JobOrders) {
				f = joblist.JobFilter{}
			}
			var want, got []models.JobID
			require.NoError(t, joblist.MatchJobs(db, f).Where(cmp.Or(only[order], "true")).Scan(t.Context(), &want))
			require.NoError(t, db.NewSelect().Model((*models.Job)(nil)).Column("j.id").
				Where("j.id IN (?)", bun.List(append(want, models.NewJobID()))).OrderExpr(sorted[order]).Scan(t.Context(), &want))
			place, size := "", 1+r.IntN(400)
			for {
				list, err := joblist.ListJobsIn(t.Context(), db, order, f, place, size)
				require.NoError(t, err)
				for _, job := range list.Jobs {
					got = append(got, job.ID)
				}
				if place = list.End; place == "" {
					break
				}
				require.True(t, order.ValidPlace(place), place)
			}

			require.Equal(t, want, got, fmt.Sprintf("%s %+v", order, f))
		}
		require.False(t, joblist.OrderWaiting.ValidPlace("yesterday job_1"))
		require.False(t, joblist.OrderOldest.ValidPlace("'"))
	})
}

// everyQuery remembers the texts of queries.
type everyQuery struct{ texts []string }

func (e *everyQuery) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }
func (e *everyQuery) AfterQuery(_ context.Context, q *bun.QueryEvent) {
	e.texts = append(e.texts, q.Query)
}

func TestListPlans(t *testing.T) {
	t.Parallel()

	t.Run("ReadFewRowsForEveryFilter", func(t *testing.T) {
		t.Parallel()

		const n = 30_000
		// most is how many index entries and rows each query may read. The first three limits
		// hold for any number of jobs. The last two allow each job to be read once.
		most := map[string]int{"page": 14_000, "deep page": 14_000, "count": 26_000, "bulk preview": n * 3 / 2, "figures": n * 3 / 2}
		large := []string{"jobs", "job_words", "job_attempts", "webhook_deliveries", "videos", "audit_log"}
		db := modelstest.DB(t)
		past(t, db, n)
		every := &everyQuery{}
		watched := db.WithQueryHook(every)
		queries, err := history.Queries(t.Context(), db, n)
		require.NoError(t, err)

		for _, q := range queries {
			every.texts = nil
			require.NoError(t, q.Run(t.Context(), watched))

			for _, text := range every.texts {
				plan := modelstest.Explain(t, db, text, large...)

				for _, table := range large {
					require.NotContains(t, plan.Text, "Seq Scan on "+table+" ", "%s, %s, %s", q.List, q.Filter, q.What)
				}
				require.LessOrEqual(t, plan.Rows, most[q.What], "%s, %s, %s reads too much:\n%s", q.List, q.Filter, q.What, plan.Text)
			}
		}
	})
}
