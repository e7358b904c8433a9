package shell

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPolicy(t *testing.T) {
	t.Parallel()

	t.Run("AllowsVideosOfTheObjectStore", func(t *testing.T) {
		t.Parallel()

		require.Contains(t, contentPolicy("https://storage.googleapis.com"), "; media-src 'self' https://storage.googleapis.com; ")
		require.Contains(t, contentPolicy(""), "; media-src 'self'; ")
	})
}
