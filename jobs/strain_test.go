package jobs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// smallDisk mounts a file system of the test's own.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "reelay-disk-")
	require.NoError(t, err)
	t.Cleanup(func() { os.Remove(dir) })
	if said, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256m,mode=755", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a file system of its own takes Linux and root: %v: %s", err, said)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	return dir
}

// TestFullDisk covers a PostgreSQL without free disk space.
func TestFullDisk(t *testing.T) {
	t.Parallel()

	disk := smallDisk(t)
	server, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: filepath.Join(disk, "postgres"), Test: true})
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop(context.Background()) })
	patient, done, err := postgres.OpenPatient(t.Context(), server.DSN(), 2)
	require.NoError(t, err)
	_, err = migrations.Run(t.Context(), patient)
	require.NoError(t, err)
	done()
	db, done, err := postgres.Open(t.Context(), server.DSN(), 8)
	require.NoError(t, err)
	t.Cleanup(done)
	s := jobstest.Over(t, db)
	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	require.NoError(t, err)
	for err == nil {
		_, err = ballast.Write(make([]byte, 64<<10))
	}
	require.NoError(t, ballast.Close())

	accepted := 0
	for {
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, jobstest.Submission())
		if err != nil {
			require.True(t, postgres.IsOutage(err), "%v", err)
			break
		}
		accepted++
		require.Less(t, accepted, 10_000, "there is room after all")
	}
	require.NoError(t, os.Remove(ballast.Name()))

	testrun.Eventually(t, "submissions are taken again", func() bool {
		select {
		case <-server.Done(): // it may have panicked without being able to recover
			server.Restart(context.Background())
			return false
		default:
		}
		_, _, err := s.Submitter.Submit(context.Background(), s.Client, jobstest.Submission())
		return err == nil
	})
	require.GreaterOrEqual(t, s.Count(t, "jobs"), accepted+1, "what was accepted is there")
	s.RequireInvariants(t)
}

// TestOldSnapshot covers a transaction that was left open: PostgreSQL cannot clean up dead
// rows of the queue.
func TestOldSnapshot(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	s.Submit(t)
	worker := s.Worker(t, "one")
	claims := func() time.Duration {
		var took []time.Duration
		for range 21 {
			begun := time.Now()
			_, fence := s.Lease(t, worker)
			took = append(took, time.Since(begun))
			_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
			require.NoError(t, err)
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	s.Index().Lose() // PostgreSQL alone decides
	fresh := claims()

	reader, err := s.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer reader.Rollback()
	for _, query := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET idle_in_transaction_session_timeout = 0",
		"SELECT count(*) FROM jobs"} {
		_, err := reader.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	// Ten minutes of 20 jobs a second that all passed through the queue.
	s.Exec(t, `INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, queued_at)
		SELECT gen_random_uuid(), account_id, type, model, 'QUEUED', tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, queued_at - interval '1 h'
		FROM jobs, generate_series(1, 12000) WHERE status = 'QUEUED'`)
	s.Exec(t, `UPDATE jobs SET status = 'FAILED', failure_class = 'TRANSIENT', completed_at = clock_timestamp() WHERE queued_at < clock_timestamp() - interval '30 minutes'`)

	// A busy machine delays some rounds; a claim that reads all of them is always slow.
	limit, took := max(10*fresh, 50*time.Millisecond), claims()
	for range 9 {
		if took < limit {
			break
		}
		took = claims()
	}
	require.Less(t, took, limit, "fresh: %s", fresh)
}
