// Package chromium opens pages in a real browser, for tests.
package chromium

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// limit is how long a test may use its page. On a busy machine, a test of all pages takes minutes.
const limit = 4 * testrun.WaitLimit

// closeGrace is how long a browser may take to close the tabs of a person. What is left ends with
// the browser.
const closeGrace = 10 * time.Second

// options are the options of a browser.
var options = append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("disable-dev-shm-usage", true))

// shared is the browser of all tests of a package that need no options of their own.
var shared = sync.OnceValues(func() (context.Context, error) {
	browser, cancel := start(context.Background(), options)
	testrun.AtEnd(cancel)
	return browser, chromedp.Run(browser)
})

// start returns a browser that starts with the first action.
func start(ctx context.Context, options []chromedp.ExecAllocatorOption) (context.Context, context.CancelFunc) {
	allocator, end := chromedp.NewExecAllocator(ctx, options...)
	// chromedp is older than Chromium and logs events that it does not know.
	browser, _ := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	return browser, end
}

// tab opens a tab of the shared browser, as the first of a new person.
func tab(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	browser, err := shared()
	require.NoError(t, err)
	calls := cdp.WithExecutor(browser, chromedp.FromContext(browser).Browser)
	person, err := target.CreateBrowserContext().Do(calls)
	require.NoError(t, err)
	leave := sync.OnceFunc(func() {
		calls, cancel := context.WithTimeout(calls, closeGrace)
		defer cancel()
		_ = target.DisposeBrowserContext(person).Do(calls)
	})
	// This comes before all of the test's cleanups: a server that the test started ends only when
	// no page holds a stream of it.
	context.AfterFunc(t.Context(), leave)
	t.Cleanup(leave)
	// chromedp opens no window, and without one Chromium opens no tab of a new person.
	id, err := target.CreateTarget("about:blank").WithBrowserContextID(person).WithNewWindow(true).Do(calls)
	require.NoError(t, err)
	return chromedp.NewContext(browser, chromedp.WithTargetID(id))
}

// Open opens a page and closes it at the end of the test. The pages of a package's tests share a
// browser, but neither cookies nor storage. A test that gives options has a browser of its own.
// complaints returns the errors that the page has logged so far.
func Open(t testing.TB, more ...chromedp.ExecAllocatorOption) (ctx context.Context, complaints func() []string) {
	t.Helper()
	var cancel context.CancelFunc
	if len(more) > 0 {
		ctx, cancel = start(t.Context(), append(options[:len(options):len(options)], more...))
	} else {
		ctx, cancel = tab(t)
	}
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
	require.NoError(t, chromedp.Run(ctx, log.Enable(), emulation.SetFocusEmulationEnabled(true)))
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return found
	}
}
