package httpguard_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/reelay/reelay/internal/httpguard"
)

func TestLargeBodiesWaitForAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bodies := httpguard.NewLargeBodies()
		leave, ok := bodies.Enter(t.Context())
		require.True(t, ok)
		_, ok = bodies.Enter(t.Context())
		require.True(t, ok)
		_, ok = bodies.Enter(t.Context())
		require.False(t, ok)

		go leave()
		_, ok = bodies.Enter(t.Context())

		require.True(t, ok)
	})
}
