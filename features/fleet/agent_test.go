package fleet_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/stretchr/testify/require"
)

func TestEnrolment_Environment(t *testing.T) {
	t.Parallel()

	key, _ := secrets.New(secrets.KeyPrefix)
	workerToken, _ := secrets.New(secrets.WorkerPrefix)
	file := filepath.Join(t.TempDir(), "key")
	e := fleet.Enrolment{Endpoint: "https://reelay.example", KeyFile: file}

	_, err := e.Environment()
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, wrong := range []string{"", key + "\n" + key, workerToken, "hunter2"} {
		require.NoError(t, os.WriteFile(file, []byte(wrong), 0o600))
		_, err = e.Environment()
		require.ErrorContains(t, err, "must hold one key")
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.NoError(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	env, err := e.Environment()

	require.NoError(t, err)
	require.Equal(t, map[string]string{"REELAY_ENDPOINT": "https://reelay.example", "REELAY_API_KEY": key}, env)
	_, err = fleet.Enrolment{KeyFile: file}.Environment()
	require.ErrorContains(t, err, "REELAY_PUBLIC_URL")
	_, err = fleet.Enrolment{Endpoint: "https://reelay.example"}.Environment()
	require.ErrorContains(t, err, "REELAY_AGENT_KEY_FILE")
	env, err = fleet.Enrolment{Endpoint: "https://reelay.example", ByIdentity: true, Audience: "a"}.Environment()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"REELAY_ENDPOINT": "https://reelay.example", "REELAY_AGENT_IDENTITY_AUDIENCE": "a"}, env)
}
