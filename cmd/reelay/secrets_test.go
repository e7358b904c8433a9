package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretsCommand(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "secrets.json")
	run := func(verb string) (status int, out, errs string) { return call(t, t.Context(), "secrets", verb, file) }

	status, _, errs := run("show")
	require.NotZero(t, status)
	require.Contains(t, errs, "does not exist: make it with `reelay secrets create")
	status, out, errs := run("create")
	require.Zero(t, status, errs)
	require.Contains(t, out, " seals and opens\n1 link keys verify\n")
	require.Contains(t, errs, "Back it up")
	status, _, errs = run("create")
	require.NotZero(t, status)
	require.Contains(t, errs, "it is not overwritten")
	status, _, errs = run("use-keys")
	require.NotZero(t, status)
	require.Contains(t, errs, "add one first")
	status, out, errs = run("add-keys")
	require.Zero(t, status, errs)
	require.Regexp(t, `^key \d+ seals and opens\nkey \d+ opens\n2 link keys verify\n$`, out)
	status, out, errs = run("use-keys")
	require.Zero(t, status, errs)
	require.Regexp(t, `^key \d+ opens\nkey \d+ seals and opens\n2 link keys verify\n$`, out)

	status, out, errs = call(t, t.Context(), "secrets", "show", file, "--json")
	require.Zero(t, status, errs)
	var shown struct {
		File     string
		Keys     []struct{ ID uint32 }
		LinkKeys int
	}
	require.NoError(t, json.Unmarshal([]byte(out), &shown))
	require.Len(t, shown.Keys, 2)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var secrets struct{ LinkKey string }
	require.NoError(t, json.Unmarshal(text, &secrets))
	require.NotContains(t, out, secrets.LinkKey)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Chmod(file, 0o644))
	status, _, errs = run("add-keys")
	require.NotZero(t, status)
	require.Contains(t, errs, "chmod 600")
}
