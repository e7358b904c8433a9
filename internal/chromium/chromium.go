// Package chromium opens pages in a real browser, for tests.
package chromium

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// limit is how long a test may use one browser.
const limit = 5 * time.Minute

// Open opens a browser with the given options and closes it at the end of the test.
// complaints returns the errors that its pages have logged so far.
func Open(t testing.TB, more ...chromedp.ExecAllocatorOption) (ctx context.Context, complaints func() []string) {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("disable-dev-shm-usage", true))
	options = append(options, more...)
	browser, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	// chromedp is older than Chromium and logs events that it does not know.
	ctx, cancel = chromedp.NewContext(browser, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)

	var mu sync.Mutex
	var found []string
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError {
				found = append(found, e.Entry.Text+" "+e.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			found = append(found, e.ExceptionDetails.Error())
		}
	})
	require.NoError(t, chromedp.Run(ctx, log.Enable()))
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return found
	}
}
