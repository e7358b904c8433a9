package capacity

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// EngineState is the state of an engine.
type EngineState string

const (
	EngineReady EngineState = "READY"
	// EngineBusy means that it renders a job.
	EngineBusy EngineState = "BUSY"
	// EngineDraining means that it still computes what Reelay cancelled or did not start.
	EngineDraining    EngineState = "DRAINING"
	EngineUnreachable EngineState = "UNREACHABLE"
	// EngineFailed means that it answers, but not as its kind does.
	EngineFailed EngineState = "FAILED"
	// EngineUnknown means that no agent has reported it for a minute.
	EngineUnknown EngineState = "UNKNOWN"
	// EngineHeld means that an operator took it out of service, and that its worker has left.
	EngineHeld EngineState = "HELD"
)

// EngineStates are all states. Agents report the first five.
var EngineStates = []EngineState{
	EngineReady, EngineBusy, EngineDraining, EngineUnreachable, EngineFailed, EngineUnknown, EngineHeld,
}

// Down reports whether nobody reaches the engine, or it does not work.
func (s EngineState) Down() bool {
	return s == EngineUnreachable || s == EngineFailed || s == EngineUnknown
}

// Engine is an engine of a pool, with its worker.
type Engine struct {
	EngineReport
	PoolID models.PoolID `bun:"pool_id"`
	// Pool is the name of its pool.
	Pool string      `bun:"pool"`
	Kind engine.Kind `bun:"kind"`
	// Since is when the state began.
	Since time.Time `bun:"since"`
	// HeldAt is when an operator took it out of service, or zero. HeldBy is the id of the key, or the
	// address of the member.
	HeldAt time.Time `bun:"held_at,nullzero"`
	HeldBy string    `bun:"held_by"`
	// WorkerID is the worker of the engine, or "". JobID is the job that the worker holds, or "".
	WorkerID models.WorkerID `bun:"worker_id"`
	JobID    models.JobID    `bun:"job_id"`
}

// EngineReport is what an agent says of an engine.
type EngineReport struct {
	URL   string      `bun:"url" json:"url"`
	State EngineState `bun:"state" json:"state"`
	// Reason is why it is in that state, or "".
	Reason  string `bun:"reason" json:"reason"`
	Version string `bun:"version" json:"version"`
	// What the engine does not tell of its GPU is empty or nil.
	GPUName            string `bun:"gpu_name" json:"gpuName"`
	GPUMemoryBytes     *int64 `bun:"gpu_memory_bytes" json:"gpuMemoryBytes"`
	GPUMemoryFreeBytes *int64 `bun:"gpu_memory_free_bytes" json:"gpuMemoryFreeBytes"`
	// Lacks are the models of which its worker gets no jobs.
	Lacks []EngineLack `bun:"lacks,type:jsonb" json:"lacks"`
}

// Held reports whether an operator took the engine out of service. Its worker may still be there.
func (e *Engine) Held() bool { return !e.HeldAt.IsZero() }

// EngineLack is a model that an engine cannot run, and what it lacks for it.
type EngineLack struct {
	Model   string `json:"model"`
	Missing string `json:"missing"`
}

// engineModelsSQL is the models of the pool p without those that the engine e lacks.
const engineModelsSQL = `ARRAY(
	SELECT m.name FROM unnest(p.models) WITH ORDINALITY AS m (name, place)
	WHERE NOT e.lacks @> jsonb_build_array(jsonb_build_object('model', m.name)) ORDER BY m.place)`

// ListEngines returns the engines of these pools, each pool's as its operator listed them.
func ListEngines(ctx context.Context, db bun.IDB, pools []models.PoolID) ([]*Engine, error) {
	var found []*Engine
	err := db.NewRaw(enginesSQL+" WHERE e.pool_id = ANY (?::uuid[]) ORDER BY e.pool_id, array_position(p.engines, e.url)",
		postgres.UUIDArray(pools)).Scan(ctx, &found)
	return found, err
}

// An engine that nobody reports is unknown since the last report, or since it was added.
const enginesSQL = `
	SELECT e.url, e.pool_id, p.name AS pool, p.engine_kind AS kind, shown.state, e.version, e.lacks,
		e.gpu_name, e.gpu_memory_bytes, e.gpu_memory_free_bytes, e.held_at, e.held_by, w.id AS worker_id, a.job_id,
		CASE shown.state WHEN 'HELD' THEN e.held_at WHEN 'UNKNOWN' THEN coalesce(e.reported_at, e.since) ELSE e.since END AS since,
		CASE shown.state WHEN 'HELD' THEN 'An operator took it out of service.'
			WHEN 'UNKNOWN' THEN 'No agent drives it: start "reelay agent --pool ' || p.name || '".' ELSE e.reason END AS reason
	FROM engines e JOIN pools p ON p.id = e.pool_id
	CROSS JOIN LATERAL (SELECT engine_state(e) AS state) shown
	LEFT JOIN workers w ON w.provider = '` + engine.Provider + `' AND w.provider_instance_id = e.instance AND w.slot = 0 AND w.ended_at IS NULL
	LEFT JOIN job_attempts a ON a.worker_id = w.id AND a.ended_at IS NULL`

// How long an engine is in a state before operators are told of it.
const (
	engineDownSQL    = `(e.state IN ('UNREACHABLE', 'FAILED', 'UNKNOWN') AND e.since < clock_timestamp() - interval '3 minutes')`
	engineDrainedSQL = `(e.state IN ('DRAINING', 'HELD') AND e.since < clock_timestamp() - interval '30 minutes')`
)

// ListTroubledEngines returns the engines, of pools that are not paused, that have been down for three
// minutes, or drained or held for half an hour.
func ListTroubledEngines(ctx context.Context, db bun.IDB) ([]*Engine, error) {
	var found []*Engine
	err := db.NewRaw(`SELECT * FROM (`+enginesSQL+` WHERE p.paused_at IS NULL) e WHERE `+engineDownSQL+` OR `+engineDrainedSQL+
		` ORDER BY e.pool, e.url`).Scan(ctx, &found)
	return found, err
}

// CountTroubledEnginesSQL counts the same engines: those that are down, and the others.
const CountTroubledEnginesSQL = `SELECT count(*) FILTER (WHERE ` + engineDownSQL + `) AS engines_down,
	count(*) FILTER (WHERE ` + engineDrainedSQL + `) AS engines_drained FROM (` + enginesSQL + ` WHERE p.paused_at IS NULL) e`

// LockEngine returns the lacks of the engine with that instance, and whether an operator holds it. It
// keeps both until the transaction ends. It returns sql.ErrNoRows if the pool has no such engine.
// Pools are locked before engines, and engines before workers.
func LockEngine(ctx context.Context, tx bun.Tx, pool models.PoolID, instance string) (*Engine, error) {
	e := new(Engine)
	name, _, _ := strings.Cut(instance, "#")
	err := tx.NewRaw("SELECT e.url, e.lacks, e.held_at FROM engines e WHERE e.pool_id = ? AND e.instance = ? FOR SHARE", pool, name).
		Scan(ctx, e)
	return e, err
}

// Without returns the models of a list that the engine does not lack.
func (e *Engine) Without(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(e.Lacks, func(l EngineLack) bool { return l.Model == name })
	})
}

// TakenEngine is an engine that another pool lists.
type TakenEngine struct {
	Pool    string        `bun:"pool"`
	Wanting models.PoolID `bun:"wanting"`
	URL     string        `bun:"url"`
}

// WriteEngines makes the rows of engines what these pools list, and drains the workers of engines that
// they do not list any more. It returns the workers, and an engine that another pool has, if there is one: then
// nothing may be committed. The caller has locked the pools.
func WriteEngines(ctx context.Context, tx bun.Tx, pools []*Pool) (drained []models.WorkerID, taken *TakenEngine, err error) {
	type row struct {
		URL      string        `bun:"url,pk"`
		Instance string        `bun:"instance"`
		PoolID   models.PoolID `bun:"pool_id,pk"`
	}
	var ids []models.PoolID
	var rows []*row
	for _, p := range pools {
		ids = append(ids, p.ID)
		if !p.HasEngines() || !p.DeletedAt.IsZero() {
			continue
		}
		for _, url := range p.Engines {
			rows = append(rows, &row{url, p.engineInstance(url), p.ID})
		}
	}
	_, err = tx.NewRaw(`DELETE FROM engines e USING pools p WHERE p.id = e.pool_id AND p.id = ANY (?0::uuid[])
		AND NOT (p.provider = ?1 AND p.deleted_at IS NULL AND e.url = ANY (p.engines))`, postgres.UUIDArray(ids), engine.Provider).Exec(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) > 0 {
		// In one order, so that two pools that want the same engines do not wait for each other.
		slices.SortFunc(rows, func(a, b *row) int { return strings.Compare(a.URL, b.URL) })
		if _, err := tx.NewInsert().Model(&rows).ModelTableExpr("engines").On("CONFLICT DO NOTHING").Exec(ctx); err != nil {
			return nil, nil, err
		}
		instances := make([]string, len(rows))
		wanting := make([]models.PoolID, len(rows))
		for i, r := range rows {
			instances[i], wanting[i] = r.Instance, r.PoolID
		}
		t := new(TakenEngine)
		err := tx.NewRaw(`SELECT w.pool_id AS wanting, e.url, p.name AS pool FROM unnest(?0::text[], ?1::uuid[]) AS w (instance, pool_id)
			JOIN engines e ON e.instance = w.instance AND e.pool_id <> w.pool_id JOIN pools p ON p.id = e.pool_id LIMIT 1`,
			postgres.TextArray(instances), postgres.UUIDArray(wanting)).Scan(ctx, t)
		if err == nil {
			return nil, t, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return nil, nil, err
		}
	}
	if err := writeProviderAccounts(ctx, tx, pools); err != nil {
		return nil, nil, err
	}
	drained, err = drainEngines(ctx, tx, ids, models.LeavesUnlisted, "e.url IS NULL")
	return drained, nil, err
}

// engineInstance is the name of an engine of the pool: the id of its worker's machine. That of a hosted provider is
// the pool's, since two accounts have the same address. Each agent adds a # and a name of its own.
func (p *Pool) engineInstance(url string) string {
	if p.EngineKind.Hosted() != nil {
		return p.Name + "@" + string(p.EngineKind)
	}
	return engine.Instance(url)
}

// DrainHeldEngines drains the workers of the engines of a pool that an operator holds.
func DrainHeldEngines(ctx context.Context, tx bun.Tx, pool models.PoolID) ([]models.WorkerID, error) {
	return drainEngines(ctx, tx, []models.PoolID{pool}, models.LeavesHeld, "e.held_at IS NOT NULL")
}

// drainEngines drains workers of engines. It locks workers in the order of their ids.
func drainEngines(ctx context.Context, tx bun.Tx, pools []models.PoolID, reason, which string) (drained []models.WorkerID, err error) {
	err = tx.NewRaw(`
		WITH found AS (
			SELECT w.id FROM workers w LEFT JOIN engines e ON e.pool_id = w.pool_id AND e.instance = split_part(w.provider_instance_id, '#', 1)
			WHERE w.pool_id = ANY (?0::uuid[]) AND w.provider = ?1 AND w.ended_at IS NULL AND w.status IN ('IDLE', 'BUSY') AND `+which+`
			ORDER BY w.id FOR NO KEY UPDATE OF w)
		UPDATE workers w SET status = 'DRAINING', drain_reason = ?2 FROM found
		WHERE w.id = found.id AND w.status IN ('IDLE', 'BUSY')
		RETURNING w.id`, postgres.UUIDArray(pools), engine.Provider, reason).Scan(ctx, &drained)
	return drained, err
}

// RecordEngines writes what an agent says of the engines of a pool, and reports whether what any of
// them lacks has changed. Engines that the pool does not have are left out. The caller has locked the pool.
func RecordEngines(ctx context.Context, tx bun.Tx, pool models.PoolID, reports []EngineReport) (lacksChanged bool, err error) {
	said, err := json.Marshal(reports)
	if err != nil {
		return false, err
	}
	err = tx.NewRaw(`
		WITH said AS (
			SELECT * FROM jsonb_to_recordset(?1::jsonb) AS r (url text, state text, reason text, version text,
				"gpuName" text, "gpuMemoryBytes" bigint, "gpuMemoryFreeBytes" bigint, lacks jsonb)),
		old AS (
			SELECT e.* FROM engines e JOIN said USING (url) WHERE e.pool_id = ?0 ORDER BY e.url FOR NO KEY UPDATE OF e),
		written AS (
			UPDATE engines e SET state = said.state, reason = said.reason, version = said.version, lacks = said.lacks,
				gpu_name = said."gpuName", gpu_memory_bytes = said."gpuMemoryBytes", gpu_memory_free_bytes = said."gpuMemoryFreeBytes",
				reported_at = clock_timestamp(),
				since = CASE WHEN old.state = said.state AND old.reported_at > clock_timestamp() - interval '60 seconds'
					THEN old.since ELSE clock_timestamp() END
			FROM old JOIN said USING (url) WHERE e.url = old.url AND e.pool_id = old.pool_id
			RETURNING e.lacks <> old.lacks AS changed)
		SELECT coalesce(bool_or(changed), false) FROM written`, pool, string(said)).Scan(ctx, &lacksChanged)
	return lacksChanged, err
}

// HoldEngine records that an operator takes an engine out of service, or with by "" that it is back. It
// reports whether that is new, and returns sql.ErrNoRows if the pool has no such engine.
func HoldEngine(ctx context.Context, tx bun.Tx, pool models.PoolID, url, by string) (changed bool, err error) {
	err = tx.NewRaw(`
		WITH old AS (SELECT pool_id, url, held_at FROM engines WHERE pool_id = ?0 AND url = ?1 FOR NO KEY UPDATE)
		UPDATE engines e SET
			held_at = CASE WHEN ?2 = '' THEN NULL ELSE coalesce(old.held_at, clock_timestamp()) END,
			held_by = CASE WHEN ?2 <> '' AND old.held_at IS NOT NULL THEN e.held_by ELSE ?2 END
		FROM old WHERE e.url = old.url AND e.pool_id = old.pool_id
		RETURNING (old.held_at IS NULL) <> (e.held_at IS NULL)`, pool, url, by).Scan(ctx, &changed)
	return changed, err
}
