package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// readOnly is an object store that cannot be written.
type readOnly struct{ doctor.ExaminedObjects }

func (readOnly) Put(context.Context, string, []byte) error {
	return errors.New("write object: no bucket. ")
}

func TestExamine(t *testing.T) {
	t.Parallel()

	t.Run("FindsNothingInAHealthyStack", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		before := w.Dump(t)

		w.requireFound(t, doctor.Checkup{})
		w.requireFound(t, doctor.Checkup{Full: true, Hash: true})

		require.Equal(t, before, w.Dump(t), "an examination changes nothing")
		objects, err := w.Objects.List(t.Context(), "doctor/", 10)
		require.NoError(t, err)
		for _, o := range objects {
			require.NotContains(t, o.Key, "doctor/", "the probe is gone again")
		}
	})

	t.Run("TellsHowFarItIs", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		var done []int
		var of int
		w.examine(t, doctor.Checkup{Progress: func(n, all int, next string) {
			require.NotEmpty(t, next)
			done, of = append(done, n), all
		}})

		require.Greater(t, of, 20)
		require.Len(t, done, of)
		for i, n := range done {
			require.Equal(t, i, n)
		}
	})

	t.Run("ReportsAnUnwritableStoreAsBroken", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		w.doctor.Objects = readOnly{w.doctor.Objects}

		found, _ := w.examine(t, doctor.Checkup{})

		require.Equal(t, doctor.LevelBroken, found["probe"].Level)
		require.Equal(t, "It cannot: write object: no bucket.", found["probe"].Found)
	})

	for check, c := range map[string]struct {
		// free drops the constraint that prevents the damage.
		free string
		harm func(w *ward) (string, []any)
		// also lists the other checks that this damage necessarily triggers.
		also []string
		id   func(w *ward) string
	}{
		"account-counters": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE accounts SET queued = queued + 1 WHERE id = ?", []any{w.Account.ID}
			},
			id: func(w *ward) string { return string(w.Account.ID) },
		},
		"lane-counters": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE account_lanes SET queued = 0 WHERE account_id = ?", []any{w.Account.ID}
			},
			id: func(w *ward) string { return string(w.Account.ID) + " in ENTERPRISE" },
		},
		"capped-line": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE account_lanes SET capped = true WHERE account_id = ?", []any{w.Account.ID}
			},
			id: func(w *ward) string { return string(w.Account.ID) + " in ENTERPRISE" },
		},
		"one-live-attempt": {
			free: "DROP INDEX job_attempts_one_live_per_worker",
			harm: func(w *ward) (string, []any) {
				return `INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at)
					SELECT gen_random_uuid(), ?, 1, 1, worker_id, gen_random_uuid(), 'RUNNING', clock_timestamp(), lease_expires_at
					FROM job_attempts WHERE id = ?`, []any{w.queued, w.fence.AttemptID}
			},
			id:   func(w *ward) string { return string(w.worker.WorkerID) },
			also: []string{"current-attempt BROKEN", "attempt-gap BROKEN"}, // the second attempt belongs to no job
		},
		"current-attempt": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE job_attempts SET run = 2 WHERE id = ?", []any{w.fence.AttemptID}
			},
			id: func(w *ward) string { return string(w.held) },
		},
		"held-worker": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE workers SET status = 'BUSY' WHERE id = ?", []any{w.idle.WorkerID}
			},
			id: func(w *ward) string { return string(w.idle.WorkerID) },
		},
		"machine-time": { // two workers on a machine of one
			harm: func(*ward) (string, []any) {
				return `WITH pool AS (
						INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, paused_at)
						VALUES (gen_random_uuid(), 'small', 'cloud', 'r', 'g', 'SPOT', '{}', 0, 1, now()) RETURNING id),
					machine AS (
						INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at, gone_at, billed_until)
						SELECT id, 'cloud', 'vm-1', 1, begun, begun, now(), now() FROM pool, (SELECT now() - interval '1 hour' AS begun) b RETURNING created_at)
					INSERT INTO workers (id, provider, provider_instance_id, slot, region, gpu_type, capacity_class, models, status, created_at, registered_at, ended_at)
					SELECT gen_random_uuid(), 'cloud', 'vm-1', slot, 'r', 'g', 'SPOT', '{}', 'TERMINATED', created_at, created_at, now()
					FROM machine, generate_series(0, 1) slot`, nil
			},
			id: func(*ward) string { return "vm-1" },
		},
		"attempt-overlap": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE job_attempts SET ended_at = clock_timestamp() + interval '1 hour' WHERE job_id = ? AND attempt_no = 1", []any{w.lost}
			},
			id: func(w *ward) string { return string(w.lost) },
		},
		"attempt-gap": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE job_attempts SET attempt_no = 5 WHERE job_id = ? AND attempt_no = 1", []any{w.lost}
			},
			id:   func(w *ward) string { return string(w.lost) },
			also: []string{"stale-write BROKEN"}, // the attempt that is now first wrote after the second
		},
		"run-order": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE job_events SET run = 2 WHERE job_id = ? AND type = 'LOST'", []any{w.lost}
			},
			id:   func(w *ward) string { return string(w.lost) },
			also: []string{"one-end BROKEN"}, // a run that the job has not begun
		},
		"phantom-event": {
			harm: func(w *ward) (string, []any) {
				return "INSERT INTO job_events (job_id, seq, run, type) VALUES (?, 1, 1, 'QUEUED')", []any{models.NewJobID()}
			},
		},
		"one-success": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE job_attempts SET status = 'SUCCEEDED' WHERE job_id = ? AND attempt_no = 2", []any{w.lost}
			},
			id: func(w *ward) string { return string(w.lost) },
		},
		"started-twice": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE jobs SET at_most_once = true WHERE id = ?", []any{w.lost}
			},
			id: func(w *ward) string { return string(w.lost) },
		},
		"issued-key": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE uploads SET size_bytes = size_bytes + 1 WHERE object_key = ?", []any{w.video.ObjectKey}
			},
		},
		"deleted-job": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE jobs SET deleted_at = now() WHERE id = ?", []any{w.done}
			},
			id: func(w *ward) string { return string(w.done) },
		},
		"untold-end": {
			harm: func(w *ward) (string, []any) {
				return "DELETE FROM webhook_events WHERE job_id = ?", []any{w.done}
			},
			id: func(w *ward) string { return string(w.done) },
		},
		"stuck-webhook": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE webhook_deliveries SET id = ?, next_attempt_at = now() - interval '11 minutes' WHERE job_id = ?",
					[]any{w.webhook, w.done}
			},
			id: func(w *ward) string { return string(w.webhook) },
		},
		"kept-prompt": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE job_inputs SET wrapped_key = NULL WHERE job_id = ?", []any{w.queued}
			},
			id: func(w *ward) string { return string(w.queued) },
		},
		"closed-run": {
			harm: func(w *ward) (string, []any) {
				return "DELETE FROM dead_letters WHERE job_id = ?", []any{w.lost}
			},
			id: func(w *ward) string { return string(w.lost) },
		},
		"stale-write": {
			harm: func(w *ward) (string, []any) {
				return `UPDATE job_events SET attempt_id = (SELECT id FROM job_attempts WHERE job_id = ?0 AND attempt_no = 1)
					WHERE job_id = ?0 AND type = 'DEAD_LETTERED' OR job_id = ?0 AND type = 'FAILED'`, []any{w.lost}
			},
			id: func(w *ward) string { return string(w.lost) },
		},
		"lost-early": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE job_attempts SET lease_expires_at = ended_at + interval '1 second' WHERE job_id = ? AND attempt_no = 1", []any{w.lost}
			},
		},
		"event-gap": {
			harm: func(w *ward) (string, []any) {
				return "DELETE FROM job_events WHERE job_id = ? AND type = 'CHECKPOINTED'", []any{w.held}
			},
			id: func(w *ward) string { return string(w.held) },
		},
		"transition": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE job_events SET type = 'PROGRESS' WHERE job_id = ? AND type = 'LEASED'", []any{w.held}
			},
			id: func(w *ward) string { return string(w.held) },
		},
		"history": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE jobs SET status = 'ASSIGNED' WHERE id = ?", []any{w.held}
			},
			id: func(w *ward) string { return string(w.held) },
		},
		"one-end": {
			free: "DROP INDEX job_events_one_end_per_run",
			harm: func(w *ward) (string, []any) {
				return `WITH e AS (UPDATE jobs SET event_seq = event_seq + 1 WHERE id = ? RETURNING id, event_seq)
					INSERT INTO job_events (job_id, seq, run, type) SELECT id, event_seq, 1, 'PROGRESS' FROM e`, []any{w.done}
			},
			id: func(w *ward) string { return string(w.done) },
		},
		"result-pointer": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE jobs SET result_id = (SELECT latest_checkpoint_id FROM jobs WHERE id = ?) WHERE id = ?", []any{w.held, w.done}
			},
			id: func(w *ward) string { return string(w.done) },
		},
		"checkpoint-pointer": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE artifacts SET rejected_at = now() WHERE job_id = ?", []any{w.held}
			},
			id: func(w *ward) string { return string(w.held) },
		},
		"doomed-object": {
			harm: func(w *ward) (string, []any) {
				return "INSERT INTO object_deletions (object_key) VALUES (?)", []any{w.video.ObjectKey}
			},
			id: func(w *ward) string { return w.video.ObjectKey },
		},
		"cancelled-complete": {
			free: "ALTER TABLE jobs DROP CONSTRAINT jobs_check3",
			harm: func(w *ward) (string, []any) {
				return "UPDATE jobs SET cancel_requested_at = now() WHERE id = ?", []any{w.done}
			},
			id: func(w *ward) string { return string(w.done) },
		},
		"failure-count": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE jobs SET failures = max_attempts WHERE id = ?", []any{w.queued}
			},
			id: func(w *ward) string { return string(w.queued) },
		},
		"idempotency": {
			free: "DROP INDEX jobs_by_key",
			harm: func(w *ward) (string, []any) {
				return "UPDATE jobs SET idempotency_key = 'k', request_digest = '' WHERE id IN (?, ?)", []any{w.queued, w.done}
			},
			id: func(w *ward) string { return string(w.queued) },
		},
		"early-child": {
			harm: func(w *ward) (string, []any) {
				return `WITH d AS (INSERT INTO job_dependencies (job_id, depends_on) VALUES (?0, ?1))
					UPDATE jobs SET completed_at = completed_at + interval '1 hour' WHERE id = ?1`, []any{w.held, w.done}
			},
			id: func(w *ward) string { return string(w.held) },
		},
		"blocked-count": {
			harm: func(w *ward) (string, []any) {
				return "INSERT INTO job_dependencies (job_id, depends_on) VALUES (?, ?)", []any{w.queued, w.held}
			},
			id: func(w *ward) string { return string(w.queued) },
		},
		"stuck-workflow": {
			harm: func(w *ward) (string, []any) {
				return `WITH film AS (INSERT INTO workflows (id, account_id, name, status, nodes, open, request_digest)
						VALUES ('01990000-0000-7000-8000-000000000001', ?0, 'film', 'RUNNING', 1, 1, '')),
					node AS (INSERT INTO workflow_nodes (workflow_id, key, position, job_id, after, on_parent_failure, tolerated, digest, reused)
						VALUES ('01990000-0000-7000-8000-000000000001', 'a', 0, ?1, '{}', 'CASCADE', false, '', false))
					UPDATE jobs SET status = 'BLOCKED', blocked_by = 1 WHERE id = ?1`, []any{w.Account.ID, w.queued}
			},
			id:   func(*ward) string { return "wfl_01990000-0000-7000-8000-000000000001" },
			also: []string{"blocked-count BROKEN", "history BROKEN", "lane-counters BROKEN"},
		},
		"workflow-counts": {
			harm: func(w *ward) (string, []any) {
				return `INSERT INTO workflows (id, account_id, name, status, nodes, open, request_digest)
					VALUES ('01990000-0000-7000-8000-000000000001', ?, 'film', 'RUNNING', 1, 1, '')`, []any{w.Account.ID}
			},
			id:   func(*ward) string { return "wfl_01990000-0000-7000-8000-000000000001" },
			also: []string{"stuck-workflow BROKEN"},
		},
		"tenancy": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE artifacts SET account_id = (SELECT id FROM accounts WHERE id <> ?) WHERE job_id = ? AND type = 'FINAL_VIDEO'",
					[]any{w.Account.ID, w.done}
			},
		},
		"stuck-queued": {
			harm: func(w *ward) (string, []any) {
				return `WITH w AS (UPDATE workers SET idle_since = now() - interval '1 hour')
					UPDATE jobs SET queued_at = now() - interval '301 seconds' WHERE id = ?`, []any{w.queued}
			},
			id: func(w *ward) string { return string(w.queued) },
		},
		"unreaped-lease": {
			harm: func(w *ward) (string, []any) {
				return "UPDATE job_attempts SET lease_expires_at = now() - interval '601 seconds' WHERE id = ?", []any{w.fence.AttemptID}
			},
			id: func(w *ward) string { return string(w.fence.AttemptID) },
		},
	} {
		t.Run("Finds "+check, func(t *testing.T) {
			t.Parallel()

			w := newWard(t)
			if c.free != "" {
				w.Exec(t, c.free)
			}
			query, args := c.harm(w)
			w.Exec(t, query, args...)

			all, checks := w.examine(t, doctor.Checkup{})

			require.ElementsMatch(t, append(c.also, check+" BROKEN"), checks)
			require.Len(t, all[check].IDs, all[check].Count)
			if c.id != nil {
				require.Contains(t, all[check].IDs, c.id(w))
			}
		})
	}

	t.Run("Finds stuck-due", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		_, err := w.Attempts.Fail(t.Context(), w.worker, w.fence, lease.Failure{Class: models.FailTransient, Message: "no luck"})
		require.NoError(t, err)
		w.Exec(t, "UPDATE jobs SET run_at = now() - interval '11 minutes' WHERE id = ?", w.held)

		w.requireFound(t, doctor.Checkup{}, "stuck-due BROKEN")
	})

	t.Run("PassesByJobsThatNoIdleWorkerTakes", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		w.Exec(t, "UPDATE jobs SET queued_at = now() - interval '1 day' WHERE id = ?", w.queued)
		for _, dedicated := range []string{"accounts = ARRAY[gen_random_uuid()]", "accounts = '{}', tiers = '{BATCH}'"} {
			w.Exec(t, "UPDATE workers SET idle_since = now() - interval '1 hour', "+dedicated)
			w.requireFound(t, doctor.Checkup{})
		}
		w.Exec(t, "UPDATE workers SET accounts = ARRAY[?::uuid], tiers = ARRAY(SELECT lane FROM jobs WHERE id = ?)", w.Account.ID, w.queued)
		w.requireFound(t, doctor.Checkup{}, "stuck-queued BROKEN")
	})

	t.Run("FindsObjectsThatDifferFromTheirRows", func(t *testing.T) {
		t.Parallel()

		for name, c := range map[string]struct {
			harm func(w *ward)
			says string
		}{
			"gone": {func(w *ward) { require.NoError(t, w.Objects.Delete(t.Context(), w.video.ObjectKey)) }, "is gone from the store"},
			"too long": {func(w *ward) {
				w.Exec(t, "UPDATE artifacts SET size_bytes = 1 WHERE object_key = ?", w.video.ObjectKey)
			}, "bytes in the store, not 1"},
			"other": {func(w *ward) {
				w.Exec(t, "UPDATE artifacts SET checksum = 'AAAAAA==' WHERE object_key = ?", w.video.ObjectKey)
			}, "not AAAAAA=="},
		} {
			w := newWard(t)
			w.Exec(t, "DELETE FROM uploads") // as ForgetUploads does after a while
			c.harm(w)

			all, checks := w.examine(t, doctor.Checkup{})

			require.Equal(t, []string{"objects BROKEN"}, checks, name)
			require.Equal(t, 1, all["objects"].Count, name)
			require.Contains(t, all["objects"].IDs[0], string(w.done), name)
			require.Contains(t, all["objects"].IDs[0], c.says, name)
		}
	})

	t.Run("FindsCorruptObjects", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		file := filepath.Join(w.ObjectsDir, "buckets", "reelay-test", w.video.ObjectKey)
		video, err := os.ReadFile(file)
		require.NoError(t, err)
		video[0] ^= 1
		writer, err := os.OpenFile(file, os.O_WRONLY, 0) // the file's attributes stay unchanged
		require.NoError(t, err)
		_, err = writer.Write(video)
		require.NoError(t, errors.Join(err, writer.Close()))

		all, checks := w.examine(t, doctor.Checkup{Hash: true})

		require.Equal(t, []string{"objects BROKEN"}, checks)
		require.Contains(t, all["objects"].IDs[0], string(w.done))
		require.Contains(t, all["objects"].IDs[0], "has bytes whose checksum is")
	})

	t.Run("ShowsTwentyIDsAndTheTotal", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		for i := range 25 {
			w.Worker(t, fmt.Sprint("more", i))
		}
		w.Exec(t, "UPDATE workers SET status = 'BUSY' WHERE provider_instance_id LIKE 'more%'")

		all, _ := w.examine(t, doctor.Checkup{})

		require.Len(t, all["held-worker"].IDs, 20)
		require.Equal(t, 25, all["held-worker"].Count)
	})

	for check, harm := range map[string]string{
		"presence":       "UPDATE presence SET seen_at = now() - interval '1 minute' WHERE kind = 'control'",
		"halts":          "INSERT INTO halts (what, halted_by, reason) VALUES ('LEASES', 'test', 'x')",
		"outbox":         "UPDATE outbox SET created_at = now() - interval '2 minutes'",
		"silent-workers": "UPDATE workers SET last_heartbeat_at = now() - interval '6 minutes' WHERE status = 'IDLE'",
		"dead-letters":   "UPDATE dead_letters SET resolved_at = NULL, resolution = NULL, resolved_by = NULL, failure_class = 'POISON'",
		"deserted-pools": `WITH a AS (INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute, closed_at)
			VALUES (gen_random_uuid(), 'gone', 'PRO', 0, 0, 0, now()) RETURNING id)
			INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, accounts)
			SELECT gen_random_uuid(), 'own', 'static', 'local', 'any', 'SPOT', '{}', 0, 1, ARRAY[id] FROM a`,
		"object-deletions": "INSERT INTO object_deletions (object_key, tries) VALUES ('some key', 5)",
		"engines": `WITH p AS (INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, engine_kind, engines)
			VALUES (gen_random_uuid(), 'comfy', 'engines', 'local', 'engine', 'ON_DEMAND', '{}', 0, 1, 'comfyui', '{http://gpu-1}') RETURNING id)
			INSERT INTO engines (url, instance, pool_id, state, reported_at, since) SELECT 'http://gpu-1', 'gpu-1:80', id, 'UNREACHABLE', now(), now() - interval '4 minutes' FROM p`,
		"drained-engines": `WITH p AS (INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, engine_kind, engines)
			VALUES (gen_random_uuid(), 'comfy', 'engines', 'local', 'engine', 'ON_DEMAND', '{}', 0, 1, 'comfyui', '{http://gpu-1}') RETURNING id)
			INSERT INTO engines (url, instance, pool_id, state, reported_at, since, held_at) SELECT 'http://gpu-1', 'gpu-1:80', id, 'READY', now(), now() - interval '4 minutes', now() - interval '31 minutes' FROM p`,
		"event-partitions": "DO $$ BEGIN EXECUTE 'DROP TABLE job_events_' || to_char((now() AT TIME ZONE 'UTC') + interval '1 month', 'YYYY_MM'); END $$",
		"indexes":          "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'jobs_by_kind'::regclass",
		"schema":           "INSERT INTO bun_migrations (id, name, group_id) VALUES (1000000, '29990101000000', 9)",
	} {
		t.Run("Advises on "+check, func(t *testing.T) {
			t.Parallel()

			w := newWard(t)
			w.Exec(t, harm)

			w.requireFound(t, doctor.Checkup{}, check+" ADVICE")
		})
	}

	t.Run("AdvisesOnALostIndex", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		w.Index().Lose()
		w.requireFound(t, doctor.Checkup{}, "ready-index ADVICE")

		require.NoError(t, w.Index().Rebuild(t.Context(), nil))
		w.requireFound(t, doctor.Checkup{}, "ready-index ADVICE") // a due job is missing

		require.NoError(t, w.Readier.Sweep(t.Context()))
		w.requireFound(t, doctor.Checkup{})
	})

	t.Run("ChecksTheSchemaFirst", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		w.Exec(t, "DELETE FROM bun_migrations WHERE id = (SELECT max(id) FROM bun_migrations)")

		w.requireFound(t, doctor.Checkup{}, "schema BROKEN")
	})

	t.Run("FailsWithoutPostgreSQL", func(t *testing.T) {
		t.Parallel()

		w := newWard(t)
		require.NoError(t, w.DB.Close())

		_, err := w.doctor.Examine(t.Context(), doctor.Checkup{})

		require.Error(t, err)
	})
}
