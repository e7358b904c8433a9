package capacity

import (
	"context"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// GPUMinutes is for how many minutes the samples of a worker's GPUs are kept.
const GPUMinutes = 120

// GPUHistory is how busy a worker's GPUs were, a value a minute, oldest first. Nil is unknown: the
// worker held no job, or its GPUs do not tell.
type GPUHistory struct {
	WorkerID models.WorkerID `bun:"worker_id"`
	// At is the minute of the last values.
	At time.Time `bun:"at"`
	// Utilization is the mean of its GPUs in percent, Memory how full the memory of all of them is
	// in percent, and TemperatureC that of the hottest.
	Utilization  []*float64 `bun:"utilization,type:jsonb"`
	Memory       []*float64 `bun:"memory,type:jsonb"`
	TemperatureC []*float64 `bun:"temperature,type:jsonb"`
}

// gapSQL makes the unknown values of the minutes between two rows.
const gapSQL = "array_fill(NULL::smallint, ARRAY[least(?1, greatest(0, round(extract(epoch FROM excluded.at - h.at) / 60)::integer - 1))])"

// PutGPUMinute adds the newest samples of all workers' GPUs to their history, as those of the minute
// that begins at a time. It does nothing for workers that have values of that minute, and those that
// sent none within a minute. Its cost is a small row for each worker that renders.
func PutGPUMinute(ctx context.Context, db bun.IDB, at time.Time) (int, error) {
	return postgres.Affected(db.NewRaw(`
		INSERT INTO worker_gpu_history AS h (worker_id, at, utilization, memory, temperature)
		SELECT s.worker_id, ?0, ARRAY[g.utilization], ARRAY[g.memory], ARRAY[g.temperature]
		FROM worker_gpus s
		JOIN workers w ON w.id = s.worker_id AND w.ended_at IS NULL
		CROSS JOIN LATERAL (
			SELECT round(100 * avg(utilization))::smallint AS utilization,
				round(100 * sum("memoryUsedBytes") FILTER (WHERE "memoryTotalBytes" > 0) / nullif(sum("memoryTotalBytes"), 0))::smallint AS memory,
				round(max("temperatureC"))::smallint AS temperature
			FROM jsonb_to_recordset(s.gpus) AS gpu (utilization float8, "memoryUsedBytes" float8, "memoryTotalBytes" float8, "temperatureC" float8)) g
		WHERE s.sampled_at > clock_timestamp() - interval '1 minute'
		ORDER BY s.worker_id
		ON CONFLICT (worker_id) DO UPDATE SET
			at = excluded.at,
			utilization = (excluded.utilization || `+gapSQL+` || h.utilization)[1:?1],
			memory = (excluded.memory || `+gapSQL+` || h.memory)[1:?1],
			temperature = (excluded.temperature || `+gapSQL+` || h.temperature)[1:?1]
		WHERE excluded.at > h.at`, at, GPUMinutes).Exec(ctx))
}

// ListGPUHistory returns the history of these workers' GPUs, in no particular order. A worker without
// a value in the last two hours has none.
func ListGPUHistory(ctx context.Context, db bun.IDB, workers []models.WorkerID) ([]*GPUHistory, error) {
	var rows []*struct {
		GPUHistory
		// Age is how many minutes ago the minute of the newest values began.
		Age int `bun:"age"`
	}
	err := db.NewRaw(`
		SELECT worker_id, at, to_jsonb(utilization) AS utilization, to_jsonb(memory) AS memory, to_jsonb(temperature) AS temperature,
			floor(extract(epoch FROM clock_timestamp() - at) / 60)::integer AS age
		FROM worker_gpu_history
		WHERE worker_id = ANY (?::uuid[]) AND at > clock_timestamp() - make_interval(mins => ?)`, postgres.UUIDArray(workers),
		GPUMinutes).Scan(ctx, &rows)
	if err != nil {
		return nil, err
	}
	found := make([]*GPUHistory, len(rows))
	for i, row := range rows {
		// A minute is written up to a minute after its end: the newest one is not missing before.
		missing := max(row.Age-2, 0)
		for _, values := range []*[]*float64{&row.Utilization, &row.Memory, &row.TemperatureC} {
			slices.Reverse(*values)
			*values = append(*values, make([]*float64, missing)...)
			*values = (*values)[max(len(*values)-GPUMinutes, 0):]
		}
		row.At = row.At.Add(time.Duration(missing) * time.Minute)
		found[i] = &row.GPUHistory
	}
	return found, nil
}
