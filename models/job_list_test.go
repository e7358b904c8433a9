package models_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// history writes n jobs of many kinds, the newest a minute old and a second apart.
// A few values are rare, and a few pairs of frequent ones never meet: no job of
// the model alpha is FREE.
func history(t testing.TB, db *bun.DB, n int) {
	t.Helper()
	patient, done, err := models.OpenPatient(t.Context(), modelstest.DSNOf(t, db), 1)
	require.NoError(t, err)
	defer done()
	for _, query := range []string{
		`SET session_replication_role = replica`, // no triggers: a row at a time takes long
		`INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute, queued, running)
			SELECT md5('a' || i)::uuid, 'a' || i, 'PRO', 1e6, 1e6, 1e6, 0, 0 FROM generate_series(1, 50) i`,
		`INSERT INTO workers (id, provider, provider_instance_id, region, gpu_type, capacity_class, models, status, last_heartbeat_at)
			SELECT md5('w' || i)::uuid, 'p', 'w' || i, 'r', 'g', 'SPOT', '{alpha}', 'BUSY', now() FROM generate_series(0, 20) i`,
		`INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds,
				run_at, completed_at, failure_class, user_id, idempotency_key, request_digest, metadata, wasted_gpu_seconds, created_at,
				cancel_requested_at)
			SELECT overlay(uuid7_floor(at)::text PLACING '7000-8000-' || lpad(to_hex(i), 12, '0') FROM 15)::uuid,
				md5('a' || CASE WHEN i % 2 = 0 THEN 1 ELSE 1 + i % 50 END)::uuid,
				CASE WHEN i % 20011 = 0 THEN 'still.generate' ELSE 'video.generate' END,
				CASE WHEN i % 3 = 0 THEN 'alpha' WHEN i % 3 = 1 THEN 'beta' ELSE 'gamma-' || i % 4 END, status,
				CASE WHEN i % 3 > 0 AND i % 7 < 3 THEN 'FREE' WHEN i % 7 < 6 THEN 'PRO' ELSE 'BATCH' END, 'PRO', '{}', 3, 600, 5,
				now(), CASE WHEN status IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN now() END,
				CASE WHEN status = 'FAILED' THEN CASE WHEN i % 10007 = 0 THEN 'POISON' WHEN i % 2 = 0 THEN 'TIMEOUT' ELSE 'MODEL_CRASH' END END,
				CASE WHEN i % 5 = 0 THEN 'user-' || i % 1000 WHEN i % 5 = 1 THEN 'crowd' END,
				CASE WHEN i % 4 = 0 THEN 'key-' || i END, CASE WHEN i % 4 = 0 THEN '\x00'::bytea END,
				CASE WHEN i % 6 = 0 THEN jsonb_build_object('campaign', 'c' || i % 5000, 'stage', 'prod', 'deep', jsonb_build_object('x', 'hidden')) END,
				CASE WHEN i % 900 = 0 THEN i % 100 ELSE 0 END, at,
				CASE WHEN status = 'CANCELLED' THEN now() END
			FROM (SELECT i, now() - make_interval(secs => 60 + ?0 - i) AS at,
				CASE WHEN i > ?0 - ?0 / 100 AND i % 3 = 0 THEN 'QUEUED' WHEN i % 5003 = 0 THEN 'SCHEDULED'
					WHEN i % 30 = 0 THEN 'FAILED' WHEN i % 17 = 0 THEN 'CANCELLED' ELSE 'COMPLETED' END AS status
				FROM generate_series(1, ?0) i) made`,
		`INSERT INTO job_words SELECT metadata_words(metadata), account_id, id FROM jobs WHERE metadata IS NOT NULL`,
		`INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at, ended_at, failure_class)
			SELECT gen_random_uuid(), id, 1, no, md5('w' || CASE WHEN n % 7001 = 0 THEN 0 ELSE 1 + n % 20 END)::uuid, gen_random_uuid(),
				'FAILED', now(), now(), now(), 'TRANSIENT'
			FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM jobs WHERE status IN ('COMPLETED', 'FAILED')) j, generate_series(1, 1 + (n % 10 = 0)::int) no`,
		`INSERT INTO dead_letters (id, job_id, run, model, failure_class, reason, fingerprint, attempts, created_at)
			SELECT id, id, 1, model, failure_class, 'r', 'f', 1, now() FROM jobs WHERE status = 'FAILED' AND get_byte(uuid_send(id), 15) % 8 = 0`,
		`VACUUM ANALYZE jobs`, `VACUUM ANALYZE job_words`, `VACUUM ANALYZE job_attempts`, `VACUUM ANALYZE dead_letters`,
	} {
		if slices.Contains([]byte(query), '?') {
			_, err := patient.NewRaw(query, n).Exec(t.Context())
			require.NoError(t, err, query)
			continue
		}
		_, err := patient.ExecContext(t.Context(), query)
		require.NoError(t, err, query)
	}
}

// big is the account of half the history's jobs.
const big = models.AccountID("acc_8a8bb7cd-343a-a2ad-99b7-d762030857a2")

// quiet is the worker that had few of the attempts, busy one that had many.
const (
	quiet = models.WorkerID("wrk_7e75f612-9f58-3b65-6699-d3e99707f311")
	busy  = models.WorkerID("wrk_a95dcb8a-ebb2-02ef-eedb-10d5538edeb9")
)

// someFilter makes a filter of a few conditions by chance.
func someFilter(r *rand.Rand) models.JobFilter {
	var f models.JobFilter
	maybe := func(set func()) {
		if r.IntN(5) == 0 {
			set()
		}
	}
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	if r.IntN(2) == 0 {
		f.AccountID = big
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
		f.Terms.Words = append(f.Terms.Words, models.Word{Text: pick("prod", "c6", "key-400", "hidden", "nothing")})
	})
	maybe(func() {
		f.Terms.Facets = append(f.Terms.Facets, models.Facet{Column: pick("status", "model", "failure_class", "tier"), Not: true, Values: []string{"COMPLETED", "alpha", "TIMEOUT", "PRO"}})
	})
	maybe(func() {
		f.Terms.Facets = append(f.Terms.Facets, models.Facet{Column: "model", Prefix: true, Values: []string{"gam", "b"}})
	})
	maybe(func() { f.Terms.WorkerID = []models.WorkerID{quiet, busy}[r.IntN(2)] })
	maybe(func() { f.Terms.WasteOver = new(float64(r.IntN(50))) })
	return f
}

func TestListJobs(t *testing.T) {
	t.Parallel()

	t.Run("FindsWhatTheFilterSaysWhicheverWayItReads", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		history(t, db, 3_000)
		r := rand.New(rand.NewPCG(1, 2))
		var all []*models.Job
		require.NoError(t, db.NewSelect().Model(&all).Order("j.id DESC").Scan(t.Context()))

		for range 150 {
			f := someFilter(r)
			var want, got []models.JobID
			require.NoError(t, models.MatchJobs(db, f).Scan(t.Context(), &want))
			after, size := models.JobID(""), 1+r.IntN(700)
			for {
				list, err := models.ListJobs(t.Context(), db, f, after, size)
				require.NoError(t, err)
				for _, job := range list.Jobs {
					got = append(got, job.ID)
				}
				if after = list.Edge; after == "" {
					break
				}
			}
			n, err := models.CountJobs(t.Context(), db, f, 2_001)

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

func TestListJobsPlans(t *testing.T) {
	t.Parallel()

	t.Run("LookAtAFewRowsWhateverIsAskedFor", func(t *testing.T) {
		t.Parallel()

		const n = 60_000
		db := modelstest.DB(t)
		history(t, db, n)
		last := &lastQuery{}
		watched := db.WithQueryHook(last)
		var deep models.JobID
		require.NoError(t, db.NewRaw("SELECT id FROM jobs ORDER BY id OFFSET ? LIMIT 1", n/10).Scan(t.Context(), &deep))

		for name, f := range asked(n) {
			for _, f.AccountID = range []models.AccountID{"", big} {
				for what, c := range map[string]struct {
					run func() error
					// most is how many index entries and rows it may cost.
					most int
				}{
					"page":  {func() error { _, err := models.ListJobs(t.Context(), watched, f, "", 51); return err }, 24_000},
					"deep":  {func() error { _, err := models.ListJobs(t.Context(), watched, f, deep, 51); return err }, 24_000},
					"count": {func() error { _, err := models.CountJobs(t.Context(), watched, f, 10_001); return err }, 44_000},
				} {
					require.NoError(t, c.run(), name)
					plan := explain(t, db, last.text)

					require.NotContains(t, plan.text, "Seq Scan on job", name)
					require.NotContains(t, plan.text, "Seq Scan on dead_letters", name)
					require.LessOrEqual(t, plan.rows, c.most, "%s of %s reads too much:\n%s", what, name, plan.text)
				}
			}
		}
	})
}

// asked are the filters that lists must be quick for, on a history of jobs.
func asked(n int) map[string]models.JobFilter {
	at := func(part float64) time.Time {
		return time.Now().Add(-time.Duration(part * float64(n) * float64(time.Second)))
	}
	facets := func(all ...models.Facet) models.JobTerms { return models.JobTerms{Facets: all} }
	word := func(text string) models.JobTerms { return models.JobTerms{Words: []models.Word{{Text: text}}} }
	statuses := func(all ...models.JobStatus) []models.JobStatus { return all }
	return map[string]models.JobFilter{
		"nothing":                           {},
		"status, frequent":                  {Status: statuses(models.JobCompleted)},
		"status, rare":                      {Status: statuses(models.JobScheduled)},
		"status, none":                      {Status: statuses(models.JobBlocked)},
		"statuses":                          {Status: statuses(models.JobFailed, models.JobCancelled, models.JobQueued)},
		"type, frequent":                    {Type: "video.generate"},
		"type, rare":                        {Type: "still.generate"},
		"model, frequent":                   {Model: "alpha"},
		"model, unknown":                    {Model: "none"},
		"tier":                              {Tier: []models.Tier{models.TierBatch}},
		"model and tier that never meet":    {Model: "alpha", Tier: []models.Tier{models.TierFree}},
		"status, model, tier, type":         {Status: statuses(models.JobScheduled), Model: "beta", Tier: []models.Tier{models.TierPro}, Type: "video.generate"},
		"user, frequent":                    {UserID: "crowd"},
		"user, rare":                        {UserID: "user-5"},
		"user, unknown":                     {UserID: "nobody"},
		"user, frequent, of a rare status":  {UserID: "crowd", Status: statuses(models.JobScheduled)},
		"user, frequent, of no status":      {UserID: "crowd", Status: statuses(models.JobBlocked)},
		"failure class, frequent":           {FailureClass: []models.FailureClass{models.FailTimeout}},
		"failure class, rare":               {FailureClass: []models.FailureClass{models.FailPoison}},
		"failure class, none":               {FailureClass: []models.FailureClass{models.FailBudget}},
		"failure classes of a model":        {FailureClass: []models.FailureClass{models.FailTimeout, models.FailPoison}, Model: "beta"},
		"created after":                     {CreatedAfter: at(0.01)},
		"created before":                    {CreatedBefore: at(0.5)},
		"created between, of a status":      {CreatedAfter: at(0.6), CreatedBefore: at(0.5), Status: statuses(models.JobFailed)},
		"created in the future":             {CreatedAfter: time.Now().Add(time.Hour)},
		"dead":                              {Dead: true},
		"dead, of a model":                  {Dead: true, Model: "beta"},
		"word, a rare value":                {Terms: word("c6")},
		"word, a frequent value":            {Terms: word("prod")},
		"word, a key":                       {Terms: word("key-400")},
		"word, unknown":                     {Terms: word("nothing")},
		"word, frequent, and a rare status": {Terms: word("prod"), Status: statuses(models.JobScheduled)},
		"worker, busy":                      {Terms: models.JobTerms{WorkerID: busy}},
		"worker, quiet":                     {Terms: models.JobTerms{WorkerID: quiet}},
		"worker, unknown":                   {Terms: models.JobTerms{WorkerID: models.NewWorkerID()}},
		"waste":                             {Terms: models.JobTerms{WasteOver: new(50.0)}},
		"waste, more than there was":        {Terms: models.JobTerms{WasteOver: new(1e9)}},
		"not a status":                      {Terms: facets(models.Facet{Column: "status", Not: true, Values: []string{"COMPLETED"}})},
		"not a failure class":               {Terms: facets(models.Facet{Column: "failure_class", Not: true, Values: []string{"TIMEOUT"}})},
		"model, by its beginning":           {Terms: facets(models.Facet{Column: "model", Prefix: true, Values: []string{"gam"}})},
		"failed, not of a failure class": {Status: statuses(models.JobFailed),
			Terms: facets(models.Facet{Column: "failure_class", Not: true, Values: []string{"TIMEOUT", "MODEL_CRASH", "POISON"}})},
	}
}

// BenchmarkListJobs measures pages and counts over a history of REELAY_BENCH_JOBS
// jobs (a million): see docs/performance.md.
func BenchmarkListJobs(b *testing.B) {
	n := 1_000_000
	if text := os.Getenv("REELAY_BENCH_JOBS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	db := modelstest.DB(b)
	history(b, db, n)
	var deep models.JobID
	require.NoError(b, db.NewRaw("SELECT id FROM jobs ORDER BY id OFFSET ? LIMIT 1", n/10).Scan(b.Context(), &deep))
	filters := asked(n)
	for _, whose := range []models.AccountID{"", big} {
		for _, name := range slices.Sorted(maps.Keys(filters)) {
			f := filters[name]
			f.AccountID = whose
			for what, run := range map[string]func() error{
				"page":  func() error { _, err := models.ListJobs(b.Context(), db, f, "", 51); return err },
				"deep":  func() error { _, err := models.ListJobs(b.Context(), db, f, deep, 51); return err },
				"count": func() error { _, err := models.CountJobs(b.Context(), db, f, 10_001); return err },
			} {
				b.Run(fmt.Sprintf("%s/%s/%s", what, map[bool]string{true: "everybody's", false: "one account's"}[whose == ""], name), func(b *testing.B) {
					measure(b, run)
				})
			}
		}
	}
}

func measure(b *testing.B, run func() error) {
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		require.NoError(b, run())
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	for name, at := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99} {
		b.ReportMetric(float64(took[int(at*float64(len(took)-1))].Microseconds())/1000, name)
	}
}
