package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/stretchr/testify/require"
)

// promised makes the evaluation wait for the promise that the page returns.
func promised(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

const (
	// watchPercents records each percentage that the page shows. A reload of the page loses
	// them.
	watchPercents = `window.percents = [];
		new MutationObserver(() => {
			const now = document.querySelector("#percent").textContent;
			if (now !== percents.at(-1)) percents.push(now);
		}).observe(document.querySelector("#live"), {subtree: true, childList: true, characterData: true})`
	playVideo = `(async () => {
		const video = document.querySelector("#video");
		await video.play();
		return new Promise((done) => {
			video.addEventListener("timeupdate", () => { if (video.currentTime > 0.5) done(video.currentTime); });
		});
	})()`
	showsPoster = `new Promise((done) => {
		const poster = new Image();
		poster.onload = () => done(true);
		poster.onerror = () => done(false);
		poster.src = document.querySelector("#video").poster;
	})`
)

func TestConsole(t *testing.T) {
	t.Parallel()

	t.Run("ShowsAJobFromItsPromptToItsVideo", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		ctx, complaints := chromium.Open(t)
		const prompt = `a lighthouse <script>document.title = "broken"</script>`

		require.NoError(t, chromedp.Run(ctx,
			chromium.Visit(s.keys.Endpoint+"/jobs/new"),
			chromedp.SendKeys("#key", s.keys.OperatorKey+"\r"),
			chromedp.WaitVisible("#prompt"),
			chromedp.SendKeys("#prompt", prompt),
			chromedp.SetValue(`[name="params.durationSeconds"]`, "2"),
			chromedp.SetValue(`[name="params.pace"]`, "5"),
			chromedp.Click(`form[action="/jobs/new"] button.primary`),
			chromedp.WaitVisible("#percent"),
		), "log in and submit")

		var percents []string
		var title, heading string
		require.NoError(t, chromedp.Run(ctx,
			chromedp.Evaluate(watchPercents, nil),
			chromedp.WaitVisible("#video"),
			chromedp.Evaluate("window.percents", &percents),
			chromedp.Title(&title),
			chromedp.Text("h1", &heading),
		), "watch it move: did `go tool task assets` bundle htmx?")
		require.Greater(t, len(percents), 3, "the page must move by itself")
		require.Equal(t, "100 %", percents[len(percents)-1])
		require.NotEqual(t, "broken", title)
		require.Contains(t, heading, "<script>")

		var first, events string
		var played float64
		require.NoError(t, chromedp.Run(ctx,
			chromedp.Evaluate(playVideo, &played, promised),
			chromedp.Text("#event-rows tr:first-child", &first),
			chromedp.Text("#event-rows", &events),
		), "play the video")
		require.Greater(t, played, 0.5)
		require.Contains(t, first, "completed")
		require.Equal(t, 1, strings.Count(events, "queued"), "an event is shown once")
		require.Empty(t, complaints(), "the browser must have nothing to complain of")
	})

	for _, host := range []string{"localhost", "reelay.test"} {
		t.Run("PlaysAVideoAt/"+host, func(t *testing.T) {
			t.Parallel()

			s := common(t)
			ctx, complaints := chromium.Open(t, chromedp.Flag("host-resolver-rules", "MAP reelay.test 127.0.0.1"))
			id := submit(t, s.client(t), "seen under another name", 2, 0)
			until(t, s.client(t), id, completed)
			address := strings.Replace(s.keys.Endpoint, "127.0.0.1", host, 1)
			if host == "localhost" { // which Go can look up
				c, err := client.New(address, s.keys.ClientKey)
				require.NoError(t, err)
				job, err := c.Job(t.Context(), id)
				require.NoError(t, err)
				if !onS3() { // whose links lead to the bucket
					require.Contains(t, job.Result.Url, address+"/objects/")
				}
				require.NotEmpty(t, frames(t, c, job))
			}

			var played float64
			var poster bool
			require.NoError(t, chromedp.Run(ctx,
				chromium.Visit(address+"/jobs/"+id),
				chromedp.SendKeys("#key", s.keys.OperatorKey+"\r"),
				chromedp.WaitVisible("#video"),
				chromedp.Evaluate(playVideo, &played, promised),
				chromedp.Evaluate(showsPoster, &poster, promised),
			))

			require.Greater(t, played, 0.5)
			require.True(t, poster)
			require.Empty(t, complaints())
		})
	}

	t.Run("IsSteeredByKeys", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		ctx, _ := chromium.Open(t)

		var focused, heading string
		require.NoError(t, chromedp.Run(ctx,
			chromium.Visit(s.keys.Endpoint+"/jobs"),
			chromedp.SendKeys("#key", s.keys.OperatorKey+"\r"),
			chromedp.WaitVisible("[data-search]"),
			chromium.Complete(), // and so hears keys
			chromedp.KeyEvent("/"),
			chromedp.Evaluate("document.activeElement.name", &focused),
			chromedp.Evaluate("document.activeElement.blur()", nil),
			chromedp.KeyEvent("gw"),
			chromedp.WaitReady(`nav a[aria-current][href="/workers"]`),
			chromedp.Text("h1", &heading),
		))

		require.Equal(t, "q", focused)
		require.Equal(t, "Workers", heading)
	})
}
