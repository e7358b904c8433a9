package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResolveTarget(t *testing.T) {
	t.Parallel()

	const running = `{"endpoint":"http://127.0.0.1:8080","clientKey":"rl_client","operatorKey":"rl_operator","adminKey":"rl_admin"}`
	tests := map[string]struct {
		target        target
		env           map[string]string
		file          string
		endpoint, key string
		wrong         string
	}{
		"UsesTheCredentialsOfARunningUp":   {file: running, endpoint: "http://127.0.0.1:8080", key: "rl_client"},
		"UsesTheOperatorsKeyWhereRequired": {target: target{operator: true}, file: running, endpoint: "http://127.0.0.1:8080", key: "rl_operator"},
		"TakesAnotherRole":                 {target: target{as: "Operator"}, file: running, endpoint: "http://127.0.0.1:8080", key: "rl_operator"},
		"TakesALesserRole":                 {target: target{as: "client", admin: true}, file: running, endpoint: "http://127.0.0.1:8080", key: "rl_client"},
		"TakesTheRoleBeforeTheEnvironment": {target: target{as: "admin"}, env: map[string]string{"REELAY_API_KEY": "rl_e"}, file: running, endpoint: "http://127.0.0.1:8080", key: "rl_admin"},
		"RefusesAStrangeRole":              {target: target{as: "worker"}, file: running, wrong: `--as is "worker": it must be client, operator or admin`},
		"RefusesARoleBesideAKey":           {target: target{as: "admin", key: "rl_f"}, file: running, wrong: "--key and --as are both given"},
		"RefusesARoleWithoutARunningUp":    {target: target{as: "admin"}, env: map[string]string{"REELAY_ENDPOINT": "http://e", "REELAY_API_KEY": "rl_e"}, wrong: "--as takes a key of a running `reelay up`"},
		"SendsTheKeyOfARoleNowhereElse":    {target: target{as: "admin", endpoint: "http://elsewhere"}, file: running, wrong: "no key for http://elsewhere"},
		"PrefersTheEnvironment": {env: map[string]string{"REELAY_ENDPOINT": "http://e", "REELAY_API_KEY": "rl_e"}, file: running,
			endpoint: "http://e", key: "rl_e"},
		"PrefersFlags": {target: target{endpoint: "http://f", key: "rl_f"}, env: map[string]string{"REELAY_ENDPOINT": "http://e", "REELAY_API_KEY": "rl_e"},
			endpoint: "http://f", key: "rl_f"},
		"SendsAnotherKeyToTheRunningUp":      {env: map[string]string{"REELAY_API_KEY": "rl_e"}, file: running, endpoint: "http://127.0.0.1:8080", key: "rl_e"},
		"SendsTheFilesKeyToItsOwnEndpoint":   {target: target{endpoint: "http://127.0.0.1:8080/"}, file: running, endpoint: "http://127.0.0.1:8080/", key: "rl_client"},
		"SendsTheFilesKeyToNoOtherEndpoint":  {target: target{endpoint: "http://elsewhere"}, file: running, wrong: "no key for http://elsewhere"},
		"SuggestsWhatToDoWithoutCredentials": {wrong: "`reelay up`"},
		"ReportsAMissingAddress":             {env: map[string]string{"REELAY_API_KEY": "rl_e"}, wrong: "REELAY_ENDPOINT"},
		"RefusesAFileThatUpDidNotWrite":      {file: "nonsense", wrong: "was not written by `reelay up`"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			test.target.data = t.TempDir()
			if test.file != "" {
				require.NoError(t, os.WriteFile(filepath.Join(test.target.data, credentialsFile), []byte(test.file), 0o600))
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

		shared := target{data: t.TempDir()}
		path := filepath.Join(shared.data, credentialsFile)
		require.NoError(t, os.WriteFile(path, []byte(running), 0o600))
		require.NoError(t, os.Chmod(path, 0o644))

		_, _, err := shared.resolve(func(string) string { return "" })

		require.ErrorContains(t, err, "chmod 600")
	})
}
