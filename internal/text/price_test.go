package text_test

import (
	"testing"

	"github.com/reelay/reelay/internal/text"
	"github.com/stretchr/testify/require"
)

func TestProviderPrice(t *testing.T) {
	t.Parallel()
	require.Equal(t, "$0.4 a second", text.ProviderPrice("", nil, "0.4", "0"))
	require.Equal(t, "4k: $0.4 a second and $0.01 a video", text.ProviderPrice("4k", nil, "0.4", "0.01"))
	require.Equal(t, "720p with sound: $1 a video", text.ProviderPrice("720p", new(true), "0", "1"))
	require.Equal(t, "without sound: free", text.ProviderPrice("", new(false), "0", "0"))
}
