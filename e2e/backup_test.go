package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/modelstest"
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

	database := modelstest.EmptyDSN(t)
	out, err = runWith(t, storesOf(t, s, database), "restore", folder)
	require.NoError(t, err, out)
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
