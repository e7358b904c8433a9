package history_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

func TestGPUHistory(t *testing.T) {
	t.Parallel()
	db := modelstest.DB(t)
	now := began(t, db, time.Hour)
	fill(t, db, 1, now)
	const id = models.WorkerID("wrk_f1290186-a5d0-b1ce-ab27-f4e77c0c5d68") // md5('w')
	sample := func(gpus string, age time.Duration) {
		_, err := db.NewRaw(`INSERT INTO worker_gpus AS g (worker_id, gpus, sampled_at) VALUES (?, ?, clock_timestamp() - make_interval(secs => ?))
			ON CONFLICT (worker_id) DO UPDATE SET gpus = excluded.gpus, sampled_at = excluded.sampled_at`, id, gpus, age.Seconds()).Exec(t.Context())
		require.NoError(t, err)
	}
	put := func(at time.Time) int {
		n, err := capacity.PutGPUMinute(t.Context(), db, at)
		require.NoError(t, err)
		return n
	}
	past := func() []*capacity.GPUHistory {
		found, err := capacity.ListGPUHistory(t.Context(), db, []models.WorkerID{id, models.NewWorkerID()})
		require.NoError(t, err)
		return found
	}
	newest := now.UTC().Truncate(time.Minute).Add(-time.Minute)
	f := func(v float64) *float64 { return &v }
	require.Empty(t, past())

	sample(`[{"index": 0, "utilization": 0.5, "memoryUsedBytes": 10, "memoryTotalBytes": 40, "temperatureC": 60.4}, {"index": 1, "utilization": 1, "memoryUsedBytes": 30, "memoryTotalBytes": 40, "temperatureC": 71.6}]`, 0)
	require.Equal(t, 1, put(newest.Add(-5*time.Minute)))
	require.Zero(t, put(newest.Add(-5*time.Minute)), "the minute is known")
	require.Zero(t, put(newest.Add(-6*time.Minute)), "a newer one is known")
	sample(`[{"index": 0, "xid": 79}]`, 0)
	put(newest.Add(-2 * time.Minute))
	sample(`[{"index": 0, "utilization": 0, "memoryUsedBytes": 5}]`, 0)
	put(newest)

	require.Equal(t, []*capacity.GPUHistory{{WorkerID: id, At: past()[0].At,
		Utilization:  []*float64{f(75), nil, nil, nil, nil, f(0)},
		Memory:       []*float64{f(50), nil, nil, nil, nil, nil},
		TemperatureC: []*float64{f(72), nil, nil, nil, nil, nil},
	}}, past())
	require.True(t, newest.Equal(past()[0].At))

	// What is old is not taken for new, and the row does not grow.
	sample(`[{"index": 0, "utilization": 1}]`, 2*time.Minute)
	require.Zero(t, put(newest.Add(time.Minute)))
	sample(`[{"index": 0, "utilization": 1}]`, 0)
	for i := range capacity.GPUMinutes + 5 {
		put(newest.Add(time.Duration(i+1) * time.Minute))
	}
	require.Len(t, past()[0].Utilization, capacity.GPUMinutes)
	require.Equal(t, f(1.0*100), past()[0].Utilization[0])
	put(newest.Add(100 * 24 * time.Hour))
	require.Equal(t, capacity.GPUMinutes, count(t, db, "SELECT array_length(utilization, 1) FROM worker_gpu_history"))

	_, err := db.NewRaw("UPDATE worker_gpu_history SET at = clock_timestamp() - interval '20 minutes'").Exec(t.Context())
	require.NoError(t, err)
	require.Nil(t, past()[0].Utilization[capacity.GPUMinutes-1], "the worker has been idle since")
	require.Len(t, past()[0].Utilization, capacity.GPUMinutes)
	_, err = db.NewRaw("UPDATE worker_gpu_history SET at = clock_timestamp() - interval '3 hours'").Exec(t.Context())
	require.NoError(t, err)
	require.Empty(t, past())
}

func TestRecorderKeepsGPUMinutes(t *testing.T) {
	t.Parallel()
	db := modelstest.DB(t)
	now := began(t, db, 5*time.Minute)
	fill(t, db, 1, now)
	_, err := db.NewRaw(`INSERT INTO worker_gpus (worker_id, gpus, sampled_at) SELECT id, '[{"index": 0, "utilization": 0.25}]', clock_timestamp() FROM workers`).Exec(t.Context())
	require.NoError(t, err)

	recordAll(t, db)
	recordAll(t, db)

	require.Equal(t, 1, count(t, db, "SELECT count(*) FROM worker_gpu_history WHERE utilization[1] = 25"))
}
