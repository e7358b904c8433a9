package connect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/stretchr/testify/require"
)

func TestResolveTarget(t *testing.T) {
	t.Parallel()

	const running = `{"endpoint":"http://127.0.0.1:8080","clientKey":"rl_client","operatorKey":"rl_operator","adminKey":"rl_admin"}`
	tests := map[string]struct {
		target        Target
		env           map[string]string
		file          string
		endpoint, key string
		wrong         string
	}{
		"UsesTheCredentialsOfARunningUp": {file: running, endpoint: "http://127.0.0.1:8080", key: "rl_client"},
		"UsesTheOperatorsKeyWhereRequired": {target: Target{Operator: true}, file: running, endpoint: "http://127.0.0.1:8080",
			key: "rl_operator"},
		"TakesAnotherRole": {target: Target{as: "Operator"}, file: running, endpoint: "http://127.0.0.1:8080",
			key: "rl_operator"},
		"TakesALesserRole": {target: Target{as: "client", Admin: true}, file: running, endpoint: "http://127.0.0.1:8080",
			key: "rl_client"},
		"TakesTheRoleBeforeTheEnvironment": {target: Target{as: "admin"}, env: map[string]string{"REELAY_API_KEY": "rl_e"}, file: running,
			endpoint: "http://127.0.0.1:8080", key: "rl_admin"},
		"RefusesAStrangeRole": {target: Target{as: "worker"}, file: running,
			wrong: `--as is "worker": it must be client, operator or admin`},
		"RefusesARoleBesideAKey": {target: Target{as: "admin", key: "rl_f"}, file: running, wrong: "--key and --as are both given"},
		"RefusesARoleWithoutARunningUp": {target: Target{as: "admin"}, env: map[string]string{"REELAY_ENDPOINT": "http://e",
			"REELAY_API_KEY": "rl_e"}, wrong: "--as takes a key of a running `reelay up`"},
		"SendsTheKeyOfARoleNowhereElse": {target: Target{as: "admin", endpoint: "http://elsewhere"}, file: running,
			wrong: "no key for http://elsewhere"},
		"PrefersTheEnvironment": {env: map[string]string{"REELAY_ENDPOINT": "http://e", "REELAY_API_KEY": "rl_e"}, file: running,
			endpoint: "http://e", key: "rl_e"},
		"PrefersFlags": {target: Target{endpoint: "http://f", key: "rl_f"}, env: map[string]string{"REELAY_ENDPOINT": "http://e",
			"REELAY_API_KEY": "rl_e"},
			endpoint: "http://f", key: "rl_f"},
		"SendsAnotherKeyToTheRunningUp": {env: map[string]string{"REELAY_API_KEY": "rl_e"}, file: running, endpoint: "http://127.0.0.1:8080",
			key: "rl_e"},
		"SendsTheFilesKeyToItsOwnEndpoint": {target: Target{endpoint: "http://127.0.0.1:8080/"}, file: running,
			endpoint: "http://127.0.0.1:8080/", key: "rl_client"},
		"SendsTheFilesKeyToNoOtherEndpoint":  {target: Target{endpoint: "http://elsewhere"}, file: running, wrong: "no key for http://elsewhere"},
		"SuggestsWhatToDoWithoutCredentials": {wrong: "`reelay up`"},
		"ReportsAMissingAddress":             {env: map[string]string{"REELAY_API_KEY": "rl_e"}, wrong: "REELAY_ENDPOINT"},
		"RefusesAFileThatUpDidNotWrite":      {file: "nonsense", wrong: "was not written by `reelay up`"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			test.target.data = t.TempDir()
			if test.file != "" {
				require.NoError(t, os.WriteFile(filepath.Join(test.target.data, credentials.FileName), []byte(test.file), 0o600))
			}

			endpoint, key, err := test.target.resolve(func(name string) string { return test.env[name] })

			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{test.endpoint, test.key}, []string{endpoint, key})
		})
	}
	t.Run("RefusesAFileThatOtherUsersCanRead", func(t *testing.T) {
		t.Parallel()

		shared := Target{data: t.TempDir()}
		path := filepath.Join(shared.data, credentials.FileName)
		require.NoError(t, os.WriteFile(path, []byte(running), 0o600))
		require.NoError(t, os.Chmod(path, 0o644))

		_, _, err := shared.resolve(func(string) string { return "" })

		require.ErrorContains(t, err, "chmod 600")
	})
}
