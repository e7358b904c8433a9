package console

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/trends"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

// past is the history of a day, with a gap of two hours.
var pastDay = []string{
	`UPDATE learning SET began_at = clock_timestamp() - interval '2 days'`,
	`CREATE TEMP TABLE spans AS SELECT s.seconds, at, s.seconds / 60 AS minutes, extract(epoch FROM at)::bigint / 600 AS n
		FROM (VALUES (60, interval '1 hour 5 minutes'), (600, interval '24 hours'), (3600, interval '47 hours')) AS s (seconds, back)
		CROSS JOIN LATERAL generate_series(to_timestamp(floor(extract(epoch FROM clock_timestamp() - s.back) / s.seconds) * s.seconds),
			clock_timestamp() - make_interval(secs => s.seconds + 5), make_interval(secs => s.seconds)) AS at
		WHERE at NOT BETWEEN clock_timestamp() - interval '7 hours' AND clock_timestamp() - interval '5 hours'`,
	`INSERT INTO history (seconds, at, minutes, samples, dead_letters, drain_seconds, drain_samples)
		SELECT seconds, at, minutes, minutes, 3 * minutes, (300 + 200 * sin(n / 9.0)) * minutes, minutes FROM spans`,
	`INSERT INTO history_jobs (seconds, at, lane, model, submitted, started, completed, failed, failures, waits, renders, pickups, queued, queued_max, running)
		SELECT seconds, at, lane, 'testcard', minutes * (6 + 4 * sin(n / 7.0)), minutes * 6, minutes * (6 + 3 * sin(n / 8.0)), greatest(round(sin(n / 3.0)), 0), '{"MODEL_CRASH": 1}',
			jsonb_build_object((20 + weight * 6 + 4 * sin(n / 5.0))::int, 9 * minutes, (38 + weight * 6 + 3 * sin(n / 6.0))::int, minutes), '{"44": 30, "52": 4, "60": 1}', '{"2": 9}',
			minutes * weight * (12 + 9 * sin(n / 7.0)), 30, minutes * 4
		FROM spans, (VALUES ('ENTERPRISE', 0.5), ('PRO', 1.0), ('FREE', 2.0)) AS l (lane, weight)`,
	`INSERT INTO history_pools (seconds, at, pool, region, gpu_type, attempts, preempted, paid, recoveries, booting, idle, busy, gpus, gpus_busy)
		SELECT seconds, at, '', region, gpu, minutes * 18, (minutes * bad * (3 + 3 * sin(n / 4.0)))::int, jsonb_build_object('useful', jsonb_build_object('seconds', minutes * 1800 * (1 - bad * (0.2 + 0.15 * sin(n / 4.0))), 'usd', minutes * 0.4), 'wasted', jsonb_build_object('seconds', minutes * 1800 * bad * (0.2 + 0.15 * sin(n / 4.0)))), '{"36": 3, "40": 1}',
			minutes * 0.2, minutes * (3 - 2.5 * sin(n / 7.0)), minutes * (8 + 6 * sin(n / 7.0)), minutes * 10, minutes * (7 + 2 * sin(n / 7.0))
		FROM spans, (VALUES ('europe-west4', 'h100', 0.1), ('us-central1', 'a100', 1.6)) AS p (region, gpu, bad)`,
	`DROP TABLE spans`,
}

// withPast gives the console a past.
func (b *browser) withPast(t *testing.T) {
	t.Helper()
	conn, err := b.DB.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for _, query := range pastDay {
		_, err := conn.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
}

// page returns the body of a page.
func (b *browser) page(t *testing.T, path string) string {
	t.Helper()
	got := b.get(t, path)
	require.Equal(t, http.StatusOK, got.Status, path)
	return got.Body
}

func TestOverview(t *testing.T) {
	t.Parallel()

	t.Run("GreetsWhoHasNoJobYet", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		first := b.get(t, "/overview").Body

		require.Contains(t, first, "Welcome to Reelay")
		require.Contains(t, first, "export REELAY_ENDPOINT="+b.url+" ")
		require.Contains(t, first, `href="/jobs/new"`)
		b.Submit(t)
		require.NotContains(t, b.get(t, "/overview").Body, "Welcome to Reelay")
	})

	t.Run("ShowsWhatIsKnownAndNothingElse", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)

		body := b.get(t, "/overview").Body

		require.Contains(t, body, "Queues empty in</span> <b>never")
		require.Contains(t, body, "GPU goodput</span> <b>n/a")
		require.Contains(t, body, ">No workers</a>")
		require.Contains(t, body, "No data in this range")
		require.NotContains(t, body, "NaN")
	})

	t.Run("SaysWhoPausedWhatAndWhy", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		_, err := b.Operator.PauseQueue(t.Context(), b.Admin, models.TierPro, "", `<img src=x onerror=alert(1)> is full`)
		require.NoError(t, err)

		body := b.get(t, "/overview").Body

		require.Contains(t, body, "The pro lane is paused")
		require.Contains(t, body, "by test ADMIN")
		require.Contains(t, body, "&lt;img src=x")
		require.NotContains(t, body, "<img src=x")
	})

	t.Run("TellsTheOldestWaitAsItsLanesDo", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		tile := func(page string) string {
			t.Helper()
			found := regexp.MustCompile(`(?s)<span class="tile-name">Queued</span>.*?<span class="tile-note">([^<]*)`).FindStringSubmatch(page)
			require.NotNil(t, found)
			return found[1]
		}
		lane := regexp.MustCompile(`(?s)href="/queues#lane-ENTERPRISE".*?data-label="State">(.*?)</td>.*?data-label="Oldest wait">(.*?)</td>`)

		require.Equal(t, "none waits · 0 scheduled · 0 blocked", tile(b.page(t, "/overview")))

		b.Submit(t)
		b.Submit(t)
		_, err := b.Operator.PauseQueue(t.Context(), b.Admin, models.TierEnterprise, "", "")
		require.NoError(t, err)
		b.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - interval '5 minutes'")
		b.Exec(t, "UPDATE queue_closures SET began_at = clock_timestamp() - interval '2 minutes'")
		page := b.page(t, "/overview")
		found := lane.FindStringSubmatch(page)
		require.NotNil(t, found)
		require.Regexp(t, `^ *3 min 0\d s *$`, found[2], "the wait before the pause")
		require.Equal(t, "oldest "+strings.TrimSpace(found[2])+", paused · 2 in paused queues · 0 scheduled · 0 blocked", tile(page))
		require.Contains(t, page, "Queues empty in</span> <b>not until resumed")

		_, err = b.Operator.ResumeQueue(t.Context(), b.Admin, models.TierEnterprise, "")
		require.NoError(t, err)
		_, err = b.Operator.PauseQueue(t.Context(), b.Admin, models.TierEnterprise, "testcard", "")
		require.NoError(t, err)
		for _, path := range []string{"/overview", "/queues", "/queues/enterprise"} {
			require.Regexp(t, `(?s)<span class="badge is-partly_paused">partly paused</span>\s*<span class="quiet under">testcard</span>`,
				b.page(t, path), path)
		}
		require.Contains(t, tile(b.page(t, "/overview")), ", paused · 2 in paused queues")

		_, err = b.Operator.ResumeQueue(t.Context(), b.Admin, models.TierEnterprise, "testcard")
		require.NoError(t, err)
		require.Contains(t, b.page(t, "/queues"), "<time data-elapsed")
		_, err = b.Operator.Halt(t.Context(), b.Admin, []models.HaltTarget{models.HaltLeases}, "storage")
		require.NoError(t, err)
		require.Regexp(t, `^oldest 3 min \d\d s, halted · 0 scheduled`, tile(b.page(t, "/overview")))
		for _, path := range []string{"/overview", "/queues", "/queues/enterprise"} {
			_, lanes, _ := strings.Cut(b.page(t, path), "Oldest wait")
			lanes, _, _ = strings.Cut(lanes, "Next in line")
			require.NotContains(t, lanes, "<time data-elapsed", "%s: a wait that stands still is counted up", path)
		}
		b.Exec(t, "UPDATE jobs SET tier = 'PRO'")
		require.Regexp(t, `^2 promoted, oldest \d min \d\d s · 0 scheduled · 0 blocked$`, tile(b.page(t, "/overview")))
	})

	t.Run("DrawsChartsOfEachTimeWithoutScripts", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.withPast(t)

		for _, span := range trends.Ranges {
			page := b.page(t, "/overview?range="+span.Name)
			charts := regexp.MustCompile(`data-chart="([^"]+)"`).FindAllStringSubmatch(page, -1)
			require.Len(t, charts, 12)
			require.Equal(t, 12, strings.Count(page, `<path class="chart-grid"`), span.Name)
			require.Greater(t, strings.Count(page, `<th scope="row">`), 100)
			var data struct {
				Step   int
				Series []struct{ Values []*float64 }
			}
			require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(charts[0][1])), &data))
			require.EqualValues(t, span.Step.Seconds(), data.Step)
			gaps := 0
			for _, v := range data.Series[0].Values {
				if v == nil {
					gaps++
				}
			}
			if span.Name == "24h" {
				require.Greater(t, gaps, 8, "the time that nobody recorded is a gap")
			}
		}
		require.Equal(t, http.StatusOK, b.get(t, "/overview?range=nonsense").Status)
	})

	t.Run("BeginsWithWhatOneActsOn", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		for i := range 8 {
			b.pool(t, fmt.Sprintf("pool-<%d>", i), func(s *capacity.PoolSpec) { s.MaxWorkers = 10 - i })
		}
		page := b.page(t, "/overview")
		names := func(label string) (all []string) {
			_, list, _ := strings.Cut(page, `aria-label="`+label+`"`)
			list, _, _ = strings.Cut(list, "</ul>")
			for _, found := range regexp.MustCompile(`class="tile-name">([^<]*)`).FindAllStringSubmatch(list, -1) {
				all = append(all, found[1])
			}
			return all
		}

		require.Equal(t, []string{"Queued", "Queues empty in", "Workers busy", "Failure rate", "Dead letters"}, names("Figures to act on"))
		require.Subset(t, names("More figures"), []string{"Running", "Completed", "Wait p50 / p95", "Render p50 / p95", "GPU utilization",
			"GPU goodput", "Preemptions"})
		require.Contains(t, page, "pool-&lt;5&gt;")
		require.NotContains(t, page, "pool-&lt;6&gt;")
		require.Contains(t, page, "and 2 other pools")
	})

	t.Run("DrawsTheWorkersOfEachPool", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.withPast(t)
		for i, pool := range []string{"gpu-<b>", "spot-1", "spot-2", "spot-3", "spot-4", "spot-5"} {
			b.Exec(t, `INSERT INTO history_pools (seconds, at, pool, region, gpu_type, idle, busy, booting)
				SELECT seconds, at, ?, 'europe-west4', 'h100', ?, 1, 0 FROM history WHERE seconds = 60`, pool, 6-i)
		}

		charts, err := regexp.Compile(`(?s)id="chart-(\w+)".*?<ul class="chart-legend">(.*?)</ul>`)
		require.NoError(t, err)
		legends := map[string]string{}
		for _, found := range charts.FindAllStringSubmatch(b.page(t, "/overview"), -1) {
			legends[found[1]] = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(found[2], " ")
		}

		require.Regexp(t, `gpu-&lt;b&gt; +6\b.*spot-1 +5\b.*spot-2 +4\b.*3 other pools +6\b|without a pool.*gpu-&lt;b&gt; +6\b.*spot-1 +5\b.*spot-2 +4\b.*3 other pools +6\b`, legends["idle"])
		require.Contains(t, legends["idle"], "without a pool")
		require.Regexp(t, `gpu-&lt;b&gt; +1\b`, legends["busy"])
		require.Regexp(t, `gpu-&lt;b&gt; +0\b`, legends["booting"])
	})

	t.Run("DrawsNoLineWithoutData", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		for _, path := range []string{"/queues", "/queues/pro"} {
			page := b.page(t, path)
			require.Equal(t, 4, strings.Count(page, "No data in this range"), path)
			require.NotContains(t, page, "chart-legend", path)
		}
		b.withPast(t)
		b.Exec(t, "UPDATE history_jobs SET queued = 0, queued_max = 0")
		for _, path := range []string{"/overview", "/queues"} {
			depth := regexp.MustCompile(`(?s)id="chart-depth".*?</figure>`).FindString(b.page(t, path))
			require.Contains(t, depth, "No data in this range", path)
			require.NotContains(t, depth, "chart-legend", path)
		}
	})

	t.Run("LinksToPagesThatExist", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		page := b.page(t, "/overview")
		links := regexp.MustCompile(`href="(/[^"]*)"`).FindAllStringSubmatch(page[strings.Index(page, `<main`):], -1)
		require.Greater(t, len(links), 30)
		for _, link := range links {
			require.Less(t, b.get(t, html.UnescapeString(link[1])).Status, 400, "%s: the page exists, and an operator may open it", link[1])
		}
	})

	t.Run("ExploresChartsUnderTheContentPolicy", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.withPast(t)
		ctx, complaints := b.open(t, "/overview?range=24h")

		var legend string
		require.NoError(t, chromedp.Run(ctx,
			chromium.Until(`document.querySelectorAll("figure[data-drawn] .u-over").length === 12`),
			chromedp.Evaluate(`(() => {
				const plot = document.querySelector("#chart-throughput .chart-plot");
				plot.focus();
				for (let i = 0; i < 3; i++) plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
			})()`, nil),
			// The cursor moves in all charts.
			chromium.Until(`document.querySelector("#chart-waits .chart-scale span:last-child").textContent === ""`),
			chromedp.Text("#chart-throughput .chart-legend", &legend),
		))
		require.Contains(t, legend, "completed")
		for _, width := range []int64{390, 1280, 1440, 1920, 2560} {
			var rows []int
			require.NoError(t, chromedp.Run(ctx, look(width, "light"),
				chromedp.Evaluate(`Object.values(Object.groupBy(document.querySelectorAll("figure.over-time"), (f) => f.offsetTop)).map((row) => row.length)`, &rows)))
			require.Len(t, lo.Uniq(rows), 1, "rows of charts at %d px: %v", width, rows)
		}
		require.Empty(t, complaints())
	})
}

// TestChartAxes reads what the charts write on their canvases.
func TestChartAxes(t *testing.T) {
	t.Parallel()
	b := operator(t)
	b.withPast(t)
	ctx, _ := b.open(t, "/jobs")
	const record = `window.written = []; const write = CanvasRenderingContext2D.prototype.fillText;
		CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { window.written.push(String(text)); return write.call(this, text, ...rest); };`
	require.NoError(t, chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdp.AddScriptToEvaluateOnNewDocument(record).Do(ctx)
		return err
	})))
	for seconds, unit := range map[string]string{"1": "s", "7": "s", "47": "s", "200": "min", "400": "min", "2000": "min", "9000": "min",
		"20000": "h", "300000": "d"} {
		b.Exec(t, `UPDATE history SET drain_seconds = ?::float8 * drain_samples, drain_samples = greatest(drain_samples, 1)`, seconds)
		// The process shares what it read for ten seconds.
		fresh := serve(t, b.Stack, configure(b.Stack)) // a login counts on all ports of a host
		var written []string
		require.NoError(t, chromedp.Run(ctx, chromium.Visit(fresh.url+"/overview"),
			chromium.Until(`document.querySelector("#chart-drain[data-drawn]")`),
			chromedp.Evaluate(`written.filter((text) => / (s|min|h|d)$/.test(text))`, &written)))
		require.NotEmpty(t, written)
		for _, label := range written {
			require.Regexp(t, `^(0|\d+|0\.\d) (s|min|h|d)$`, label, "a whole number of its unit")
		}
		require.Contains(t, strings.Join(written, "|")+"|", " "+unit+"|", seconds)
	}
}

// TestChartLabels reads where the charts write on their canvases.
func TestChartLabels(t *testing.T) {
	t.Parallel()
	b := operator(t)
	b.withPast(t)
	b.Exec(t, "UPDATE history_pools SET busy = 3 * booting")
	b.Exec(t, "DELETE FROM history_jobs WHERE lane = 'FREE' AND at > clock_timestamp() - interval '30 minutes'")
	ctx, _ := b.open(t, "/jobs")
	const record = `(() => {
		window.labels = new Map();
		const write = CanvasRenderingContext2D.prototype.fillText, clear = CanvasRenderingContext2D.prototype.clearRect;
		CanvasRenderingContext2D.prototype.clearRect = function (...args) { labels.set(this.canvas, []); return clear.apply(this, args); };
		CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
			const width = this.measureText(text).width, height = parseFloat(this.font.match(/([\d.]+)px/)[1]), at = this.getTransform().transformPoint({ x, y });
			const left = at.x - { left: 0, start: 0, center: width / 2, right: width, end: width }[this.textAlign];
			const top = at.y - { top: 0, hanging: 0, middle: height / 2, alphabetic: height, bottom: height }[this.textBaseline];
			if (!labels.has(this.canvas)) labels.set(this.canvas, []);
			labels.get(this.canvas).push({ text: String(text), left, top, right: left + width, bottom: top + height });
			return write.call(this, text, x, y);
		};
	})()`
	const overlaps = `[...labels].flatMap(([canvas, all]) => all.flatMap((a, i) => all.slice(i + 1)
		.filter((b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
		.map((b) => canvas.closest("figure")?.id + ": " + a.text + " and " + b.text)))`
	const counts = `[...labels].filter(([canvas]) => /^chart-(depth|busy|idle|booting)$/.test(canvas.closest("figure")?.id)).flatMap(([canvas, all]) => all.map((a) => a.text).filter((text) => !/[: ]/.test(text)))`
	require.NoError(t, chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdp.AddScriptToEvaluateOnNewDocument(record).Do(ctx)
		return err
	})))
	for _, width := range []int64{1280, 390} {
		for _, span := range trends.Ranges {
			var over, ticks []string
			var legend string
			require.NoError(t, chromedp.Run(ctx, look(width, "light"), chromium.Visit(b.url+"/overview?range="+span.Name),
				chromium.Until(`document.querySelectorAll("figure[data-drawn]").length === 12 && labels.size >= 12`),
				chromedp.Evaluate(overlaps, &over), chromedp.Evaluate(counts, &ticks),
				chromedp.Evaluate(`document.querySelector("#chart-waits .chart-legend").textContent`, &legend)))
			require.Empty(t, over, "labels over each other at %d px, %s", width, span.Name)
			require.Greater(t, len(ticks), 8)
			for _, tick := range ticks {
				require.Regexp(t, `^\d+$`, tick, "there are no parts of workers and jobs")
			}
			if span.Name == "1h" {
				require.Regexp(t, `free \d+ min \d\d s at \d+ \w+ \d\d:\d\d`, legend)
				require.NotRegexp(t, `pro [^f]+ at`, legend)
			}
		}
	}
}

func TestHeatMap(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhatEachCellNeeds", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.withPast(t)
		b.pool(t, "spot <b>h200</b>", nil)

		page := b.page(t, "/heatmap?hours=12")

		_, cell, found := strings.Cut(page, `id="heat-us-central1-a100"`)
		require.True(t, found)
		cell, _, _ = strings.Cut(cell, "</td>")
		require.Contains(t, cell, "▲ Machines are taken away")
		require.Contains(t, cell, "#machines-are-taken-away")
		require.Contains(t, page, "spot &lt;b&gt;h200&lt;/b&gt;")
		require.Equal(t, http.StatusOK, b.get(t, "/heatmap?hours=-1").Status)
		require.Equal(t, 4, strings.Count(page, "<figure"))
		require.Contains(t, page, "us-central1, a100 <b>")
		part := b.page(t, "/heatmap/charts?hours=168")
		require.Equal(t, 4, strings.Count(part, "<figure"))
		require.NotContains(t, part, "<main")
	})

	t.Run("IsEmptyAtFirst", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, operator(t).get(t, "/heatmap").Body, "No pool and no worker yet")
	})
}
