package auth_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/stretchr/testify/require"
)

func TestKeyWatch(t *testing.T) {
	t.Parallel()

	t.Run("LimitsTheConnectionsOfAKey", func(t *testing.T) {
		t.Parallel()
		watch := &auth.KeyWatch{Authenticate: func(context.Context, string) (jobs.Principal, error) { return jobs.Principal{}, nil }, Most: 2}
		first, err := watch.Open("a", nil)
		require.NoError(t, err)
		_, end, err := watch.While(t.Context(), "a")
		require.NoError(t, err)
		defer end(nil)
		_, err = watch.Open("a", nil)
		jobstest.RequireCode(t, err, "RATE_LIMITED")
		other, err := watch.Open("b", nil)
		require.NoError(t, err, "another key has its own")
		defer other()

		first()
		first() // a second call does nothing

		again, err := watch.Open("a", nil)
		require.NoError(t, err)
		defer again()
		_, err = watch.Open("a", nil)
		jobstest.RequireCode(t, err, "RATE_LIMITED")
	})

	t.Run("EndsAllConnectionsOnceTheKeyIsInvalid", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			answer := error(nil)
			asked := 0
			watch := &auth.KeyWatch{Authenticate: func(context.Context, string) (jobs.Principal, error) {
				mu.Lock()
				defer mu.Unlock()
				asked++
				return jobs.Principal{}, answer
			}}
			say := func(err error) {
				mu.Lock()
				defer mu.Unlock()
				answer = err
			}
			ctx, end, err := watch.While(t.Context(), "a")
			require.NoError(t, err)
			defer end(nil)
			ended := make(chan struct{})
			_, err = watch.Open("a", func() { close(ended) })
			require.NoError(t, err)

			time.Sleep(10 * time.Second) // the bubble's clock
			mu.Lock()
			require.Equal(t, 3, asked, "once for all, every 3 s")
			mu.Unlock()
			say(context.DeadlineExceeded) // an outage says nothing about the key
			time.Sleep(10 * time.Second)  // the bubble's clock
			require.NoError(t, ctx.Err())
			say(apierror.ErrUnauthenticated)

			<-ended
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), apierror.ErrUnauthenticated)
		})
	})
}
