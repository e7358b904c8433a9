package e2e

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// storesOf returns the variables that lead other processes to the stores of a stack, but to another database.
func storesOf(t *testing.T, s *stack, database string) []string {
	text, err := os.ReadFile(filepath.Join(s.data, "stores.json"))
	require.NoError(t, err)
	var stores struct{ RedisURL, Store, EmulatorHost, AccessKey, SecretKey string }
	require.NoError(t, json.Unmarshal(text, &stores))
	return []string{
		"DATABASE_URL=" + database, "REDIS_URL=" + stores.RedisURL, "REELAY_STORE=" + stores.Store,
		"STORAGE_EMULATOR_HOST=" + stores.EmulatorHost,
		"REELAY_S3_ACCESS_KEY=" + stores.AccessKey, "REELAY_S3_SECRET_KEY=" + stores.SecretKey,
		"REELAY_SECRETS_FILE=" + filepath.Join(s.data, "secrets.json"),
	}
}

// runWith runs reelay with more variables, and returns what it printed.
func runWith(t *testing.T, env []string, args ...string) (string, error) {
	cmd := testrun.Command(t, reelay, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// interrupt kills a restore once the database has rows, before it is compared with the bucket.
func interrupt(t *testing.T, env []string, database, folder string) {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // in place of the bucket
	require.NoError(t, err)
	defer silent.Close()
	cmd := testrun.Command(t, reelay, "restore", folder)
	cmd.Env = append(append(os.Environ(), env...), "REELAY_STORE=gs://reelay", "STORAGE_EMULATOR_HOST="+silent.Addr().String())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	testrun.Eventually(t, "the database is restored, and halted at once", func() bool {
		restored, halts := halted(t, database)
		require.True(t, !restored || len(halts) == len(models.HaltTargets))
		require.True(t, restored || len(ended) == 0, "it ended by itself: %s", &out)
		return restored
	})
	require.NoError(t, cmd.Process.Kill())
	require.ErrorContains(t, <-ended, "killed")
}

// halted reports whether a database has tables, and what is halted.
func halted(t *testing.T, database string) (restored bool, halts []models.Halt) {
	t.Helper()
	db, done, err := postgres.Open(t.Context(), database, 1)
	require.NoError(t, err)
	defer done()
	require.NoError(t, db.NewRaw("SELECT to_regclass('jobs') IS NOT NULL").Scan(t.Context(), &restored))
	if restored {
		halts, err = models.ListHalts(t.Context(), db)
		require.NoError(t, err)
	}
	return restored, halts
}

// TestBackup is the drill: a backup, more work, the loss of the database, and a restore beside the objects of
// today.
func TestBackup(t *testing.T) {
	t.Parallel()

	s := start(t, "--agents", "1")
	c := s.client(t)
	kept, deleted := submit(t, c, "kept", 1, 0), submit(t, c, "deleted after the backup", 1, 0)
	until(t, c, kept, completed)
	until(t, c, deleted, completed)
	_, err := s.operator(t).Halt(t.Context(), []client.HaltTarget{client.HaltTargetLeases}, "a backup with a job that waits")
	require.NoError(t, err)
	waiting := submit(t, c, "waiting at the backup", 1, 0)
	folder := filepath.Join(t.TempDir(), "monday")

	out, err := runWith(t, nil, "backup", folder, "--data", s.data)
	require.NoError(t, err, out)
	require.Contains(t, out, "It cannot be read without the secrets file")
	out, err = runWith(t, nil, "backup", folder, "--data", s.data)
	require.Error(t, err)
	require.Contains(t, out, "name a new folder")

	_, err = c.DeleteJob(t.Context(), deleted)
	require.NoError(t, err)
	_, err = s.operator(t).Resume(t.Context(), []client.HaltTarget{client.HaltTargetLeases})
	require.NoError(t, err)
	until(t, c, waiting, completed)
	late := submit(t, c, "after the backup", 1, 0)
	until(t, c, late, completed)
	testrun.Eventually(t, "the object of the deleted job is gone", func() bool {
		listed := filepath.Join(t.TempDir(), "now")
		out, err := runWith(t, nil, "backup", listed, "--data", s.data)
		require.NoError(t, err, out)
		objects, err := os.ReadFile(filepath.Join(listed, "objects.jsonl"))
		require.NoError(t, err)
		return !strings.Contains(string(objects), deleted)
	})

	for name, damage := range map[string]func(folder string) string{
		"it is no backup": func(folder string) string { return filepath.Dir(folder) },
		"is damaged: its SHA-256": func(folder string) string {
			bad := filepath.Join(t.TempDir(), "bad")
			require.NoError(t, os.CopyFS(bad, os.DirFS(folder)))
			dump, err := os.ReadFile(filepath.Join(bad, "database.dump"))
			require.NoError(t, err)
			dump[len(dump)/2] ^= 1
			require.NoError(t, os.WriteFile(filepath.Join(bad, "database.dump"), dump, 0o600))
			return bad
		},
	} {
		out, err := runWith(t, storesOf(t, s, modelstest.EmptyDSN(t)), "restore", damage(folder))
		require.Error(t, err)
		require.Contains(t, out, name)
	}
	out, err = runWith(t, storesOf(t, s, modelstest.DSN(t)), "restore", folder)
	require.Error(t, err)
	require.Contains(t, out, "is not empty: make a new one")

	later := filepath.Join(t.TempDir(), "tuesday")
	out, err = runWith(t, nil, "backup", later, "--data", s.data)
	require.NoError(t, err, out)
	database := modelstest.EmptyDSN(t)
	interrupt(t, storesOf(t, s, database), database, folder)
	_, halts := halted(t, database)
	require.Contains(t, halts[0].Reason, "did not end. Run `reelay restore` with its folder again.")
	out, err = runWith(t, storesOf(t, s, database), "restore", later)
	require.Error(t, err, "that is another backup")
	require.Contains(t, out, "did not end")
	early, err := launchWith([]string{"DATABASE_URL=" + database, "REELAY_SECRETS_FILE=" + filepath.Join(s.data, "secrets.json")},
		dataDir(t), "--agents", "1")
	require.NoError(t, err, "an api starts too early")
	early.endWith(t)
	stays, err := early.client(t).Job(t.Context(), waiting)
	require.NoError(t, err)
	require.Equal(t, client.JobStatusQueued, stays.Status, "it gets no worker")
	early.end()
	out, err = runWith(t, storesOf(t, s, database), "restore", folder)
	require.NoError(t, err, out)
	require.Contains(t, out, "going on with a restore that did not end")
	_, halts = halted(t, database)
	require.Contains(t, halts[0].Reason, "The database was restored as of")
	require.Contains(t, out, "1 objects that it names are gone")
	s.end()
	restored, err := launchWith([]string{"DATABASE_URL=" + database}, s.data, "--agents", "1")
	require.NoError(t, err)
	restored.endWith(t)

	c = restored.client(t)
	job, err := c.Job(t.Context(), waiting)
	require.NoError(t, err)
	require.Equal(t, client.JobStatusQueued, job.Status, "as at the backup")
	_, err = restored.operator(t).Resume(t.Context(), []client.HaltTarget{client.HaltTargetLeases, client.HaltTargetSchedules})
	require.NoError(t, err)
	until(t, c, waiting, completed)
	video, err := c.Job(t.Context(), kept)
	require.NoError(t, err)
	require.NotEmpty(t, frames(t, c, video), "the video of before is there")
	gone, err := c.Job(t.Context(), deleted)
	require.NoError(t, err)
	require.Nil(t, gone.Result, "its object was deleted after the backup")
	_, err = c.Job(t.Context(), late)
	require.Error(t, err, "the backup is older")
	out, err = runWith(t, nil, "doctor", "--full", "--hash", "--data", restored.data)
	require.NoError(t, err, out)
	require.NotContains(t, out, "broken")
}
