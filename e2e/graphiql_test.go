package e2e

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/stretchr/testify/require"
)

const (
	runQuery = ".graphiql-execute-button"
	// knowsSchema is true if the editor has loaded the schema for completion.
	knowsSchema = `!!document.querySelector(".graphiql-query-editor .CodeMirror")?.CodeMirror.options.lint?.schema`
	// hideSchema answers introspection like an API where it is disabled.
	hideSchema = `{
		window.hidden = 0;
		const fetch = window.fetch;
		window.fetch = (url, init) => {
			if (!init.body.includes("__schema")) return fetch(url, init);
			window.hidden++;
			return Promise.resolve(Response.json({errors: [{message: "introspection disabled"}], data: null}));
		};
	}`
)

func TestGraphiQL(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../web/console/static/vendor/graphiql.js"); err != nil {
		t.Skip("it is not there: `go tool task assets` fetches it")
	}

	t.Run("AsksWithTheKeyThatIsEntered", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		ctx, complaints := chromium.Open(t)
		id := submit(t, s.client(t), "written by hand", 1, 1)

		var address, stored string
		require.NoError(t, chromedp.Run(ctx,
			chromium.Visit(s.keys.Endpoint+"/graphql"),
			chromedp.WaitVisible(runQuery),
			write("{ viewer { role } }"),
			chromedp.Click(runQuery),
			become("Enter a key above."),
		), "open it")
		require.NoError(t, chromedp.Run(ctx,
			chromedp.SendKeys("#key", s.keys.ClientKey+kb.Enter),
			chromium.Until(knowsSchema),
			write("{ viewer { role } }"),
			chromedp.Click(runQuery),
			become(`"role": "CLIENT"`),
		), "ask")
		require.NoError(t, chromedp.Run(ctx,
			write(`subscription { jobEvents(jobId: "`+id+`") { seq type } }`),
			chromedp.Click(runQuery),
			become(`"COMPLETED"`),
			chromedp.Location(&address),
			chromedp.Evaluate(`JSON.stringify(localStorage)`, &stored),
		), "follow")

		require.Equal(t, s.keys.Endpoint+"/graphql", address)
		require.NotContains(t, stored, s.keys.ClientKey, "the key goes with the tab")
		require.Empty(t, complaints(), "the browser must have nothing to complain of")
	})

	t.Run("LoadsWhereTheSchemaIsHidden", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		ctx, complaints := chromium.Open(t)

		require.NoError(t, chromedp.Run(ctx,
			chromedp.ActionFunc(func(ctx context.Context) error {
				_, err := page.AddScriptToEvaluateOnNewDocument(hideSchema).Do(ctx)
				return err
			}),
			chromium.Visit(s.keys.Endpoint+"/graphql"),
			chromedp.WaitVisible(runQuery),
			chromedp.SendKeys("#key", s.keys.ClientKey+kb.Enter),
			chromium.Until("window.hidden > 0"),
			write("{ viewer { role } }"),
			chromedp.Click(runQuery),
			become(`"role": "CLIENT"`),
		))

		require.Empty(t, complaints(), "the browser must have nothing to complain of")
	})
}

// write writes a query into GraphiQL's editor, once it is there.
func write(query string) chromedp.Action {
	return chromium.Until(`(() => {
		const editor = document.querySelector(".graphiql-query-editor .CodeMirror")?.CodeMirror;
		editor?.setValue(` + strconv.Quote(query) + `);
		return !!editor;
	})()`)
}

// become waits until GraphiQL shows a text as the answer.
func become(text string) chromedp.Action {
	return chromium.Until(`document.querySelector(".graphiql-response .result-window")?.textContent.includes(` + strconv.Quote(text) + `)`)
}
