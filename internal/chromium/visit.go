package chromium

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Visit opens an address, which may lead to another one, and waits until the document
// there is complete. It fails if the browser gets no document.
//
// chromedp.Navigate returns at the first load event that follows, which can be that of a
// document before this one, whose form was just sent.
func Visit(address string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		listening, cancel := context.WithCancel(ctx)
		defer cancel()
		complete := make(chan cdp.LoaderID)
		chromedp.ListenTarget(listening, func(event any) {
			if e, ok := event.(*page.EventLifecycleEvent); ok && e.Name == "load" {
				go func() {
					select {
					case complete <- e.LoaderID:
					case <-listening.Done():
					}
				}()
			}
		})

		_, loader, problem, _, err := page.Navigate(address).Do(ctx)
		if problem != "" {
			err = errors.New(problem)
		}
		if err != nil {
			return fmt.Errorf("visit %s: %w", address, err)
		}
		for {
			select {
			case loaded := <-complete:
				if loaded == loader {
					return nil
				}
			case <-ctx.Done():
				return fmt.Errorf("visit %s: %w", address, ctx.Err())
			}
		}
	})
}

// Until waits until an expression is true in the page, for as long as the browser may be
// used.
func Until(expression string) chromedp.Action { return Poll(expression, nil) }

// pollPause is the time between two evaluations. The default of chromedp, each frame, draws
// pages without end.
const pollPause = 50 * time.Millisecond

// Poll waits as Until does and returns the value of the expression in result.
func Poll(expression string, result any) chromedp.Action {
	return chromedp.Poll(expression, result, chromedp.WithPollingInterval(pollPause), chromedp.WithPollingTimeout(0))
}

// Complete waits until the document and its scripts are loaded, as they may not be yet when
// an element of it is there.
func Complete() chromedp.Action { return Until(`document.readyState === "complete"`) }
