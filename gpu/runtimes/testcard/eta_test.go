package testcard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEncodingETA(t *testing.T) {
	t.Parallel()

	began := time.Now().Add(-time.Second)

	require.Zero(t, encodingETA(began, 1, 144), "the first frame must not be extrapolated to 143 s")
	require.InDelta(t, 9, encodingETA(began, 15, 150), 1)
	require.Zero(t, encodingETA(began, 144, 144))
}
