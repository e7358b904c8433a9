package operations

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFigures(t *testing.T) {
	t.Parallel()

	parts := []string{"3 queued", "1 running", "no worker"}
	require.Equal(t, "jobs   3 queued · 1 running · no worker\n", figures("jobs", parts, 0))
	require.Equal(t, "jobs   3 queued\n       1 running\n       no worker\n", figures("jobs", parts, 20))
	require.Equal(t, "jobs   3 queued · 1 running\n       no worker\n", figures("jobs", parts, 27))
}
