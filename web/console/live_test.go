package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

const (
	shownStale  = `!document.querySelector("#stale").hidden`
	hiddenStale = `document.querySelector("#stale").hidden`
)

func TestLivePage(t *testing.T) {
	t.Parallel()

	t.Run("SaysThatItsDataAreOldWhileTheServerIsAway", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		address, err := url.Parse(b.url)
		require.NoError(t, err)
		server := faultproxy.New(t, "tcp", address.Host)
		b.url = "http://" + server.Addr()
		ctx, _ := b.open(t, "/jobs")
		b.Submit(t)
		require.NoError(t, chromedp.Run(ctx, chromedp.WaitReady("#live .main-link")), "the stream is open")

		server.Cut()
		var text string
		require.NoError(t, chromedp.Run(ctx,
			chromium.Until(shownStale),
			chromium.Poll(`(() => {
				const text = document.querySelector("#stale").innerText;
				return / s ago/.test(text) && text;
			})()`, &text),
		))
		require.Regexp(t, `^Live updates interrupted\. Reconnecting… Last update \d+ s ago\.`, text, "it says so at once")

		server.Heal()
		require.NoError(t, chromedp.Run(ctx, chromium.Until(hiddenStale)))
	})

	t.Run("SaysThatItsDataAreOldOnceItHearsNothing", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		console := New(configure(b.Stack))
		opened := make(chan struct{}, 2)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/jobs/live" {
				console.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			opened <- struct{}{}
			<-r.Context().Done()
		}))
		t.Cleanup(server.Close)
		t.Cleanup(server.CloseClientConnections)
		b.url = server.URL
		ctx, _ := b.open(t, "/jobs")

		<-opened
		require.NoError(t, chromedp.Run(ctx, chromium.Until(shownStale)))
		<-opened // it tries another connection
	})

	for name, end := range map[string]func(t *testing.T, b *browser){
		"SaysThatTheSessionEndedWhenItsKeyIsRevoked": func(t *testing.T, b *browser) {
			p, err := b.Keys.Authenticate(t.Context(), b.Secrets[access.RoleOperator])
			require.NoError(t, err)
			require.NoError(t, b.Keys.Revoke(t.Context(), b.Admin, p.KeyID))
		},
		"SaysThatTheSessionEndedWhenItIsLoggedOut": func(t *testing.T, b *browser) {
			b.Exec(t, "DELETE FROM sessions")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := operator(t)
			job := b.Submit(t)
			path := "/jobs/" + string(job.ID)
			ctx, _ := b.open(t, path)
			require.NoError(t, chromedp.Run(ctx, chromedp.WaitReady("#live #percent")))

			end(t, b)

			var text, link, location string
			require.NoError(t, chromedp.Run(ctx,
				chromium.Until(shownStale),
				chromedp.WaitVisible("#stale a"),
				chromedp.Text("#stale", &text),
				chromedp.AttributeValue("#stale a", "href", &link, nil),
				chromedp.Click(`a[href$="/cancel"]`),
				chromedp.WaitVisible("#key"),
				chromedp.Location(&location),
			))
			require.Regexp(t, `^Your session ended\. Last update `, text)
			require.Equal(t, "/login?next="+url.QueryEscape(path), link)
			require.Equal(t, b.url+link+url.QueryEscape("/cancel"), location, "an action leads to the login, and from there back to its page")
			require.Equal(t, models.JobQueued, b.Reload(t, job.ID).Status)
		})
	}

	t.Run("KeepsOpenWhatAPersonOpened", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		pool := b.pool(t, "l4", nil)
		b.decide(t, pool, 0, 1)
		ctx, complaints := b.open(t, string(address.Pool(pool.ID)))
		// By script, since an update of the page can move what a mouse aims at.
		require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(`document.querySelector("details summary").click()`, nil)))

		b.decide(t, pool, 1, 2)

		var open string
		require.NoError(t, chromedp.Run(ctx,
			chromium.Until(`document.querySelectorAll("details").length === 2`),
			chromedp.Evaluate(`[...document.querySelectorAll("details")].map((each) => each.open).join()`, &open),
		))
		require.Equal(t, "false,true", open, "the newer decision is above")
		require.Empty(t, complaints())
	})

	t.Run("LearnsFromTheStatusThatTheSessionEnded", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		ended := make(chan struct{})
		console := New(configure(b.Stack))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-ended:
				r.Header.Del("Cookie")
			default:
			}
			console.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		b.url = server.URL
		ctx, _ := b.open(t, "/queues")
		b.Submit(t)
		require.NoError(t, chromedp.Run(ctx, chromedp.WaitReady("#queue-ENTERPRISE-testcard")), "the stream is open")

		close(ended)
		server.CloseClientConnections()

		require.NoError(t, chromedp.Run(ctx, chromium.Until(`document.querySelector("#stale strong").textContent === "Your session ended."`)))
	})

	t.Run("KeepsWhatWasTypedOverALogin", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		ctx, _ := b.open(t, "/jobs/new")
		b.Exec(t, "DELETE FROM sessions")

		var prompt, model, steps string
		require.NoError(t, chromedp.Run(ctx,
			chromedp.SendKeys("#prompt", "a lighthouse"),
			chromedp.Evaluate(`{ const select = document.querySelector("#model"); select.value = "drill"; select.dispatchEvent(new Event("change")); }`, nil),
			chromedp.WaitVisible("#key"),
		))
		require.NoError(t, chromedp.Run(ctx,
			chromedp.SendKeys("#key", b.Secrets[access.RoleOperator]+"\r"),
			chromedp.WaitReady(`#model option[value="drill"][selected]`),
			chromedp.SendKeys("#prompt", " in the fog"),
			chromedp.SetValue(`[name="params.steps"]`, "7"),
		))
		b.Exec(t, "DELETE FROM sessions")
		require.NoError(t, chromedp.Run(ctx,
			chromedp.Click(`form.form button.primary`),
			chromedp.WaitVisible("#key"),
			chromedp.SendKeys("#key", b.Secrets[access.RoleOperator]+"\r"),
			chromedp.WaitReady(`#model option[value="drill"][selected]`),
			chromedp.Value("#prompt", &prompt),
			chromedp.Value("#model", &model),
			chromedp.Value(`[name="params.steps"]`, &steps),
		))
		require.Equal(t, []string{"a lighthouse in the fog", "drill", "7"}, []string{prompt, model, steps})
	})

	t.Run("CopiesAnIDByTheKeyboardOverPlainHTTPToo", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		ctx, _ := b.open(t, "/jobs/"+string(job.ID))

		var copied, text string
		require.NoError(t, chromedp.Run(ctx,
			chromedp.Evaluate(`Object.defineProperty(navigator, "clipboard", {value: undefined});
				document.addEventListener("copy", () => { window.copied = document.activeElement.value; });
				document.querySelector(".copy").focus()`, nil),
			chromedp.KeyEvent(kb.Enter),
			chromium.Poll("window.copied", &copied),
			chromedp.Text("main", &text),
		))
		require.Equal(t, string(job.ID), copied)
		require.True(t, strings.Contains(text, string(job.ID)), "the page has the whole id")
	})
}
