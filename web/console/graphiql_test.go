package console

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/web/console/apidocs"
	"github.com/stretchr/testify/require"
)

func TestGraphiQL(t *testing.T) {
	t.Parallel()

	t.Run("LoadsNothingFromElsewhereAndRunsNothingInline", func(t *testing.T) {
		t.Parallel()

		got := stranger(t).get(t, "/graphql")

		require.Equal(t, http.StatusOK, got.Status)
		require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
		policy := got.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src data:; ")
		require.NotContains(t, policy, "unsafe")
		require.NotContains(t, policy, "://")
		require.NotRegexp(t, `(?i)\sstyle=|\son[a-z]+=|<script>|<style|src="http`, got.Body)
	})

	t.Run("NamesItsEditors", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)
		ctx, _ := chromium.Open(t)

		var names []string
		require.NoError(t, chromedp.Run(ctx,
			chromium.Visit(b.url+"/graphql"),
			chromium.Until(`document.querySelectorAll("#graphiql textarea").length > 2`),
			chromium.Until(`[...document.querySelectorAll("#graphiql textarea")].every((editor) => editor.ariaLabel)`),
			chromedp.Evaluate(`[...document.querySelectorAll("#graphiql textarea")].map((editor) => editor.ariaLabel)`, &names),
			chromedp.WaitReady("h1"),
		), "did `go tool task assets` bundle GraphiQL?")
		require.Subset(t, names, []string{"Query", "Variables", "Response"})
	})

	t.Run("IsForBrowsersThatSendNoQuery", func(t *testing.T) {
		t.Parallel()

		const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
		for _, c := range []struct {
			method, target, accept, upgrade string
			asks                            bool
		}{
			{"GET", "/graphql", browser, "", true},
			{"HEAD", "/graphql", browser, "", true},
			{"GET", "/graphql?from=docs", browser, "", true},
			{"GET", "/graphql?query={viewer{role}}", browser, "", false},
			{"GET", "/graphql?extensions={}", browser, "", false},
			{"GET", "/graphql", "*/*", "", false},
			{"GET", "/graphql", "application/json", "", false},
			{"GET", "/graphql", browser, "websocket", false},
			{"POST", "/graphql", browser, "", false},
		} {
			r := httptest.NewRequest(c.method, c.target, nil)
			r.Header.Set("Accept", c.accept)
			if c.upgrade != "" {
				r.Header.Set("Upgrade", c.upgrade)
			}
			require.Equal(t, c.asks, apidocs.AsksForGraphiQL(r), c)
		}
	})
}
