package auth_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestKeyCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		revoked := false
		cache := &auth.KeyCache{Authenticate: func(_ context.Context, secret string) (jobs.Principal, error) {
			asked[secret]++
			if revoked || secret == "unknown" {
				return jobs.Principal{}, apierror.ErrUnauthenticated
			}
			return jobs.Principal{KeyID: models.KeyID(secret)}, nil
		}}
		get := func(secret string) error {
			p, err := cache.Get(t.Context(), secret)
			if err == nil {
				require.Equal(t, models.KeyID(secret), p.KeyID)
			}
			return err
		}

		for range 10 {
			require.NoError(t, get("one"))
			require.NoError(t, get("two"))
			require.ErrorIs(t, get("unknown"), apierror.ErrUnauthenticated)
		}
		require.Equal(t, map[string]int{"one": 1, "two": 1, "unknown": 10}, asked, "a valid key is looked up once, another each time")

		revoked = true
		require.NoError(t, get("one"))
		time.Sleep(time.Second) // the bubble's clock
		require.ErrorIs(t, get("one"), apierror.ErrUnauthenticated)
		revoked = false
		require.NoError(t, get("one"), "what was refused is not remembered")
		require.Equal(t, 3, asked["one"])
	})
}
