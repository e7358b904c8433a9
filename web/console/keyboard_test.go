package console

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

func TestKeyboard(t *testing.T) {
	t.Parallel()

	t.Run("SelectsRowsAndOpensThem", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		b.Submit(t)
		second := b.Submit(t)
		b.Submit(t)
		ctx, complaints := b.open(t, "/jobs")

		var at string
		require.NoError(t, chromedp.Run(ctx,
			chromedp.KeyEvent("jjjk"),
			chromium.Until(`document.activeElement.closest("tr")?.id === "`+string(second.ID)+`"`),
			chromedp.KeyEvent(kb.Enter),
			chromedp.WaitReady("#percent"),
			chromedp.Location(&at),
		))
		require.Equal(t, b.url+"/jobs/"+string(second.ID), at)
		require.Empty(t, complaints())
	})

	t.Run("ShowsItsKeysAndFindsPages", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		ctx, complaints := b.open(t, "/jobs")

		var focused string
		require.NoError(t, chromedp.Run(ctx,
			chromedp.KeyEvent("/"),
			chromedp.Evaluate(`document.activeElement.name`, &focused),
			chromedp.KeyEvent(kb.Escape),
			chromedp.KeyEvent("?"),
			chromedp.WaitVisible("dialog#keys #keyboard"),
			chromedp.KeyEvent(kb.Escape),
			chromium.Until(`!document.querySelector("dialog")`),
			chromedp.KeyEvent("k", chromedp.KeyModifiers(input.ModifierCtrl)),
			chromedp.WaitVisible("dialog#palette input"),
			chromedp.SendKeys("dialog#palette input", "workers\r"),
			chromedp.WaitReady(`nav a[aria-current][href="/workers"]`),
			chromium.Complete(),
			chromedp.KeyEvent("gq"),
			chromedp.WaitReady(`nav a[aria-current][href="/queues"]`),
		))
		require.Equal(t, "q", focused)
		require.Empty(t, complaints())
	})

	t.Run("OpensAJobByItsID", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		job := b.Submit(t)
		ctx, _ := b.open(t, "/queues")

		var at string
		require.NoError(t, chromedp.Run(ctx,
			chromedp.KeyEvent("k", chromedp.KeyModifiers(input.ModifierCtrl)),
			chromedp.WaitVisible("dialog#palette input"),
			chromedp.SendKeys("dialog#palette input", string(job.ID)+"\r"),
			chromedp.WaitReady("#percent"),
			chromedp.Location(&at),
		))
		require.Equal(t, b.url+"/jobs/"+string(job.ID), at)
	})

	t.Run("RemembersTheTheme", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		ctx, _ := b.open(t, "/models")
		scheme := func() (got string) {
			require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(`getComputedStyle(document.documentElement).colorScheme`, &got)))
			return got
		}

		require.Equal(t, "light dark", scheme())
		require.NoError(t, chromedp.Run(ctx, chromedp.KeyEvent("t")))
		require.Equal(t, "dark", scheme())
		require.NoError(t, chromedp.Run(ctx, chromium.Visit(b.url+"/queues")))
		require.Equal(t, "dark", scheme(), "the server sends the page in it")
		require.NoError(t, chromedp.Run(ctx, chromedp.KeyEvent("tt")))
		require.Equal(t, "light dark", scheme())
	})

	t.Run("ShowsTimesInTheZoneOfThePerson", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		job := b.Submit(t)
		ctx, _ := b.open(t, "/queues")

		var local, utc string
		const clock = `document.querySelector("time.clock").textContent`
		require.NoError(t, chromedp.Run(ctx,
			emulation.SetTimezoneOverride("Asia/Kolkata"),
			chromium.Visit(b.url+"/jobs/"+string(job.ID)),
			chromium.Until(`document.querySelector("time.clock").title.includes("GMT+5:30")`),
			chromedp.Evaluate(clock, &local),
			chromedp.KeyEvent("z"),
			chromedp.Evaluate(clock, &utc),
		))
		at := b.Reload(t, job.ID).CreatedAt
		require.Equal(t, at.UTC().Format("15:04"), utc[:5])
		require.NotEqual(t, local, utc)
		require.Equal(t, at.UTC().Add(5*3600e9+1800e9).Format("15:04"), local[:5])
	})

	t.Run("NamesTheZoneOfWhatIsDueToTheSecond", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		s := b.schedule(t, "news")
		b.Exec(t, "UPDATE schedules SET next_fire_at = '2099-01-31T12:00:15Z', end_at = '2099-02-28T12:00:00Z'")
		page := b.page(t, "/schedules")
		require.Contains(t, page, ">31 Jan 2099 12:00:15 UTC</time>")
		ctx, _ := b.open(t, "/queues")

		var local, utc, end string
		const due = `document.querySelector("time[data-at=full]").textContent`
		require.NoError(t, chromedp.Run(ctx,
			emulation.SetTimezoneOverride("Asia/Kolkata"),
			chromium.Visit(b.url+"/schedules"),
			chromium.Until(due+`.includes("GMT+5:30")`),
			chromedp.Evaluate(due, &local),
			chromedp.KeyEvent("z"),
			chromedp.Evaluate(due, &utc),
			chromedp.KeyEvent("z"),
			chromium.Visit(b.url+address.Schedule(s.ID)),
			chromium.Until(`document.querySelector(".facts time[data-at=full]").textContent.includes("GMT+5:30")`),
			chromedp.Evaluate(`document.querySelector(".facts time[data-at=full]").textContent`, &end),
		))
		require.Equal(t, []string{"31 Jan 2099 17:30:15 GMT+5:30", "31 Jan 2099 12:00:15 UTC", "28 Feb 2099 17:30 GMT+5:30"},
			[]string{local, utc, end})
	})
}

func TestPause(t *testing.T) {
	t.Parallel()

	t.Run("HoldsUpdatesUntilItEnds", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		first := b.Submit(t)
		ctx, complaints := b.open(t, "/jobs")
		require.NoError(t, chromedp.Run(ctx, chromedp.WaitReady("#"+string(first.ID)),
			chromium.Until(`document.querySelector("#pulse").innerText === "Live"`)))

		var said string
		require.NoError(t, chromedp.Run(ctx,
			chromedp.KeyEvent("."),
			chromium.Until(`document.querySelector("#pulse").innerText === "Paused"`),
		))
		second := b.Submit(t)
		require.NoError(t, chromedp.Run(ctx,
			chromium.Until(`document.querySelector("#stale .age").textContent.includes("Newer data are waiting.")`),
			chromedp.Text("#stale strong", &said),
		))
		require.Equal(t, "Updates paused.", said)
		var there bool
		require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(`document.getElementById("`+string(second.ID)+`") !== null`, &there)))
		require.False(t, there, "the page stands still")
		third := b.Submit(t)

		require.NoError(t, chromedp.Run(ctx,
			chromedp.Click("#stale button"),
			chromedp.WaitReady("#"+string(second.ID)),
			chromedp.WaitReady("#"+string(third.ID)),
			chromium.Until(hiddenStale),
		))
		require.Empty(t, complaints())
	})
}
