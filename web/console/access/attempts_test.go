package access

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLogIn_LooksUpFewKeysAtOnce(t *testing.T) {
	t.Parallel()

	a := newAttempts()
	var leave func()
	for range maxLogins {
		var err error
		leave, err = a.enter(t.Context())
		require.NoError(t, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := a.enter(ended)
	require.ErrorIs(t, err, context.Canceled)
	leave()
	_, err = a.enter(t.Context())
	require.NoError(t, err)
}
