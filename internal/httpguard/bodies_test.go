package httpguard_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/stretchr/testify/require"
)

func TestLargeBodiesWaitForAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bodies := httpguard.NewLargeBodies(3, 2, time.Second)
		enter := func(account string) (func(), bool) { return bodies.Enter(t.Context(), account) }
		leave, ok := enter("greedy")
		require.True(t, ok)
		_, ok = enter("greedy")
		require.True(t, ok)
		_, ok = enter("greedy")
		require.False(t, ok, "the account has its share")
		leaveOther, ok := enter("other")
		require.True(t, ok, "the last place")
		_, ok = enter("third")
		require.False(t, ok, "all places are taken")

		go leave()
		leave, ok = enter("greedy")
		require.True(t, ok, "the account's own place is free again")
		go leaveOther()
		_, ok = enter("third")
		require.True(t, ok, "another account's place is free")
		go leave()
		_, ok = enter("other")
		require.True(t, ok, "a wait without a place keeps no share")
	})
}
