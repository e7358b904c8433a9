package jobs_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestSchema(t *testing.T) {
	t.Parallel()

	t.Run("RefusesRowsThatBreakAnInvariant", func(t *testing.T) {
		t.Parallel()

		s, held, worker, fence := jobstest.Leased(t)
		o := jobstest.UploadAll(t, s, worker, fence)
		waiting := s.Submit(t)
		idle := s.Worker(t, "two")
		done := s.Submit(t)
		_, doneFence := s.Lease(t, idle)
		video := s.Upload(t, idle, doneFence, models.ArtifactFinalVideo, []byte("a video"))
		end, err := s.Attempts.Complete(t.Context(), idle, doneFence, lease.Completion{Video: &video})
		require.NoError(t, err)
		before := s.Dump(t)
		attempt := `INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at)
			VALUES (gen_random_uuid(), ?, 1, 9, ?, gen_random_uuid(), 'LEASED', now(), now())`
		completed := end.Job.ID
		if completed == done.ID {
			waiting, done = done, waiting
		}

		for name, c := range map[string]struct {
			query string
			args  []any
		}{
			"two live attempts of a job":    {attempt, []any{held.ID, idle.WorkerID}},
			"two live attempts of a worker": {attempt, []any{completed, worker.WorkerID}},
			"a duplicate attempt number":    {"UPDATE job_attempts SET job_id = ? WHERE id = ?", []any{completed, fence.AttemptID}},
			"an attempt that ended without a time": {"UPDATE job_attempts SET status = 'LOST', failure_class = 'WORKER_LOST' WHERE id = ?",
				[]any{fence.AttemptID}},
			"an attempt that failed for no reason": {"UPDATE job_attempts SET status = 'FAILED', ended_at = now() WHERE id = ?",
				[]any{fence.AttemptID}},
			"a live attempt that ended": {"UPDATE job_attempts SET ended_at = now() WHERE id = ?", []any{fence.AttemptID}},
			"an unknown attempt status": {"UPDATE job_attempts SET status = 'DONE' WHERE id = ?", []any{fence.AttemptID}},
			"a duplicate fencing token": {"UPDATE job_attempts SET fencing_token = ? WHERE id = ?",
				[]any{doneFence.Token, fence.AttemptID}},
			"a completed job with a cancel request":    {"UPDATE jobs SET cancel_requested_at = now() WHERE id = ?", []any{completed}},
			"a cancelled job without a cancel request": {"UPDATE jobs SET status = 'CANCELLED' WHERE id = ?", []any{completed}},
			"a failed job without a class":             {"UPDATE jobs SET status = 'FAILED' WHERE id = ?", []any{completed}},
			"a completed job that waits again":         {"UPDATE jobs SET status = 'QUEUED' WHERE id = ?", []any{completed}},
			"a live job without an attempt":            {"UPDATE jobs SET status = 'RUNNING' WHERE id = ?", []any{waiting.ID}},
			"a queued job with an attempt":             {"UPDATE jobs SET current_attempt_id = ? WHERE id = ?", []any{fence.AttemptID, waiting.ID}},
			"a scheduled job without a time":           {"UPDATE jobs SET status = 'SCHEDULED' WHERE id = ?", []any{waiting.ID}},
			"an unknown job status":                    {"UPDATE jobs SET status = 'PAUSED' WHERE id = ?", []any{waiting.ID}},
			"an unknown lane":                          {"UPDATE jobs SET lane = 'VIP' WHERE id = ?", []any{waiting.ID}},
			"a priority out of range":                  {"UPDATE jobs SET priority = 101 WHERE id = ?", []any{waiting.ID}},
			"progress beyond 100":                      {"UPDATE jobs SET percent = 'NaN' WHERE id = ?", []any{waiting.ID}},
			"a key without its digest":                 {"UPDATE jobs SET idempotency_key = 'k' WHERE id = ?", []any{waiting.ID}},
			"a duplicate idempotency key":              {"UPDATE jobs SET idempotency_key = 'k', request_digest = ''", nil},
			"a result that is not an artifact":         {"UPDATE jobs SET result_id = gen_random_uuid() WHERE id = ?", []any{completed}},
			"a duplicate event number": {"INSERT INTO job_events (job_id, seq, run, type) VALUES (?, 1, 1, 'PROGRESS')",
				[]any{held.ID}},
			"two terminal events of a run": {"INSERT INTO job_events (job_id, seq, run, type) VALUES (?, 99, 1, 'FAILED')",
				[]any{completed}},
			"an artifact of the same object": {"INSERT INTO artifacts SELECT gen_random_uuid(), job_id, account_id, attempt_id, type, object_key, size_bytes, checksum, content_type FROM artifacts WHERE id = ?", []any{end.Job.ResultID}},
			"a checkpoint without its step":  {"UPDATE artifacts SET step = NULL WHERE id = ?", []any{o.Committed}},
			"a terminated worker with a token": {"UPDATE workers SET status = 'TERMINATED', ended_at = now() WHERE id = ?",
				[]any{idle.WorkerID}},
			"a terminated worker without an end": {"UPDATE workers SET status = 'TERMINATED', token_hash = NULL WHERE id = ?",
				[]any{idle.WorkerID}},
			"two workers in one slot":                  {"UPDATE workers SET provider_instance_id = 'one' WHERE id = ?", []any{idle.WorkerID}},
			"a counter below 0":                        {"UPDATE accounts SET running = -1", nil},
			"a lane's counter below 0":                 {"UPDATE account_lanes SET queued = -1", nil},
			"a pool whose minimum exceeds its maximum": {"INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers) VALUES (gen_random_uuid(), 'p', 'p', 'r', 'g', 'SPOT', '{}', 2, 1)", nil},
		} {
			_, err := s.DB.NewRaw(c.query, c.args...).Exec(t.Context())

			require.Error(t, err, name)
			require.Regexp(t, `SQLSTATE 23(505|514|503)`, err.Error(), name)
			require.Equal(t, before, s.Dump(t), name)
		}
	})
}

// jwt makes a token like those of other issuers.
func jwt(algorithm, signature string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"`+algorithm+`","typ":"JWT"}`) + "." + part(`{"sub":"client","role":"ADMIN"}`) + "." + part(signature)
}

func TestKeys(t *testing.T) {
	t.Parallel()

	t.Run("AreRefusedOnceRevokedOrExpired", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		secret := s.Secrets[access.RoleClient]
		for _, bad := range []string{
			"", "rl_", "rlw_", "rl_unknown", secret + "x", secret[:len(secret)-1], "Bearer " + secret, "' OR 1=1 --", "rl_\x00", "rl_\xff",
			jwt("none", ""), jwt("HS256", strings.Repeat("s", 32)),
		} {
			_, err := s.Keys.Authenticate(t.Context(), bad)
			require.ErrorIs(t, err, apierror.ErrUnauthenticated, "%q", bad)
		}
		session, err := s.Keys.LogIn(t.Context(), s.Secrets[access.RoleOperator], "")
		require.NoError(t, err)
		operator, err := s.Keys.Session(t.Context(), session)
		require.NoError(t, err)
		require.Equal(t, access.RoleOperator, operator.Role)
		_, err = s.Keys.LogIn(t.Context(), secret, "")
		jobstest.RequireCode(t, err, apierror.CodeForbidden)

		require.NoError(t, s.Keys.Revoke(t.Context(), s.Admin, s.Client.KeyID))
		require.NoError(t, s.Keys.Revoke(t.Context(), s.Admin, operator.KeyID))
		jobstest.RequireCode(t, s.Keys.Revoke(t.Context(), s.Admin, models.NewKeyID()), apierror.CodeNotFound)
		s.Exec(t, "UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = ?", s.Admin.KeyID)

		for _, role := range []access.Role{access.RoleClient, access.RoleOperator, access.RoleAdmin} {
			_, err := s.Keys.Authenticate(t.Context(), s.Secrets[role])
			require.ErrorIs(t, err, apierror.ErrUnauthenticated, role)
		}
		_, err = s.Keys.Session(t.Context(), session)
		require.ErrorIs(t, err, apierror.ErrUnauthenticated, "a revoked key ends its sessions")
		var secrets int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM api_keys k WHERE to_jsonb(k)::text LIKE ?", "%"+secret+"%").Scan(t.Context(),
			&secrets))
		require.Zero(t, secrets, "the secret itself is not kept")
	})

	t.Run("EndSessionsThatExpiredOrLoggedOut", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for name, end := range map[string]func(token string){
			"idle": func(string) {
				s.Exec(t, "UPDATE sessions SET last_seen_at = clock_timestamp() - interval '31 minutes'")
			},
			"over":       func(string) { s.Exec(t, "UPDATE sessions SET expires_at = clock_timestamp()") },
			"logged out": func(token string) { require.NoError(t, s.Keys.LogOut(t.Context(), token)) },
		} {
			token, err := s.Keys.LogIn(t.Context(), s.Secrets[access.RoleOperator], "")
			require.NoError(t, err)
			_, err = s.Keys.Session(t.Context(), token)
			require.NoError(t, err)
			end(token)
			_, err = s.Keys.Session(t.Context(), token)
			require.ErrorIs(t, err, apierror.ErrUnauthenticated, name)
		}
	})
}
