package costs_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// keys are Reelay's own ids of submits.
const (
	firstKey  = "11111111-1111-4111-8111-111111111111"
	secondKey = "22222222-2222-4222-8222-222222222222"
)

func usd(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// hosted is fixture with a pool of Veo at a provider, which charges $0.4 a second from an hour before the tests on, and
// $0.75 with sound.
func hosted(t *testing.T) *bun.DB {
	t.Helper()
	db := fixture(t)
	exec(t, db, "UPDATE ledger_closing SET until = ?", begin.Truncate(24*time.Hour))
	exec(t, db, `INSERT INTO pools (id, name, provider, engine_kind, region, gpu_type, capacity_class, models, min_workers, max_workers, workers_per_machine)
		VALUES (md5('veo')::uuid, 'veo', 'engines', 'veo', 'mars', 'any', 'ON_DEMAND', '{}', 0, 9, 1)`)
	exec(t, db, "INSERT INTO provider_accounts (pool_id, concurrent, per_minute) VALUES (md5('veo')::uuid, 9, 9)")
	exec(t, db, `INSERT INTO workers (id, pool_id, provider, provider_instance_id, region, gpu_type, capacity_class, models, status, registered_at)
		VALUES (md5('wveo')::uuid, md5('veo')::uuid, 'engines', 'veo', 'mars', 'any', 'ON_DEMAND', '{}', 'IDLE', ?)`, begin.Add(-time.Hour))
	enter(t, db, begin.Add(-time.Hour), costs.PriceRule{PerSecondUSD: usd("0.4")},
		costs.PriceRule{Audio: new(true), PerSecondUSD: usd("0.75"), PerCallUSD: usd("0.01")})
	return db
}

// enter adds a version of the price of veo-3.
func enter(t *testing.T, db *bun.DB, since time.Time, rules ...costs.PriceRule) {
	t.Helper()
	require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		return costs.InsertProviderPrice(ctx, tx, &costs.ProviderPrice{Provider: "veo", Model: "veo-3", Since: since, Rules: rules})
	}))
}

// submit keeps what the job asks of Veo: eight seconds without sound.
func submit(t *testing.T, db *bun.DB, key, ref string, made bool, change ...func(*provider.Asked)) {
	t.Helper()
	asked := provider.Asked{Model: "veo-3", Seconds: new(usd("8")), Resolution: "720p", Audio: new(false)}
	for _, c := range change {
		c(&asked)
	}
	var job models.JobID
	var pool models.PoolID
	require.NoError(t, db.NewRaw("SELECT md5('j')::uuid, md5('veo')::uuid").Scan(t.Context(), &job, &pool))
	require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		return costs.KeepAsked(ctx, tx, &costs.ProviderJob{JobID: job, Key: key, PoolID: pool, Asked: asked, Ref: ref, Made: made})
	}))
}

// fees returns how many fees the ledger has, and whose.
func fees(t *testing.T, db *bun.DB) (n int, refs []string) {
	t.Helper()
	require.NoError(t, db.NewRaw("SELECT provider_ref FROM ledger WHERE kind = 'FEE' ORDER BY id").Scan(t.Context(), &refs))
	return len(refs), refs
}

func TestFee(t *testing.T) {
	t.Parallel()

	t.Run("IsChargedWithTheJobAndTheTimeIsFree", func(t *testing.T) {
		t.Parallel()
		db := hosted(t)
		submit(t, db, firstKey, "", false)
		submit(t, db, firstKey, "op-1", false)

		attempt(t, db, "first", "veo", 0, 60, 0, 0, models.JobCompleted)

		got := ofJob(t, db)
		same(t, "3.2", got.UsefulUSD)
		same(t, "0", got.WastedUSD)
		same(t, "3.2", got.ChargedUSD)
		require.InDelta(t, 60, got.UsefulSeconds, 0.001)
		_, refs := fees(t, db)
		require.Equal(t, []string{"op-1"}, refs)
		rows, err := costs.Report(t.Context(), db, costs.ByProvider, costs.Filter{From: begin.AddDate(0, 0, -1), To: begin.AddDate(0, 0, 1)}, 9)
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Equal(t, "veo", rows[1].Key)
		require.Equal(t, []int64{1, 1, 0}, []int64{rows[1].Attempts, rows[1].Completed, rows[1].Unpriced})
		same(t, "3.2", rows[1].PerVideo())
	})

	t.Run("IsEnteredOnceForAProviderJobOfTwoAttempts", func(t *testing.T) {
		t.Parallel()
		db := hosted(t)
		submit(t, db, firstKey, "op-1", false)
		attempt(t, db, "killed", "veo", 0, 60, 0, 0, models.JobQueued)
		n, _ := fees(t, db)
		require.Zero(t, n, "nobody saw the video")

		attempt(t, db, "second", "veo", 60, 90, 0, 0, models.JobCompleted)

		n, _ = fees(t, db)
		require.Equal(t, 1, n)
		same(t, "3.2", ofJob(t, db).ChargedUSD)
	})

	t.Run("IsWastedUntilAnAttemptFetchesTheVideo", func(t *testing.T) {
		t.Parallel()
		db := hosted(t)
		submit(t, db, firstKey, "op-1", true)
		attempt(t, db, "cannot fetch it", "veo", 0, 60, 0, 0, models.JobQueued)
		got := ofJob(t, db)
		same(t, "0", got.UsefulUSD)
		same(t, "3.2", got.WastedUSD)
		same(t, "0", got.ChargedUSD)
		attempt(t, db, "cannot either", "veo", 60, 90, 0, 0, models.JobQueued)

		attempt(t, db, "fetches it", "veo", 90, 100, 0, 0, models.JobCompleted)

		got = ofJob(t, db)
		same(t, "3.2", got.UsefulUSD)
		same(t, "0", got.WastedUSD)
		same(t, "3.2", got.ChargedUSD)
		n, _ := fees(t, db)
		require.Equal(t, 1, n)
	})

	t.Run("IsListedAlsoWithoutTheProvidersID", func(t *testing.T) {
		t.Parallel()
		db := hosted(t)
		submit(t, db, firstKey, "", true)
		attempt(t, db, "first", "veo", 0, 60, 0, 0, models.JobCompleted)

		tasks, err := costs.ListTasks(t.Context(), db, begin, begin.Add(time.Hour), 0, 9)

		require.NoError(t, err)
		require.Len(t, tasks, 1)
		require.Empty(t, tasks[0].Task)
		same(t, "3.2", tasks[0].CostUSD)
	})

	t.Run("HasNoPriceForNoSeconds", func(t *testing.T) {
		t.Parallel()
		for body, seconds := range map[string]*decimal.Decimal{`{"parameters": {"durationSeconds": 0}}`: nil, `{"parameters": {"durationSeconds": 8}}`: new(usd("8"))} {
			require.Equal(t, seconds, provider.Find("veo").ReadAsked("veo-3", []byte(body)).Seconds, body)
		}
	})

	t.Run("IsTheOperatorsIfTheJobFails", func(t *testing.T) {
		t.Parallel()
		db := hosted(t)
		submit(t, db, firstKey, "op-1", true)

		attempt(t, db, "first", "veo", 0, 60, 0, 0, models.JobFailed)

		same(t, "3.2", ofJob(t, db).WastedUSD)
		same(t, "0", ofJob(t, db).ChargedUSD)
	})

	t.Run("OfADefectiveVideoIsWastedAlsoIfAnotherIsMade", func(t *testing.T) {
		t.Parallel()
		db := hosted(t)
		submit(t, db, firstKey, "op-1", false)
		exec(t, db, `INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at)
			VALUES (md5('bad')::uuid, md5('j')::uuid, 1, 1, md5('wveo')::uuid, gen_random_uuid(), 'RUNNING', ?0, ?0)`, begin)
		exec(t, db, "UPDATE job_attempts SET status = 'FAILED', failure_class = 'DEFECTIVE_RESULT', ended_at = ?, gpu_seconds = 9", begin.Add(9*time.Second))
		submit(t, db, secondKey, "op-2", false, func(a *provider.Asked) { a.Audio = new(true) })

		attempt(t, db, "second", "veo", 20, 60, 0, 0, models.JobCompleted)

		got := ofJob(t, db)
		same(t, "3.2", got.WastedUSD)
		same(t, "6.01", got.UsefulUSD)
		same(t, "6.01", got.ChargedUSD)
		_, refs := fees(t, db)
		require.Equal(t, []string{"op-1", "op-2"}, refs)
	})

	t.Run("IsNotOfAVideoThatAnotherPoolMade", func(t *testing.T) {
		t.Parallel()
		db := hosted(t)
		submit(t, db, firstKey, "op-1", false)
		attempt(t, db, "refused", "veo", 0, 60, 0, 0, models.JobQueued)

		attempt(t, db, "on a GPU", "spot", 60, 70, 0, 0, models.JobCompleted)

		n, _ := fees(t, db)
		require.Zero(t, n)
		same(t, "0.01", ofJob(t, db).ChargedUSD)
	})

	t.Run("IsThatOfTheTimeOfTheSubmit", func(t *testing.T) {
		t.Parallel()
		db := hosted(t)
		submit(t, db, firstKey, "", false)
		var now time.Time
		require.NoError(t, db.NewRaw("SELECT clock_timestamp()").Scan(t.Context(), &now))
		enter(t, db, now, costs.PriceRule{PerSecondUSD: usd("9")})
		submit(t, db, firstKey, "op-1", false) // the answer

		attempt(t, db, "first", "veo", 0, 60, 0, 0, models.JobCompleted)

		same(t, "3.2", ofJob(t, db).ChargedUSD)
		enter(t, db, begin.Add(-time.Minute), costs.PriceRule{PerSecondUSD: usd("5")}) // a price of the past
		same(t, "3.2", ofJob(t, db).ChargedUSD)
	})

	for name, change := range map[string]func(*provider.Asked){
		"TheModel":      func(a *provider.Asked) { a.Model = "veo-4" },
		"TheSeconds":    func(a *provider.Asked) { a.Seconds = nil },
		"AnythingOfTwo": func(a *provider.Asked) { a.Seconds, a.Audio = nil, nil },
	} {
		t.Run("IsUnknownWithout"+name, func(t *testing.T) {
			t.Parallel()
			db := hosted(t)
			submit(t, db, firstKey, "op-1", true, change)
			attempt(t, db, "first", "veo", 0, 60, 0, 0, models.JobQueued)
			require.Nil(t, ofJob(t, db).WastedUSD)
			same(t, "0", ofJob(t, db).ChargedUSD)

			attempt(t, db, "second", "veo", 60, 90, 0, 0, models.JobCompleted)

			got := ofJob(t, db)
			require.Nil(t, got.UsefulUSD)
			require.Nil(t, got.ChargedUSD)
			rows, err := costs.Report(t.Context(), db, costs.ByProvider, costs.Filter{From: begin.AddDate(0, 0, -1), To: begin.AddDate(0, 0, 1)}, 9)
			require.NoError(t, err)
			require.Equal(t, int64(2), rows[0].Unpriced)
		})
	}
}

func TestProviderFee(t *testing.T) {
	t.Parallel()
	db := hosted(t)
	var now time.Time
	require.NoError(t, db.NewRaw("SELECT clock_timestamp()").Scan(t.Context(), &now))
	enter(t, db, now.Add(-time.Minute), costs.PriceRule{PerSecondUSD: usd("1")}, costs.PriceRule{Audio: new(true), PerSecondUSD: usd("2")},
		costs.PriceRule{Resolution: "4k", PerSecondUSD: usd("3")}, costs.PriceRule{Resolution: "4k", Audio: new(true), PerSecondUSD: usd("4")},
		costs.PriceRule{Resolution: "call", PerCallUSD: usd("0.0000000001")})
	enter(t, db, now.Add(time.Hour), costs.PriceRule{PerSecondUSD: usd("9")})
	eight := new(usd("8.5"))
	for name, c := range map[string]struct {
		asked provider.Asked
		want  string
	}{
		"any":               {provider.Asked{Model: "veo-3", Seconds: eight}, "8.5"},
		"with sound":        {provider.Asked{Model: "veo-3", Seconds: eight, Audio: new(true)}, "17"},
		"without":           {provider.Asked{Model: "veo-3", Seconds: eight, Audio: new(false)}, "8.5"},
		"a resolution":      {provider.Asked{Model: "veo-3", Seconds: eight, Resolution: "4K"}, "25.5"},
		"another":           {provider.Asked{Model: "veo-3", Seconds: eight, Resolution: "720p", Audio: new(true)}, "17"},
		"both":              {provider.Asked{Model: "veo-3", Seconds: eight, Resolution: "4k", Audio: new(true)}, "34"},
		"by the call":       {provider.Asked{Model: "veo-3", Resolution: "call"}, "0.0000000001"},
		"unknown seconds":   {provider.Asked{Model: "veo-3"}, ""},
		"an unknown model":  {provider.Asked{Model: "veo-9", Seconds: eight}, ""},
		"the longest video": {provider.Asked{Model: "veo-3", Seconds: new(usd("3600"))}, "3600"},
	} {
		got, err := costs.ProviderFee(t.Context(), db, "veo", c.asked)
		require.NoError(t, err, name)
		if c.want == "" {
			require.Nil(t, got, name)
			continue
		}
		same(t, c.want, got)
	}
	other, err := costs.ProviderFee(t.Context(), db, "runway", provider.Asked{Model: "veo-3", Seconds: eight})
	require.NoError(t, err)
	require.Nil(t, other)
}

func TestProviderPrices(t *testing.T) {
	t.Parallel()
	db := hosted(t)
	enter(t, db, begin, costs.PriceRule{Resolution: "4k", Audio: new(false), PerSecondUSD: usd("0.1234567891"), PerCallUSD: usd("7")})

	found, err := costs.ListProviderPrices(t.Context(), db, "", "")

	require.NoError(t, err)
	require.Len(t, found, 2)
	require.True(t, found[0].Since.Equal(begin))
	require.Zero(t, found[0].Until)
	require.True(t, found[1].Until.Equal(begin))
	require.Len(t, found[1].Rules, 2)
	require.True(t, found[0].Rules[0].Same(costs.PriceRule{Resolution: "4k", Audio: new(false), PerSecondUSD: usd("0.1234567891"), PerCallUSD: usd("7")}),
		"%+v", found[0].Rules)
	one, err := costs.ListProviderPrices(t.Context(), db, "veo", "nonesuch")
	require.NoError(t, err)
	require.Empty(t, one)
	for _, statement := range []string{"UPDATE provider_prices SET per_second_usd = 1", "DELETE FROM provider_prices",
		"INSERT INTO provider_prices SELECT provider, model, since, resolution, audio, 1, 1 FROM provider_prices LIMIT 1"} {
		_, err := db.NewRaw(statement).Exec(t.Context())
		require.Error(t, err, statement)
	}
}
