package console

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

// cutOff lists what is cut off: what a table or another box of the page does not show without
// scrolling to the side, and actions outside their box. What shows a name of any length says it
// in full in its title.
const cutOff = `(() => {
	const found = [], name = (each) => each.outerHTML.replace(/\s+/g, " ").slice(0, 160);
	const own = "pre, pre *, code, textarea, input, select, svg, svg *, .sr, video, img, .u-over *, .workflow-graph, [title]";
	for (const box of document.querySelectorAll("main, main *")) {
		if (!box.checkVisibility() || box.matches(own) || box.clientWidth === 0) continue;
		if (getComputedStyle(box).overflowX !== "visible" && box.scrollWidth > box.clientWidth + 1)
			found.push("needs " + box.scrollWidth + " px of " + box.clientWidth + ": " + name(box));
	}
	for (const action of document.querySelectorAll("main :is(a, button, input, select, textarea)")) {
		if (!action.checkVisibility() || action.closest(".sr, pre, [hidden], .workflow-graph")) continue;
		const box = action.getBoundingClientRect(), place = (action.closest(".scroll, .card, dialog, section") ?? document.querySelector("main")).getBoundingClientRect();
		if (box.width > 0 && (box.right > place.right + 1 || box.left < place.left - 1)) found.push("is outside its place: " + name(action));
	}
	const menu = document.querySelector("#menu nav");
	if (innerWidth > 900 && menu && menu.scrollHeight > menu.clientHeight) found.push("the navigation needs " + menu.scrollHeight + " px of " + menu.clientHeight);
	return found;
})()`

// ranTogether lists texts that stand beside each other without a space, and spaces before a mark.
const ranTogether = `(() => {
	const found = [], word = /[\p{L}\p{N}.,:;)!?%…]$/u, begins = /^[\p{L}\p{N}(]/u, mark = /^[,.;:!?)](\s|$)/;
	const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
	let last = null;
	while (walker.nextNode()) {
		const node = walker.currentNode, within = node.parentElement, text = node.data;
		const range = document.createRange();
		range.selectNodeContents(node);
		const lines = [...range.getClientRects()].filter((line) => line.width > 0);
		if (lines.length === 0 || !within.checkVisibility()) continue;
		if (within.closest("pre, textarea, script, style, svg, option, mark, .log-text, .query, .sr, .uplot")) { last = null; continue; }
		const first = lines[0], end = lines.at(-1);
		if (last && last.within !== within) {
			const beside = Math.min(last.line.bottom, first.bottom) - Math.max(last.line.top, first.top) > 0.5 * Math.min(last.line.height, first.height);
			const gap = first.left - last.line.right;
			if (beside && gap > -2 && gap < 2 && word.test(last.text) && begins.test(text)) found.push(last.text.slice(-40) + "|" + text.slice(0, 40));
			if (beside && gap > -2 && gap < 8 && (/\s$/.test(last.text) || /^\s/.test(text)) && mark.test(text.trimStart())) found.push(last.text.slice(-40) + "|" + text.slice(0, 40));
		}
		if (/[\p{L}\p{N}] [,.;:!?)](\s|$)/u.test(text)) found.push(text.slice(0, 200));
		last = {text: text, line: end, within};
	}
	return found;
})()`

// No page is wider than its window, no table wider than its place, no action and no figure of a
// tile is cut off, and texts keep their spaces.
func TestLayout(t *testing.T) {
	t.Parallel()

	b, pages := everyPage(t)
	delete(pages, "GraphiQL") // another's page in ours
	delete(pages, "login")
	ctx, _ := chromium.Open(t)
	require.NoError(t, chromedp.Run(ctx, look(1440, "light"), chromium.Visit(b.url+"/login"),
		chromedp.SendKeys("#key", b.Secrets[access.RoleAdmin]+"\r"), chromedp.WaitReady("#menu"), chromium.Complete()))
	for name, path := range pages {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			require.NoError(t, chromedp.Run(ctx, chromium.Visit(b.url+path)))
			for _, width := range []int64{1440, 1280, 390} {
				var wide int64
				var cut, together []string
				require.NoError(t, chromedp.Run(ctx, look(width, "light")))
				for range 60 { // charts take their new size some frames after the window
					require.NoError(t, chromedp.Run(ctx,
						chromedp.Evaluate("document.documentElement.scrollWidth", &wide),
						chromedp.Evaluate(cutOff, &cut),
						chromedp.Evaluate(ranTogether, &together),
					))
					if wide <= width && len(cut)+len(together) == 0 {
						break
					}
					require.NoError(t, chromedp.Run(ctx, nextFrame))
				}
				require.LessOrEqual(t, wide, width, "the page is too wide at %d px", width)
				require.Empty(t, cut, "cut off at %d px", width)
				require.Empty(t, together, "texts that run together, or a space before a mark")
			}
		})
	}
}

// Rows are as short as they can be: the actions of a row stand beside each other, texts have the width
// of the page, and the tiles of the overview fill their rows.
func TestRowsAt1280(t *testing.T) {
	t.Parallel()

	b := operator(t)
	worker := b.Worker(t, "gpu-host-with-a-long-name-7")
	b.Exec(t, "UPDATE workers SET pool_id = ?, capacity_class = 'SPOT', gpu_type = 'nvidia-h100-80gb', region = 'europe-west4'",
		jobstest.AddPool(t, b.Stack, 0, 1).ID)
	stored, err := b.Reads.Fleet.WorkersByID(t.Context(), []models.WorkerID{worker.WorkerID})
	require.NoError(t, err)
	b.Fleet.Providers = map[string]fleet.Provider{stored[0].Provider: struct{ fleet.Preemptor }{}}
	b.dies(t, worker, models.FailUnauthorized, strings.Repeat("The server refused the request. ", 6), "")
	b.Submit(t)
	b.Lease(t, worker)
	film := b.SubmitWorkflow(t, b.Client, "film", "shots.s1", "shots.s2", "film")
	ctx, _ := b.open(t, "/me")
	evaluate := func(path, script string, result any) {
		t.Helper()
		require.NoError(t, chromedp.Run(ctx, look(1280, "light"), chromium.Visit(b.url+path), chromium.Complete(),
			chromedp.Evaluate(script, result)))
	}

	for path, actions := range map[string]int{"/workers": 4, address.Workflow(film.ID): 2} {
		var places [][]float64
		evaluate(path, `[...document.querySelectorAll("td.actions")].map((cell) => [...cell.children].map((each) => each.getBoundingClientRect().top))`, &places)
		most := 0
		for _, tops := range places {
			most = max(most, len(tops))
			for _, top := range tops {
				require.InDelta(t, tops[0], top, 2, "%s: actions below each other", path)
			}
		}
		require.Equal(t, actions, most, path)
	}
	var width float64
	evaluate("/workers/"+string(worker.WorkerID), `document.querySelector("td[data-label=Reason]").getBoundingClientRect().width`, &width)
	require.Greater(t, width, 400.0)
	var free []float64
	evaluate("/overview", `(() => {
		const list = document.querySelector(".tiles.is-rest"), rows = new Map();
		for (const each of list.children) {
			const box = each.getBoundingClientRect();
			rows.set(Math.round(box.top), Math.max(rows.get(Math.round(box.top)) ?? 0, box.right));
		}
		return [...rows.values()].map((right) => list.getBoundingClientRect().right - right);
	})()`, &free)
	require.Len(t, free, 2, "seven tiles in two rows")
	for _, rest := range free {
		require.InDelta(t, 0, rest, 1, "an empty place at the end of a row of tiles")
	}
}
