package models_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// written writes in a transaction of its own.
func written(t *testing.T, db *bun.DB, w models.Writes) error {
	t.Helper()
	return db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error { return w.Write(ctx, tx) })
}

// issuedTo returns a key for a checkpoint of an attempt.
func issuedTo(a *models.Attempt, key string) *models.IssuedUpload {
	return &models.IssuedUpload{
		ObjectKey: key, JobID: a.JobID, AttemptID: a.ID, Type: models.ArtifactCheckpoint,
		ContentType: "application/x-state", SizeBytes: 1 << 40, Checksum: "AAAAAA==",
	}
}

// keptAs returns a checkpoint under an issued key.
func keptAs(account models.AccountID, key string, at time.Time) *models.Artifact {
	return &models.Artifact{
		ID: models.NewArtifactID(), AccountID: account, ObjectKey: key, Step: new(7), Percent: new(12.5),
		Metadata: json.RawMessage(`{"a": "ü"}`), CreatedAt: at,
	}
}

// leasable returns a job, and a worker without an attempt.
func leasable(t *testing.T, db *bun.DB) (*models.Job, models.WorkerID) {
	t.Helper()
	modelstest.FillWith(t, db, 4, 20, 20, 8)
	job, worker := new(models.Job), liveFences(t, db, 1)[0].WorkerID
	require.NoError(t, db.NewSelect().Model(job).Where("j.status = 'QUEUED'").Limit(1).Scan(t.Context()))
	_, err := db.NewRaw("DELETE FROM job_attempts WHERE worker_id = ?", worker).Exec(t.Context())
	require.NoError(t, err)
	return job, worker
}

func TestWritesAtOnce(t *testing.T) {
	t.Parallel()

	t.Run("WriteEverything", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		job, worker := leasable(t, db)
		at := time.Now().UTC().Truncate(time.Microsecond)
		begun := &models.Attempt{
			ID: models.NewAttemptID(), JobID: job.ID, Run: 1, AttemptNo: 3, WorkerID: worker, FencingToken: models.NewFencingToken(),
			Status: models.AttemptLeased, LeasedAt: at, LeaseExpiresAt: at.Add(time.Minute), LastHeartbeatAt: at,
		}
		event := &models.JobEvent{
			JobID: job.ID, Seq: 41, Run: 1, AttemptID: begun.ID, Type: models.EventProgress, Payload: json.RawMessage(`{"b": 1}`), CreatedAt: at,
		}
		bare := &models.JobEvent{JobID: job.ID, Seq: 42, Run: 1, Type: models.EventProgress, Payload: json.RawMessage(`{}`), CreatedAt: at}
		require.NoError(t, written(t, db, models.Writes{Begun: []*models.Attempt{begun}, Events: []*models.JobEvent{event, bare}}))
		is := *begun
		is.LeaseRequestID, is.Uploads = "", 1
		first := issuedTo(begun, "checkpoints/one")
		require.NoError(t, written(t, db, models.Writes{
			Attempts: []*models.Attempt{&is}, Issued: []*models.IssuedUpload{first, issuedTo(begun, "checkpoints/two")},
		}))
		checkpoint := keptAs(job.AccountID, "checkpoints/one", at)

		require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			require.NoError(t, (&models.Writes{Artifacts: []*models.Artifact{checkpoint}}).Write(ctx, tx))
			var free int
			require.NoError(t, db.NewRaw("SELECT count(*) FROM (SELECT FROM accounts FOR UPDATE SKIP LOCKED) f").Scan(ctx, &free))
			require.Equal(t, 4, free, "who writes an artifact has no lock on its account")
			return nil
		}))

		attempt, err := models.GetAttempt(t.Context(), db, begun.ID)
		require.NoError(t, err)
		require.Equal(t, plain(t, is), plain(t, *attempt))
		issued, err := models.FindUploads(t.Context(), db, []string{"checkpoints/one", "checkpoints/none"})
		require.NoError(t, err)
		require.Len(t, issued, 1)
		first.CreatedAt = issued[0].CreatedAt // set by PostgreSQL
		require.Equal(t, first, issued[0])
		kept, err := models.GetArtifacts(t.Context(), db, []models.ArtifactID{checkpoint.ID})
		require.NoError(t, err)
		expected := *checkpoint
		expected.JobID, expected.AttemptID, expected.Type = job.ID, begun.ID, models.ArtifactCheckpoint
		expected.SizeBytes, expected.Checksum, expected.ContentType = first.SizeBytes, first.Checksum, first.ContentType
		require.Len(t, kept, 1)
		require.Equal(t, plain(t, expected), plain(t, *kept[0]))
		var events []*models.JobEvent
		require.NoError(t, db.NewSelect().Model(&events).Where("job_id = ?", job.ID).Order("seq").Scan(t.Context()))
		require.Len(t, events, 2)
		require.Equal(t, plain(t, *event), plain(t, *events[0]))
		require.Equal(t, plain(t, *bare), plain(t, *events[1]))
	})

	t.Run("RefuseObjectKeysThatWereNotIssuedOrAreUsed", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 4, 20, 20, 8)
		attempt, job := new(models.Attempt), new(models.Job)
		require.NoError(t, db.NewSelect().Model(attempt).Where("a.ended_at IS NULL").Limit(1).Scan(t.Context()))
		require.NoError(t, db.NewSelect().Model(job).Where("j.id = ?", attempt.JobID).Scan(t.Context()))
		require.NoError(t, written(t, db, models.Writes{Issued: []*models.IssuedUpload{issuedTo(attempt, "one"), issuedTo(attempt, "two")}}))
		require.NoError(t, written(t, db, models.Writes{Artifacts: []*models.Artifact{keptAs(job.AccountID, "one", time.Now())}}))
		event := []*models.JobEvent{{JobID: job.ID, Seq: 9, Run: 1, Type: models.EventProgress, Payload: json.RawMessage(`{}`),
			CreatedAt: time.Now()}}

		notIssued := written(t, db, models.Writes{
			Artifacts: []*models.Artifact{keptAs(job.AccountID, "two", time.Now()), keptAs(job.AccountID, "three", time.Now())}, Events: event,
		})
		taken := written(t, db, models.Writes{Artifacts: []*models.Artifact{keptAs(job.AccountID, "one", time.Now())}, Events: event})

		require.ErrorIs(t, notIssued, sql.ErrNoRows)
		require.ErrorContains(t, taken, "artifacts_of_object")
		for table, n := range map[string]int{"artifacts": 1, "job_events": 0} {
			var rows int
			require.NoError(t, db.NewRaw("SELECT count(*) FROM ?", bun.Ident(table)).Scan(t.Context(), &rows))
			require.Equal(t, n, rows, table)
		}
	})

	t.Run("UseFewPlansForManySetsOfColumns", func(t *testing.T) {
		t.Parallel()

		db, done, err := postgres.Open(t.Context(), modelstest.DSN(t), 1)
		require.NoError(t, err)
		t.Cleanup(done)
		modelstest.FillWith(t, db, 1, 1, 1, 1)
		job := new(models.Job)
		require.NoError(t, db.NewSelect().Model(job).Where("j.status = 'QUEUED'").Scan(t.Context()))

		for set := 1; set < 200; set++ {
			is := *job
			for i, column := range []*int{&is.EventSeq, &is.AttemptNo, &is.Priority, &is.TimeoutSeconds, &is.MaxAttempts, &is.Crashes, &is.Failures,
				&is.GPURank} {
				*column ^= set >> i & 1
			}
			require.NoError(t, written(t, db, models.Writes{Jobs: []models.Changed[models.Job]{{Was: job, Is: &is}}}))
			job = &is
		}

		var plans int
		require.NoError(t, db.NewRaw("SELECT count(*) FROM pg_prepared_statements").Scan(t.Context(), &plans))
		require.LessOrEqual(t, plans, 130)
	})

	t.Run("KeepTheAccountsRunningLimit", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		job, _ := leasable(t, db)
		_, err := db.NewRaw("UPDATE accounts SET running = max_running - 2 WHERE id = ?", job.AccountID).Exec(t.Context())
		require.NoError(t, err)
		more := func(running int) models.Writes {
			return models.Writes{Count: models.Count{Accounts: []models.AccountCount{{ID: job.AccountID, Running: running}}}}
		}

		require.ErrorIs(t, written(t, db, more(3)), models.ErrNoRoom)
		require.NoError(t, written(t, db, more(2)))
		require.ErrorIs(t, written(t, db, more(1)), models.ErrNoRoom)
		_, err = db.NewRaw("UPDATE accounts SET max_running = 1 WHERE id = ?", job.AccountID).Exec(t.Context())
		require.NoError(t, err)
		require.NoError(t, written(t, db, more(-1)), "those that run end, whatever the cap is by now")
	})

	t.Run("KeepTheAccountsQueueLimit", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		job, _ := leasable(t, db)
		_, err := db.NewRaw("UPDATE accounts SET max_queued = queued + 1 WHERE id = ?", job.AccountID).Exec(t.Context())
		require.NoError(t, err)
		more := func(bounded bool) models.Writes {
			return models.Writes{Count: models.Count{Accounts: []models.AccountCount{{ID: job.AccountID, Queued: 1, Bounded: bounded}}}}
		}

		require.NoError(t, written(t, db, more(true)))
		require.ErrorIs(t, written(t, db, more(true)), models.ErrNoRoom)
		require.NoError(t, written(t, db, more(false)), "a job that was queued before comes back")
	})

	t.Run("LockAccountsInOrder", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 4, 20, 20, 8)
		var ids []models.AccountID
		require.NoError(t, db.NewRaw("SELECT id FROM accounts ORDER BY id DESC").Scan(t.Context(), &ids))
		var counts []models.AccountCount
		for _, id := range ids {
			counts = append(counts, models.AccountCount{ID: id, Queued: 1})
		}
		holder, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer holder.Rollback()
		_, err = models.LockAccount(t.Context(), holder, ids[1]) // the last but one
		require.NoError(t, err)
		wrote := make(chan error, 1)
		go func() {
			wrote <- db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				if _, _, err := models.LockLeases(ctx, tx, nil, 0); err != nil {
					return err
				}
				w := models.Writes{Count: models.Count{Accounts: counts}}
				return w.Write(ctx, tx)
			})
		}()
		waitForLock(t, db)

		var untouched []models.AccountID
		require.NoError(t, db.NewRaw("SELECT id FROM accounts ORDER BY id FOR NO KEY UPDATE SKIP LOCKED").Scan(t.Context(), &untouched))

		require.Equal(t, ids[:1], untouched)
		require.NoError(t, holder.Commit())
		require.NoError(t, <-wrote)
	})

	t.Run("DoNothingWithoutWrites", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, written(t, modelstest.DB(t), models.Writes{}))
	})
}

func TestLookUpObjects(t *testing.T) {
	t.Parallel()

	t.Run("ReturnsIssuedAndCommittedObjectsAndLocksTheKeys", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 4, 20, 20, 8)
		attempt, job := new(models.Attempt), new(models.Job)
		require.NoError(t, db.NewSelect().Model(attempt).Where("a.ended_at IS NULL").Limit(1).Scan(t.Context()))
		require.NoError(t, db.NewSelect().Model(job).Where("j.id = ?", attempt.JobID).Scan(t.Context()))
		require.NoError(t, written(t, db, models.Writes{Issued: []*models.IssuedUpload{issuedTo(attempt, "one"), issuedTo(attempt, "two"),
			issuedTo(attempt, "old")}}))
		first, old := keptAs(job.AccountID, "one", time.Now()), keptAs(job.AccountID, "old", time.Now())
		require.NoError(t, written(t, db, models.Writes{Artifacts: []*models.Artifact{first, old}}))
		_, err := db.NewRaw("DELETE FROM uploads WHERE object_key = 'old'").Exec(t.Context())
		require.NoError(t, err)

		require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			known, err := models.LookUpObjects(ctx, tx, []string{"one", "two", "old", "never", "one"})

			require.NoError(t, err)
			require.Len(t, known, 4)
			require.True(t, known["one"].Issued)
			kept, err := models.GetArtifacts(ctx, tx, []models.ArtifactID{first.ID, old.ID})
			require.NoError(t, err)
			require.ElementsMatch(t, kept, []*models.Artifact{known["one"].Artifact, known["old"].Artifact})
			require.Equal(t, models.KnownObject{Issued: true}, known["two"])
			require.False(t, known["old"].Issued)
			require.Equal(t, models.KnownObject{}, known["never"])
			var deletable []string
			require.NoError(t, db.NewRaw("SELECT object_key FROM uploads FOR UPDATE SKIP LOCKED").Scan(t.Context(), &deletable))
			require.Empty(t, deletable, "nobody deletes them before the transaction ends")
			return nil
		}))
	})
}
