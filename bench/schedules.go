package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/client"
)

// Schedules is the name of the measurement, which needs two control processes.
const Schedules = "schedules"

const (
	// schedulesFiring fire each second.
	schedulesFiring = 100
	// schedulesIdle are in the table, and fire in a year.
	schedulesIdle = 1_000_000
	// schedulesSpan is the least time that a round measures.
	schedulesSpan = 10 * time.Second
)

// Names of the steps.
const (
	schedulesFew    = "100 schedules"
	schedulesMany   = "1,000,000 schedules"
	schedulesOne    = "one of two controls is killed"
	schedulesBoth   = "all controls are killed"
	schedulesKilled = 2 * time.Second // how long the round runs before a kill
)

// schedules measures by how much slots miss their time.
func schedules() Measurement {
	return Measurement{
		Name: Schedules, Title: "schedules: from a slot's time to its job", Unit: "slots", InTurn: true, Rounds: 1,
		Targets: []Target{
			{Name: "schedules: lag among 1 million, p99, ms", Figure: "p99", Of: schedulesMany, Bound: 1000, AtMost: true},
			{Name: "schedules: greatest lag when one of two controls is killed, ms", Figure: "max ms", Of: schedulesOne, Bound: 5000, AtMost: true},
			{Name: "schedules: greatest lag when all controls are killed, ms", Figure: "max ms", Of: schedulesBoth, Bound: 60_000, AtMost: true},
		},
		Note: "100 schedules fire each second, with catchUp ALL, on two control processes. The others are in the table and fire in a year. The jobs are queued, and no worker takes them. `up` starts a killed process again at once. Lags are from the slot's time to the job's row, by PostgreSQL's clock; \"missing\" and \"double\" must be 0.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			if s.DatabaseURL == "" || s.Data == "" {
				return nil, errors.New("the stack's folder is not known: it kills processes, so let the bench start them")
			}
			if err := s.everySecond(ctx, s.sized(schedulesFiring, 5)); err != nil {
				return nil, err
			}
			idle := s.sized(schedulesIdle, 1000)
			return []Contestant{
				{Name: schedulesFew, Role: Peer, Round: func(ctx context.Context) (Figures, error) { return s.slots(ctx) }},
				{Name: schedulesMany, Role: Ours, Round: func(ctx context.Context) (Figures, error) {
					if err := s.idleSchedules(ctx, idle); err != nil {
						return nil, err
					}
					return s.slots(ctx)
				}},
				{Name: schedulesOne, Role: Ours, Round: func(ctx context.Context) (Figures, error) { return s.slots(ctx, "control-1") }},
				{Name: schedulesBoth, Role: Ours, Round: func(ctx context.Context) (Figures, error) { return s.slots(ctx, "control-1", "control-2") }},
			}, nil
		},
	}
}

// everySecond makes schedules that fire each second.
func (s *Site) everySecond(ctx context.Context, n int) error {
	keys, err := s.customers(ctx, 1)
	if err != nil {
		return err
	}
	customer := s.Admin.WithKey(keys[0])
	params := json.RawMessage(fmt.Sprintf(`{"payload": %q}`, benchPrompt))
	return atOnce(ctx, n, func(ctx context.Context, i int) error {
		_, err := customer.ApplySchedule(ctx, client.ScheduleInput{
			Name: fmt.Sprintf("each second %d", i), EverySeconds: new(1), CatchUp: new(client.CatchUpAll),
			Job: &client.SubmitJobInput{Type: new(noop), Model: noop, Params: &params},
		})
		return err
	})
}

// idleSchedules writes schedules that fire in a year.
func (s *Site) idleSchedules(ctx context.Context, n int) error {
	// Without checks of the foreign keys, and in the order of the indexes: it takes seconds.
	err := s.exec(ctx, fmt.Sprintf(`
		SET session_replication_role = replica;
		INSERT INTO schedules (id, account_id, created_by, name, every_seconds, timezone, dst_gap, dst_overlap, jitter_seconds, catch_up,
			catch_up_window_seconds, overlap, ciphertext, wrapped_key, model, tier, decided_until, next_slot, next_fire_at)
		SELECT ('ffffffff-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, account_id, created_by, 'idle ' || lpad(i::text, 8, '0'), 3600, timezone, dst_gap, dst_overlap, 0, catch_up,
			catch_up_window_seconds, overlap, '\x00', '\x00', model, tier, now(), at, at
		FROM (SELECT * FROM schedules LIMIT 1) one, generate_series(1, %d) i, LATERAL (SELECT now() + interval '1 year' + i * interval '1 second' AS at) t`, n))
	if err != nil {
		return err
	}
	if err := s.exec(ctx, "VACUUM ANALYZE schedules"); err != nil {
		return err
	}
	return s.checkpoint(ctx)
}

// slots lets the schedules fire, kills these processes meanwhile, and reads how late the slots
// were.
func (s *Site) slots(ctx context.Context, kill ...string) (Figures, error) {
	db, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the slots: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	var from, until time.Time
	if err := db.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&from); err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	span := max(s.Effort.Span, time.Duration(s.sized(int(schedulesSpan), int(time.Second))))
	if len(kill) > 0 {
		if err := pause(ctx, schedulesKilled); err != nil {
			return nil, err
		}
		if err := s.kill(kill...); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, span); err != nil {
		return nil, err
	}
	if err := db.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&until); err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); { // the last ones fire
		var pending bool
		err := db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM schedule_slots WHERE due_at IS NOT NULL AND slot < $1) OR EXISTS (SELECT FROM schedules WHERE next_slot < $1)", until).Scan(&pending)
		if err != nil {
			return nil, fmt.Errorf("read the slots: %w", err)
		}
		if !pending {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	var p50, p99, most float64
	var fired, doubles, missing int
	err = db.QueryRow(ctx, `
		WITH s AS (SELECT sl.*, extract(epoch FROM j.created_at - sl.slot) * 1000 AS ms FROM schedule_slots sl LEFT JOIN jobs j ON j.id = sl.job_id
			WHERE sl.slot >= $1 AND sl.slot < $2)
		SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms), percentile_cont(0.99) WITHIN GROUP (ORDER BY ms), max(ms),
			count(ms), count(job_id) - count(DISTINCT job_id),
			(SELECT count(*) FROM schedules WHERE every_seconds = 1) * floor(extract(epoch FROM $2 - $1))::int - count(ms) FROM s`,
		from, until).Scan(&p50, &p99, &most, &fired, &doubles, &missing)
	if err != nil {
		return nil, fmt.Errorf("read the slots: %w", err)
	}
	return Figures{
		"rate": float64(fired) / until.Sub(from).Seconds(), "p50": p50, "p99": p99, "max ms": most,
		"double": float64(doubles), "missing": float64(max(0, missing)),
	}, nil
}

// kill ends processes of `up` as a crash does.
func (s *Site) kill(names ...string) error {
	text, err := os.ReadFile(filepath.Join(s.Data, "processes.json"))
	var pids map[string]int
	if err == nil {
		err = json.Unmarshal(text, &pids)
	}
	for _, name := range names {
		if err == nil && pids[name] == 0 {
			err = fmt.Errorf("there is no process %s", name)
		}
		if err == nil {
			err = syscall.Kill(pids[name], syscall.SIGKILL)
		}
	}
	if err != nil {
		return fmt.Errorf("kill %v: %w", names, err)
	}
	return nil
}
