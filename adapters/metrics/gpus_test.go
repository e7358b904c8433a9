package metrics

import (
	"context"
	"errors"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestPoolGPUs(t *testing.T) {
	t.Parallel()

	t.Run("LeaveOutWhatIsNotKnown", func(t *testing.T) {
		t.Parallel()

		m := New(Sources{Queues: none, GPUs: func(context.Context) ([]models.PoolGPUs, error) {
			return []models.PoolGPUs{{Pool: "spot", Count: 3, Faulty: 1, Utilization: new(0.5)}}, nil
		}})

		require.Equal(t, []string{
			`reelay_gpu_utilization{pool="spot"} 0.5`, `reelay_gpus{pool="spot"} 3`, `reelay_gpus_faulty{pool="spot"} 1`,
		}, scrape(t, m))
	})

	t.Run("AreNoneWhileTheyCannotBeRead", func(t *testing.T) {
		t.Parallel()

		m := New(Sources{Queues: none, GPUs: func(context.Context) ([]models.PoolGPUs, error) { return nil, errors.New("down") }})

		require.Empty(t, scrape(t, m))
	})
}
