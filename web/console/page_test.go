package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// open opens a page in Chromium, logged in.
func (b *browser) open(t *testing.T, path string) (ctx context.Context, complaints func() []string) {
	t.Helper()
	ctx, complaints = chromium.Open(t)
	require.NoError(t, chromedp.Run(ctx,
		chromium.Visit(b.url+loginPath(path)),
		chromedp.SendKeys("#key", b.Secrets[models.RoleOperator]+"\r"),
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
	b = operator(t)
	running, worker, _ := b.resumed(t)
	refusing := httptest.NewServer(nil)
	refusing.Close()
	_, _, err := b.Webhooks.CreateEndpoint(t.Context(), b.Client, refusing.URL+"/a/rather/long/address/of/an/endpoint", models.FormatStandard, nil)
	require.NoError(t, err)
	cancelled := b.Submit(t)
	_, err = b.Canceller.Cancel(t.Context(), b.Client, cancelled.ID)
	require.NoError(t, err)
	_, err = b.Deliverer.Pass(t.Context())
	require.NoError(t, err)
	for _, in := range []jobs.Submission{
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
	made, err := b.Submitter.Takes(t.Context(), b.Client, jobs.Submission{Model: "testcard", Prompt: "a fox", Draft: &jobs.Draft{Steps: 6}}, 4, nil)
	require.NoError(t, err)
	pool := b.pool(t, "h200", func(s *models.PoolSpec) {
		s.Zones, s.Settings = []string{"europe-west4-a", "europe-west4-b"}, []byte(`{"averylongsettingwithoutanyplacetobreakit": "averylongvaluewithoutanyplacetobreakit"}`)
	})
	b.decide(t, pool, 1, 3)
	require.NoError(t, b.Checkpoints.Pass(t.Context()))
	dead := b.dies(t, b.Worker(t, "host-with-a-rather-long-name-in-europe-west4-a"), models.FailUnauthorized, "the server refused the key", strings.Repeat("a line of a log\n", 50))
	return b, map[string]string{
		"dead letters": "/dead-letters", "cause": causePath("", dead.Fingerprint, false), "redrive all": causePath("/redrive", dead.Fingerprint, false), "discard all": causePath("/discard", dead.Fingerprint, false),
		"dead letter": "/dead-letters/" + string(dead.ID), "redrive": "/dead-letters/" + string(dead.ID) + "/redrive", "discard": "/dead-letters/" + string(dead.ID) + "/discard",
		"jobs": "/jobs", "no match": "/jobs?q=zzzz", "bad search": "/jobs?q=status:queued+foo:bar", "running job": "/jobs/" + string(running.ID),
		"takes": "/takes/" + string(made[0].Job.TakesID), "cancelled job": "/jobs/" + string(cancelled.ID), "workers": "/workers?all=1", "terminate": "/workers/" + string(worker.WorkerID) + "/terminate",
		"queues": "/queues", "pause": "/queues/pro/pause", "pools": "/pools", "pool": "/pools/" + string(pool.ID), "edit a pool": "/pools/" + string(pool.ID) + "/edit",
		"new pool": "/pools/new", "delete a pool": "/pools/" + string(pool.ID) + "/delete", "new job": "/jobs/new", "error": "/nowhere",
	}
}

func TestPages(t *testing.T) {
	t.Parallel()

	t.Run("FitAPhone", func(t *testing.T) {
		t.Parallel()

		b, pages := busy(t)
		pages["login"], pages["GraphiQL"] = "/login", "/graphql"
		ctx, _ := chromium.Open(t)
		phone := emulation.SetDeviceMetricsOverride(390, 844, 1, true)
		fits := func(name, path string) {
			var wide int
			require.NoError(t, chromedp.Run(ctx, phone, chromium.Visit(b.url+path), chromedp.Evaluate("document.documentElement.scrollWidth", &wide)))
			require.LessOrEqual(t, wide, 390, name)
		}
		fits("login", pages["login"])
		require.NoError(t, chromedp.Run(ctx, chromedp.SendKeys("#key", b.Secrets[models.RoleOperator]+"\r"), chromedp.WaitReady(".facets")))
		delete(pages, "login")
		for name, path := range pages {
			fits(name, path)
			if name == "GraphiQL" {
				continue
			}
			// A popover is in the page before and after; the script reads the boxes in between.
			var reachable bool
			require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(`(() => {
				const fits = (control) => {
					const box = control.getBoundingClientRect();
					return box.width > 0 && box.left >= 0 && box.right <= 390;
				};
				const above = [...document.querySelectorAll(".bar > a, .bar > button")].filter((control) => control.checkVisibility());
				const menu = document.querySelector("#menu");
				const wasClosed = !menu.checkVisibility();
				document.querySelector(".menu-button").click();
				return above.length >= 3 && above.every(fits) && wasClosed && [...menu.querySelectorAll("a, button")].every(fits);
			})()`, &reachable)))
			require.True(t, reachable, "%s: New job is on the screen, and the menu with Log out opens", name)
		}
	})

	t.Run("AreAccessible", func(t *testing.T) {
		t.Parallel()

		const file = "../../e2e/clients/node/node_modules/axe-core/axe.min.js"
		axe, err := os.ReadFile(file)
		require.NoError(t, err, "run: go tool task clients")
		b, pages := busy(t)
		ctx, _ := b.open(t, "/jobs")
		for scheme, width := range map[string]int64{"light": 1440, "dark": 390} {
			for name, path := range pages {
				var found []struct {
					ID    string
					Nodes []struct{ HTML, FailureSummary string }
				}
				require.NoError(t, chromedp.Run(ctx,
					emulation.SetDeviceMetricsOverride(width, 900, 1, width < 500),
					emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
					chromium.Visit(b.url+path),
					chromedp.Evaluate(string(axe), nil),
					chromedp.Evaluate("axe.run().then((found) => found.violations)", &found, promised),
				), name)
				told, err := json.MarshalIndent(found, "", "\t")
				require.NoError(t, err)
				require.Empty(t, found, fmt.Sprintf("%s, %d px, %s: %s", name, width, scheme, told))
			}
		}
	})
}
