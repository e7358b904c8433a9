package console

import (
	"context"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

// open opens a page in Chromium, logged in.
func (b *browser) open(t *testing.T, path string) (ctx context.Context, complaints func() []string) {
	t.Helper()
	ctx, complaints = chromium.Open(t)
	require.NoError(t, chromedp.Run(ctx,
		chromium.Visit(b.url+toLogin(path)),
		chromedp.SendKeys("#key", b.Secrets[access.RoleOperator]+"\r"),
		chromedp.WaitReady("#content h1:not(.login h1)"),
		chromium.Complete(),
	))
	return ctx, complaints
}

// promised waits for a promise of the page.
func promised(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// busy is a console with something of each kind on its pages, which it names.
func busy(t *testing.T) (b *browser, pages map[string]string) {
	t.Helper()
	stack := jobstest.New(t)
	config := configure(stack)
	document, err := os.ReadFile("../rest/openapi.json")
	require.NoError(t, err)
	config.OpenAPI = document
	b = serve(t, stack, config)
	b.logIn(t)
	b.withPast(t)
	running, worker, _ := b.resumed(t)
	refusing := httptest.NewServer(nil)
	refusing.Close()
	_, _, err = b.Webhooks.CreateEndpoint(t.Context(), b.Client, refusing.URL+"/a/rather/long/address/of/an/endpoint", webhooks.FormatStandard,
		nil)
	require.NoError(t, err)
	cancelled := b.Submit(t)
	_, err = b.Canceller.Cancel(t.Context(), b.Client, cancelled.ID)
	require.NoError(t, err)
	_, err = b.Deliverer.Pass(t.Context())
	require.NoError(t, err)
	for _, in := range []submit.Submission{
		{Prompt: "tomorrow", RunAt: new(time.Now().Add(23 * time.Hour))},
		{Prompt: "averylongwordwithoutanyplacetobreakitaveryverylongword", DependsOn: []models.JobID{running.ID}},
	} {
		in.Model = "testcard"
		_, _, err = b.Submitter.Submit(t.Context(), b.Client, in)
		require.NoError(t, err)
	}
	for range 10 { // axe passes over the contrast of a single digit
		b.Submit(t)
	}
	_, err = b.Operator.PauseQueue(t.Context(), b.Admin, models.TierPro, "", "The storage is full: see incident 42.")
	require.NoError(t, err)
	made, err := b.Submitter.Takes(t.Context(), b.Client, submit.Submission{Model: "testcard", Prompt: "a fox",
		Draft: &submit.Draft{Steps: 6}}, 4, nil)
	require.NoError(t, err)
	pool := b.pool(t, "h200", func(s *capacity.PoolSpec) {
		s.Zones, s.Settings = []string{"europe-west4-a", "europe-west4-b"},
			[]byte(`{"averylongsettingwithoutanyplacetobreakit": "averylongvaluewithoutanyplacetobreakit"}`)
	})
	b.decide(t, pool, 1, 3)
	require.NoError(t, b.Checkpoints.Pass(t.Context()))
	dead := b.dies(t, b.Worker(t, "host-with-a-rather-long-name-in-europe-west4-a"), models.FailUnauthorized, "the server refused the key",
		strings.Repeat("a line of a log\n", 50))
	return b, map[string]string{
		"dead letters": "/dead-letters", "cause": address.Cause("", dead.Fingerprint, false),
		"redrive all": address.Cause("/redrive", dead.Fingerprint, false), "discard all": address.Cause("/discard", dead.Fingerprint, false),
		"dead letter": "/dead-letters/" + string(dead.ID), "redrive": "/dead-letters/" + string(dead.ID) + "/redrive",
		"discard":  "/dead-letters/" + string(dead.ID) + "/discard",
		"overview": "/overview?range=24h", "heat map": "/heatmap",
		"jobs": "/jobs", "no match": "/jobs?q=zzzz", "bad search": "/jobs?q=status:queued+foo:bar", "running job": "/jobs/" + string(running.ID),
		"takes": "/takes/" + string(made[0].Job.TakesID), "cancelled job": "/jobs/" + string(cancelled.ID), "workers": "/workers?all=1",
		"terminate": "/workers/" + string(worker.WorkerID) + "/terminate",
		"queues":    "/queues", "pause": "/queues/pro/pause", "pools": "/pools", "pool": "/pools/" + string(pool.ID), "edit a pool": "/pools/" +
			string(pool.ID) + "/edit",
		"new pool": "/pools/new", "delete a pool": "/pools/" + string(pool.ID) + "/delete", "new job": "/jobs/new", "error": "/nowhere",
	}
}

// seededPages seeds a console and names addresses of its pages.
type seededPages func(t *testing.T, b *browser) map[string]string

var morePages []seededPages

// alsoPages adds pages to those that TestPages opens:
//
//	var _ = alsoPages(func(t *testing.T, b *browser) map[string]string {
//		return map[string]string{"webhooks": "/webhooks"}
//	})
func alsoPages(more seededPages) seededPages {
	morePages = append(morePages, more)
	return more
}

// fault is what axe finds wrong.
type fault struct {
	ID    string
	Nodes []struct{ HTML, FailureSummary string }
}

// onPhone is true if what is above a page fits a phone: New job and the menu are there, and
// the menu opens.
const onPhone = `(() => {
	const fits = (control) => {
		const box = control.getBoundingClientRect();
		return box.width > 0 && box.left >= 0 && box.right <= innerWidth;
	};
	const above = [...document.querySelectorAll(".bar > a, .bar > button")].filter((control) => control.checkVisibility());
	const menu = document.querySelector("#menu");
	if (!menu) return true; // a page for strangers
	const button = document.querySelector(".menu-button");
	const wasClosed = !menu.checkVisibility();
	button.click();
	const fit = wasClosed && above.includes(button) && above.every(fits) && [...menu.querySelectorAll("a, button")].every(fits);
	button.click();
	return fit;
})()`

// tooWide is the innermost element that the page does not hold.
const tooWide = `[...document.querySelectorAll("main *")].filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth && !each.closest(".scroll, pre")).at(-1)?.outerHTML.slice(0, 300) ?? ""`

// wordedLines are the texts of a page that Reelay words.
const wordedLines = `(() => {
	const all = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) if (!walker.currentNode.parentElement.closest("script, style, code, pre, textarea, option")) all.push(walker.currentNode.data);
	return all;
})()`

// everyPage is a console with something of everything, and its pages.
func everyPage(t *testing.T) (*browser, map[string]string) {
	t.Helper()
	b, pages := busy(t)
	for _, seed := range morePages {
		maps.Copy(pages, seed(t, b))
	}
	maps.Copy(pages, map[string]string{"keyboard": "/keyboard", "REST API": "/api/docs", "models": "/models", "model": "/models/show/testcard",
		"apply models": "/models/apply", "GraphiQL": "/graphql", "login": "/login"})
	return b, pages
}

// look is a window of this width, in a theme.
func look(width int64, scheme string) chromedp.Action {
	return chromedp.Tasks{
		emulation.SetDeviceMetricsOverride(width, 900, 1, width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}}),
	}
}

// nextFrame waits until the page is about to be drawn again.
var nextFrame = chromedp.Evaluate("new Promise((done) => requestAnimationFrame(() => done(1)))", nil, promised)

// TestPages opens every page in both themes, wide and on a phone.
func TestPages(t *testing.T) {
	t.Parallel()

	b, pages := everyPage(t)
	requireEveryPage(t, pages)
	delete(pages, "login") // it is opened first
	const file = "../../e2e/clients/node/node_modules/axe-core/axe.min.js"
	axe, err := os.ReadFile(file)
	require.NoError(t, err, "run: go tool task clients")
	ctx, complaints := chromium.Open(t)
	// A page about one action has nothing that others have not, and the REST API's page is long:
	// axe sees them once.
	once := func(name string) bool { return name == "REST API" || strings.Count(pages[name], "/") > 2 }
	check := func(t *testing.T, name string) {
		for scheme, width := range map[string]int64{"light": 1440, "dark": 390} {
			var faults []fault
			var wide int64
			var widest string
			var fits bool
			require.NoError(t, chromedp.Run(ctx, look(width, scheme)), name)
			for range 60 { // charts take their new size some frames after the window
				require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate("document.documentElement.scrollWidth", &wide)), name)
				if wide <= width {
					break
				}
				require.NoError(t, chromedp.Run(ctx, nextFrame), name)
			}
			if width < 500 || !once(name) {
				require.NoError(t, chromedp.Run(ctx,
					chromedp.Evaluate("axe.run({resultTypes: ['violations'], elementRef: false, preload: false}).then((found) => found.violations)",
						&faults, promised)), name)
			}
			told, err := json.MarshalIndent(faults, "", "\t")
			require.NoError(t, err)
			require.Empty(t, faults, "%s, %d px, %s: %s", name, width, scheme, told)
			if wide > width {
				require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(tooWide, &widest)))
			}
			require.LessOrEqual(t, wide, width, "%s is too wide at %d px: %s", name, width, widest)
			if width < 500 && name != "login" {
				require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(onPhone, &fits)))
				require.True(t, fits, "%s: New job is on the screen, and the menu with Log out opens", name)
			}
		}
	}

	require.NoError(t, chromedp.Run(ctx, look(1440, "light"), chromium.Visit(b.url+"/login"), chromedp.Evaluate(string(axe), nil)))
	check(t, "login")
	require.NoError(t, chromedp.Run(ctx, chromedp.SendKeys("#key", b.Secrets[access.RoleAdmin]+"\r"), chromedp.WaitReady("#menu"),
		chromium.Complete()))
	require.Empty(t, complaints(), "login")
	known := 0
	for name, path := range pages {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			defer func() { known = len(complaints()) }()
			require.NoError(t, chromedp.Run(ctx, look(390, "dark"), chromium.Visit(b.url+path)))
			if name == "GraphiQL" { // another's page in ours
				var wide int
				require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate("document.documentElement.scrollWidth", &wide)))
				require.LessOrEqual(t, wide, 390)
				return
			}
			var written []string
			require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(unescaped+".concat("+reversed+")", &written),
				chromedp.Evaluate(string(axe), nil)))
			require.Empty(t, written, "markup that the page wrote as it stands")
			if name != "REST API" { // its examples are data
				var lines []string
				require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(wordedLines, &lines)))
				for _, line := range lines {
					require.NotRegexp(t, oddTime, line)
				}
			}
			check(t, name)
			said := complaints()
			news := slices.DeleteFunc(slices.Clone(said[known:]), func(complaint string) bool {
				return strings.HasPrefix(complaint, "Failed to load resource") &&
					(strings.HasSuffix(complaint, b.url+path) || // the status of the page itself
						strings.Contains(complaint, b.url+"/objects/")) // this server has no object store
			})
			require.Empty(t, news, "errors and violations of the policy")
		})
	}
}
