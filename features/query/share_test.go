package query_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const (
	smallRead = 1000
	largeRead = 100_000
)

func TestReadShares(t *testing.T) {
	t.Parallel()

	client := func(account string) jobs.Principal {
		return jobs.Principal{Role: access.RoleClient, AccountID: models.AccountID(account)}
	}
	one, other := client("one"), client("other")
	// wait requests a read, and returns its result.
	type answer struct {
		read *query.Read
		err  error
	}
	wait := func(ctx context.Context, s *query.Shares, p jobs.Principal, price int) <-chan answer {
		answered := make(chan answer, 1)
		go func() {
			_, read, err := s.Admit(ctx, p, price)
			answered <- answer{read, err}
		}()
		synctest.Wait()
		return answered
	}
	admit := func(t *testing.T, s *query.Shares, p jobs.Principal, price int) *query.Read {
		t.Helper()
		begun := time.Now()
		_, read, err := s.Admit(t.Context(), p, price)
		require.NoError(t, err)
		require.Zero(t, time.Since(begun), "it must not wait")
		return read
	}
	in := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, test)
		})
	}

	in("LetFewReadsOfAnAccountRunAtOnce", func(t *testing.T) {
		s := query.NewShares(4, 4)
		first := admit(t, s, one, smallRead)
		admit(t, s, one, smallRead)

		third := wait(t.Context(), s, one, smallRead)

		require.Empty(t, third)
		admit(t, s, other, smallRead)
		admit(t, s, one, query.FreePrice)
		first.End()
		require.NoError(t, (<-third).err)
	})

	in("KeepLargeReadsApart", func(t *testing.T) {
		s := query.NewShares(4, 1)
		admit(t, s, one, largeRead)

		admit(t, s, one, smallRead)
		admit(t, s, other, smallRead)
	})

	in("LetAccountsTakeTurns", func(t *testing.T) {
		s := query.NewShares(1, 1)
		running := admit(t, s, one, smallRead)
		second, third := wait(t.Context(), s, one, smallRead), wait(t.Context(), s, one, smallRead)
		others := wait(t.Context(), s, other, smallRead)

		running.End()
		synctest.Wait()
		require.Len(t, second, 1)
		(<-second).read.End()
		synctest.Wait()

		require.Len(t, others, 1)
		require.Empty(t, third)
		(<-others).read.End()
		require.NoError(t, (<-third).err)
	})

	in("RefuseAReadThatWaitsTooLong", func(t *testing.T) {
		s := query.NewShares(4, 4)
		running := []*query.Read{admit(t, s, one, smallRead), admit(t, s, one, smallRead)}
		begun := time.Now()

		_, _, err := s.Admit(t.Context(), one, smallRead)

		var refused *apierror.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, apierror.CodeRateLimited, refused.Code)
		require.Equal(t, 1, refused.RetryAfterSeconds)
		require.Equal(t, 2*time.Second, time.Since(begun))
		for _, read := range running {
			read.End()
		}
		admit(t, s, one, smallRead).End()
	})

	in("RefuseAnAccountThatHasReadTooMuch", func(t *testing.T) {
		s := query.NewShares(4, 4)
		admit(t, s, one, largeRead).End()
		admit(t, s, one, largeRead).End()

		// 50,000 of 250,000 are left, and 50,000 are added each second.
		first, second := wait(t.Context(), s, one, largeRead), wait(t.Context(), s, one, largeRead)
		admit(t, s, other, largeRead).End()

		begun := time.Now()
		(<-first).read.End()
		require.WithinDuration(t, begun.Add(time.Second), time.Now(), 10*time.Millisecond)
		var refused *apierror.Error
		require.ErrorAs(t, (<-second).err, &refused)
		require.Equal(t, apierror.CodeRateLimited, refused.Code)
		time.Sleep(time.Duration(refused.RetryAfterSeconds) * time.Second) // the bubble's clock
		admit(t, s, one, largeRead).End()
	})

	in("GiveBackWhatAReadDidNotCost", func(t *testing.T) {
		s := query.NewShares(4, 4)
		for range 10 {
			admit(t, s, one, largeRead).EndAt(smallRead)
		}
	})

	in("GiveEachOperatorsKeyAShare", func(t *testing.T) {
		s := query.NewShares(8, 8)
		script := jobs.Principal{Role: access.RoleOperator, AccountID: "house", KeyID: "script"}
		console := script
		console.KeyID = "console"
		admit(t, s, script, largeRead)
		admit(t, s, script, largeRead)

		admit(t, s, console, largeRead)
	})

	in("LetAStreamWait", func(t *testing.T) {
		s := query.NewShares(1, 1)
		running := admit(t, s, one, smallRead)
		time.AfterFunc(time.Minute, running.End)
		begun := time.Now()

		_, _, err := s.Await(t.Context(), one, smallRead)

		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(begun))
	})

	in("ForgetAReadWhoseCallerLeft", func(t *testing.T) {
		s := query.NewShares(1, 1)
		running := admit(t, s, one, smallRead)
		ctx, leave := context.WithCancel(t.Context())
		left, stays := wait(ctx, s, one, smallRead), wait(t.Context(), s, other, smallRead)

		leave()

		require.ErrorIs(t, (<-left).err, context.Canceled)
		running.End()
		require.NoError(t, (<-stays).err)
	})
}
