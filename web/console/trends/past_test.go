package trends

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/stretchr/testify/require"
)

func TestReader_ReadsTheHistoryOnceForAllViewers(t *testing.T) {
	t.Parallel()

	var all Reader
	var reads atomic.Int32
	var viewers sync.WaitGroup
	for range 200 {
		viewers.Go(func() {
			_, err := all.of(t.Context(), Ranges[0], func(context.Context) ([]*history.Figures, error) {
				reads.Add(1)
				return []*history.Figures{{From: time.Unix(0, 0), To: time.Unix(60, 0)}}, nil
			})
			require.NoError(t, err)
		})
	}
	viewers.Wait()
	require.EqualValues(t, 1, reads.Load())
}
