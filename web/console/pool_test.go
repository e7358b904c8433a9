package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

// pool makes a pool of up to 4 workers, which edit may change.
func (b *browser) pool(t *testing.T, name string, edit func(*capacity.PoolSpec)) *capacity.Pool {
	t.Helper()
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: name, Provider: "static", Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MaxWorkers: 4,
	}}
	if edit != nil {
		edit(&pool.PoolSpec)
	}
	require.NoError(t, capacity.InsertPool(t.Context(), b.DB, pool))
	return pool
}

// decide writes a decision of the scaler.
func (b *browser) decide(t *testing.T, pool *capacity.Pool, from, to int) {
	t.Helper()
	require.NoError(t, capacity.InsertScalingDecision(t.Context(), b.DB, &capacity.ScalingDecision{
		PoolID: pool.ID, From: from, To: to, Reason: "2 waiting <jobs> need more workers.",
		Inputs: []byte(`{"waitingJobs": 2, "busy": 1, "idle": 2, "booting": 0}`), Error: "no <quota>",
	}))
}

// poolEntered is a form for a valid pool, with changes.
func poolEntered(changes url.Values) url.Values {
	form := url.Values{
		"name": {"l4-spot"}, "provider": {"static"}, "region": {"europe-west4"}, "zones": {"a, b"}, "gpuType": {"L4"},
		"capacityClass": {"SPOT"}, "models": {"testcard"}, "minWorkers": {"0"}, "maxWorkers": {"4"}, "warmWorkers": {"0"},
		"scaleDownCooldownSeconds": {"0"}, "bootLimitSeconds": {strconv.Itoa(models.DefaultBootLimitSeconds)},
		"pricePerHourUsd": {"0.28"}, "maxPricePerHourUsd": {"0"}, "workersPerMachine": {"1"}, "gpusPerWorker": {"1"}, "yieldingTiers": {"BATCH"},
	}
	for name, values := range changes {
		form[name] = values
	}
	return form
}

func TestPools(t *testing.T) {
	t.Parallel()

	t.Run("AreListedWithTheirNewestDecision", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		require.Contains(t, b.get(t, "/pools").Body, "reelay pools apply -f pools.yaml")
		pool := b.pool(t, "l4", func(s *capacity.PoolSpec) { s.Zones, s.PricePerHourUSD, s.MinWorkers = []string{"a", "b"}, 0.28, 1 })
		b.pool(t, "night", func(s *capacity.PoolSpec) { s.ActiveHours = "0 0 1 1 * for 1m" })
		b.pool(t, "stopped", nil)
		b.Exec(t, "UPDATE pools SET paused_at = now() WHERE name = 'stopped'")
		b.decide(t, pool, 0, 1)
		b.decide(t, pool, 1, 3)

		got := b.get(t, "/pools").Body

		require.Regexp(t, `(?s)active</span>.*>l4</a>.*closed by hours</span>.*>night</a>.*paused</span>.*>stopped</a>`, got)
		for _, shown := range []string{"0 booting, 0 idle, 0 busy, 0 draining", "0 of 4", "Least: 1.", "local: a, b", "$0.28/h",
			"2 waiting &lt;jobs&gt; need more workers.", "no &lt;quota&gt;"} {
			require.Contains(t, got, shown)
		}
		require.Equal(t, 1, strings.Count(got, "no &lt;quota&gt;"))
	})

	t.Run("HaveAPage", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		pool := b.pool(t, "l4", func(s *capacity.PoolSpec) { s.Settings = []byte(`{"note": "<b>"}`) })
		worker := b.Worker(t, "one")
		b.Exec(t, "UPDATE workers SET pool_id = ? WHERE id = ?", pool.ID, worker.WorkerID)
		b.Exec(t, "UPDATE pools SET backoff_until = now() + interval '1 hour', backoff_class = 'QUOTA', backoff_reason = 'too many <GPUs>', refusals = 1")
		b.decide(t, pool, 0, 3)
		b.Exec(t, `UPDATE pools SET price_source = 'feed', quoted_usd = 0.4, quoted_at = now() - interval '3 h', quote_stale_at = now() - interval '1 h',
			quote_problem = 'The source feed gives no <price>.', batch_waits = true,
			quote_ahead = jsonb_build_array(jsonb_build_object('from', now() + interval '2 h', 'pricePerHourUsd', 0.19))`)
		b.Exec(t, "DELETE FROM pool_prices") // the pool was made before it had a price
		require.NoError(t, capacity.RecordPrices(t.Context(), b.DB))
		require.NoError(t, b.Checkpoints.Pass(t.Context()))
		b.withPast(t)
		b.Exec(t, "UPDATE pools SET created_at = now() - interval '1 day'")
		b.Exec(t, `INSERT INTO history_pools (seconds, at, pool, region, gpu_type, idle, busy, booting)
			SELECT seconds, at, 'l4', 'local', 'any', 2 * minutes, minutes, 0 FROM history WHERE seconds = 600`)
		b.Exec(t, `INSERT INTO history_pools (seconds, at, pool, region, gpu_type, paid)
			SELECT seconds, at, 'l4', 'local', 'any', '{"boot": {"seconds": 36, "usd": 0.04}, "idle": {"seconds": 36, "usd": 0.04}, "useful": {"seconds": 288, "usd": 0.32}}'
			FROM history WHERE seconds = 3600 AND at > now() - interval '20 h' ORDER BY at LIMIT 1`)

		got := b.get(t, string(address.Pool(pool.ID))).Body

		for _, shown := range []string{
			"0 → 3", `<summary>Inputs</summary>`, "&#34;waitingJobs&#34;: 2", "wanted 3 to 3 workers, and decided 1 time.",
			"too many &lt;GPUs&gt;", "&#34;note&#34;: &#34;&lt;b&gt;&#34;", "$0.40/h (stale)", "by feed,", "no &lt;price&gt;", "$0.19/h from ",
			"none measured yet",
			"paid for 0.1 worker hours, $0.40. 80 % of the time rendered what was kept.", `<rect class="paid-useful" x="20.`,
			"In the last 24 hours a worker cost $0.40/h.", "Jobs of BATCH boot no workers here now", `id="` + string(worker.WorkerID) + `"`,
		} {
			require.Contains(t, got, shown)
		}
		require.Regexp(t, `(?s)<path class="area-booting" d="M[^"]*V39Z"></path>.*class="area-idle".*class="area-busy".*<path class="line" d="M[0-9. ]+H100"`, got)
		require.Regexp(t, `aria-label="Since [^"]* Up to 1 were busy, 2 idle and 0 booting; now 0, 1 and 0."`, got)
		require.Regexp(t, `(?s)<p class="legend">.*</i> wanted<.*</i> booting<.*</i> idle<.*</i> busy<`, got)
		require.Regexp(t, `(?s)testcard</td>\s*<td class="num" data-label="Every">–</td>.*>–</td>.*>1 in 4 busy h</td>.*>–</td>`, got)
		require.Contains(t, b.get(t, "/workers").Body, `href="/pools/`+string(pool.ID)+`">l4</a>`)
	})

	t.Run("FoldEqualDecisions", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		pool := b.pool(t, "l4", nil)
		for range 7 {
			b.decide(t, pool, 1, 2)
		}
		b.decide(t, pool, 2, 3)

		for _, path := range []string{"/queues", string(address.Pool(pool.ID))} {
			got := b.get(t, path).Body
			require.Equal(t, 2, strings.Count(got, "2 waiting &lt;jobs&gt; need more workers."), path)
			require.Regexp(t, `(?s)7 times since <time data-at="moment"`, got, path)
		}
		all, err := b.Reads.Fleet.ScalingHistories(t.Context(), []models.PoolID{pool.ID}, 50)
		require.NoError(t, err)
		require.Len(t, all[pool.ID], 8, "the history is whole")
	})

	t.Run("SayWhyThereIsNoChartOfThePrice", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		free := b.pool(t, "free", nil)
		dear := b.pool(t, "dear", func(s *capacity.PoolSpec) { s.PricePerHourUSD = 3.1 })

		require.Contains(t, b.get(t, string(address.Pool(free.ID))).Body, "No chart: a worker cost $0 in the last 24 hours.")
		priced := b.get(t, string(address.Pool(dear.ID))).Body
		require.Contains(t, priced, "$3.10/h")
		require.NotContains(t, priced, "No chart")
	})

	t.Run("ArePausedResumedAndDeleted", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		pool := b.pool(t, "l4", nil)
		path := string(address.Pool(pool.ID))
		worker := b.Worker(t, "one")
		b.Exec(t, "UPDATE workers SET pool_id = ? WHERE id = ?", pool.ID, worker.WorkerID)

		require.Contains(t, b.get(t, path+"/delete").Body, "Delete l4?")
		refused := b.post(t, path+"/delete", nil)
		require.Equal(t, http.StatusConflict, refused.Status)
		require.Contains(t, refused.Body, "The pool l4 has 1 worker. Pause it, and delete it after they have ended.")

		require.Equal(t, path, b.post(t, path+"/pause", nil).Header.Get("Location"))
		require.Regexp(t, `paused</span>.*action="`+path+`/resume"`, b.get(t, path).Body)
		require.Regexp(t, `(?s)Paused</dt>.*</time>\s+by test OPERATOR`, b.get(t, path).Body)
		require.Equal(t, path, b.post(t, path+"/resume", nil).Header.Get("Location"))
		require.Regexp(t, `active</span>.*action="`+path+`/pause"`, b.get(t, path).Body)

		b.post(t, "/workers/"+string(worker.WorkerID)+"/terminate", nil)
		require.Equal(t, "/pools", b.post(t, path+"/delete", nil).Header.Get("Location"))
		require.Equal(t, http.StatusNotFound, b.get(t, path).Status)
		entries, err := access.ListAudit(t.Context(), b.DB, string(pool.ID), "", 10)
		require.NoError(t, err)
		var acts []string
		for _, e := range entries {
			acts = append(acts, e.Actor+" "+e.Action)
		}
		require.Equal(t, []string{"test OPERATOR deletePool", "test OPERATOR resumePool", "test OPERATOR pausePool"}, acts)
	})
}

func TestEngines(t *testing.T) {
	t.Parallel()
	b := operator(t)
	made := b.post(t, "/pools/new", poolEntered(url.Values{"name": {"comfy"}, "provider": {"engines"}, "engineKind": {"comfyui"}, "region": {""},
		"gpuType": {""}, "models": nil, "maxWorkers": {"0"}, "capacityClass": {"ON_DEMAND"}, "engines": {"http://gpu-1:8188\r\nhttp://gpu-2:8188/"}}))
	require.Equal(t, http.StatusSeeOther, made.Status, made.Body)
	path := made.Header.Get("Location")
	_, err := b.Engines.Sync(t.Context(), b.Enrolment, fleet.EngineSync{Pool: "comfy", Reports: []capacity.EngineReport{
		{URL: "http://gpu-1:8188", State: capacity.EngineReady, Version: "0.3.75", GPUName: "NVIDIA <L4>",
			Lacks: []capacity.EngineLack{{Model: "wan", Missing: "the node <X>"}}},
	}})
	require.NoError(t, err)
	worker, _, err := b.Registrar.Register(t.Context(), b.Enrolment, fleet.Registration{Provider: "engines", ProviderInstanceID: "gpu-1:8188",
		GPUCount: 1, PoolID: "comfy", Region: "local", GPUType: "any", CapacityClass: models.CapacitySpot, AgentVersion: "test"})
	require.NoError(t, err)

	page := b.get(t, path).Body
	for _, shown := range []string{"http://gpu-1:8188", "NVIDIA &lt;L4&gt;", "the node &lt;X&gt;", "0.3.75", `href="/workers/` + string(worker.ID) + `"`,
		"No agent drives it: start &#34;reelay agent --pool comfy&#34;.", "All models with the runtime comfyui"} {
		require.Contains(t, page, shown)
	}
	held := b.post(t, path+"/engines/hold", url.Values{"url": {"http://gpu-1:8188"}})
	require.Equal(t, path, held.Header.Get("Location"))
	page = b.get(t, path).Body
	require.Contains(t, page, "Held by test OPERATOR")
	require.Contains(t, page, `aria-label="Resume http://gpu-1:8188"`)
	require.Equal(t, path, b.post(t, path+"/engines/resume", url.Values{"url": {"http://gpu-1:8188"}}).Header.Get("Location"))
	require.NotContains(t, b.get(t, path).Body, "Held by")
	require.Equal(t, http.StatusNotFound, b.post(t, path+"/engines/hold", url.Values{"url": {"http://gpu-9"}}).Status)
	for _, bad := range []string{"", "http://me:hunter2@gpu"} {
		refused := b.post(t, path+"/engines/hold", url.Values{"url": {bad}})
		require.Equal(t, http.StatusUnprocessableEntity, refused.Status)
		require.NotContains(t, refused.Body, "hunter2")
	}

	edit := b.get(t, path+"/edit").Body
	require.Contains(t, edit, "http://gpu-1:8188\nhttp://gpu-2:8188</textarea>")
	wrong := b.post(t, path+"/edit", poolEntered(url.Values{"name": {"comfy"}, "provider": {"engines"}, "engineKind": {"comfyui"},
		"models": nil, "maxWorkers": {"0"}, "engines": {"http://me:hunter2@gpu"}, "seen": {seenIn(t, edit)}}))
	require.Contains(t, wrong.Body, `id="engines-error" role="alert">engines[0]: the address of an engine must have no user`)
}

func TestProviderAccount(t *testing.T) {
	t.Parallel()
	b := operator(t)
	pool, err := b.Pools.Create(t.Context(), b.Admin, capacity.PoolSpec{Name: "kling", Provider: "engines", EngineKind: "kling",
		Models: []string{"testcard"}})
	require.NoError(t, err)
	path := "/pools/" + string(pool.ID)
	accounts := &hosted.Accounts{DB: b.DB}
	require.NoError(t, accounts.Tell(t.Context(), b.Enrolment, hosted.Outcome{Pool: "kling", Means: "KEY_REFUSED", Status: 401, Code: "1002",
		Text: "the key <x> is unknown", Known: true}))

	page := b.get(t, path).Body
	for _, shown := range []string{"Kling", "0 of 3", "0 of 20", "waits for a decision", "status 401, 1002", "the key &lt;x&gt; is unknown",
		"The circuit is open", "Call again now"} {
		require.Contains(t, page, shown)
	}
	require.Equal(t, path, b.post(t, path+"/provider/reset", nil).Header.Get("Location"))
	require.NotContains(t, b.get(t, path).Body, "The circuit is open")
}

func TestPoolForm(t *testing.T) {
	t.Parallel()

	t.Run("CreatesAndChangesAPool", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		require.Contains(t, b.get(t, "/pools/new").Body, `name="scaleDownCooldownSeconds" value=""`)
		made := b.post(t, "/pools/new", poolEntered(nil))
		require.Equal(t, http.StatusSeeOther, made.Status, made.Body)
		path := made.Header.Get("Location")

		again := b.post(t, "/pools/new", poolEntered(nil))
		require.Equal(t, http.StatusConflict, again.Status)
		require.Contains(t, again.Body, `id="name-error" role="alert">A pool named l4-spot already exists.`)

		form := poolEntered(url.Values{"maxWorkers": {"9"}, "zones": {"b"}, "tiers": {"BATCH", "FREE"},
			"seen": {seenIn(t, b.get(t, path+"/edit").Body)}})
		require.Equal(t, path, b.post(t, path+"/edit", form).Header.Get("Location"))
		pools, err := b.Reads.Fleet.Pools(t.Context())
		require.NoError(t, err)
		require.Equal(t, 9, pools[0].MaxWorkers)
		require.Equal(t, []string{"b"}, pools[0].Zones)
		require.Equal(t, []models.Tier{models.TierBatch, models.TierFree}, pools[0].Tiers)
		require.Regexp(t, `<dt>Lanes</dt>\s*<dd>batch, free<`, b.get(t, path).Body)
		require.Regexp(t, `name="tiers" value="BATCH" checked`, b.get(t, path+"/edit").Body)
		require.Equal(t, 0.28, pools[0].PricePerHourUSD)
	})

	t.Run("SavesNothingIfThePoolChangedMeanwhile", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		path := b.post(t, "/pools/new", poolEntered(nil)).Header.Get("Location")
		form := poolEntered(url.Values{"region": {"mine"}, "seen": {seenIn(t, b.get(t, path+"/edit").Body)}})
		b.Exec(t, "UPDATE pools SET desired = 2, paused_at = now()")
		b.Exec(t, "UPDATE pools SET price_per_hour_usd = 0.5")

		stale := b.post(t, path+"/edit", form)

		require.Equal(t, http.StatusConflict, stale.Status)
		require.Contains(t, stale.Body, "The pool changed since you opened this form. Nothing was saved.")
		require.Contains(t, stale.Body, "Now: 0.5")
		require.Contains(t, stale.Body, "Now: europe-west4")
		require.Equal(t, 2, strings.Count(stale.Body, "Now: "), "only what differs")
		require.Contains(t, stale.Body, `value="mine"`, "what was entered stays")
		form.Set("seen", seenIn(t, stale.Body))
		require.Equal(t, path, b.post(t, path+"/edit", form).Header.Get("Location"))
		form.Del("seen")
		require.Equal(t, http.StatusConflict, b.post(t, path+"/edit", form).Status)
	})

	t.Run("ShowsErrorsAtTheirFields", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		path := b.post(t, "/pools/new", poolEntered(nil)).Header.Get("Location")
		seen := seenIn(t, b.get(t, path+"/edit").Body)
		for _, c := range []struct{ field, value, want string }{
			{"region", "", "region must have 1 to"},
			{"maxWorkers", "many", "This must be a whole number."},
			{"maxWorkers", "10001", "maxWorkers must be from 0 to 10000."},
			{"minWorkers", "5", "minWorkers must be from 0 to maxWorkers, which is 4."},
			{"scaleDownCooldownSeconds", "-1", "must be from 0 to 86400."},
			{"pricePerHourUsd", "NaN", "pricePerHourUsd must be from 0 to 10000."},
			{"pricePerHourUsd", "a lot", "This must be a number."},
			{"maxPricePerHourUsd", "-1", "maxPricePerHourUsd must be from 0"},
			{"workersPerMachine", "65", "workersPerMachine must be from 1 to 64."},
			{"gpusPerWorker", "half", "This must be a whole number."},
			{"accounts", "acme", "accounts must list ids of accounts"},
			{"yieldingTiers", "LOW", "yieldingTiers must list tiers"},
			{"activeHours", "at night", "activeHours: write five cron fields"},
			{"models", "no-such", "There is no model of that name."},
			{"settings", `{"a": `, "settings must be a JSON object: unexpected end of JSON input."},
			{"settings", `[1]`, "settings must be a JSON object"},
			{"settings", `{"a": "\u0000"}`, "settings may not have NUL characters"},
			{"settings", `{"a": 1}`, "The provider static has no settings."},
			{"capacityClass", "CHEAP", "capacityClass must be SPOT or ON_DEMAND."},
			{"provider", "<b>", "There is no provider"},
		} {
			for _, to := range []string{"/pools/new", path + "/edit"} {
				got := b.post(t, to, poolEntered(url.Values{c.field: {c.value}, "seen": {seen}}))
				require.Equal(t, http.StatusUnprocessableEntity, got.Status, c)
				require.Regexp(t, `id="`+c.field+`-error" role="alert">[^<]*`+regexp.QuoteMeta(c.want), got.Body, c)
				require.Regexp(t, `id="`+c.field+`"[^>]*aria-describedby="`+c.field+`-error"`, got.Body, c)
			}
		}
		bad := b.post(t, "/pools/new", poolEntered(url.Values{"name": {"L4"}, "models": nil}))
		require.Regexp(t, `id="name-error" role="alert">name must have 1 to 40`, bad.Body)
		pools, err := b.Reads.Fleet.Pools(t.Context())
		require.NoError(t, err)
		require.Len(t, pools, 1)
	})
}

// seenIn returns the version of the pool that a form was opened with.
func seenIn(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`name="seen" value="([0-9a-f]{32})"`).FindStringSubmatch(page)
	require.NotNil(t, found)
	return found[1]
}
