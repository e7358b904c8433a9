package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// soldOut is a program of a cloud that has no machines.
const soldOut = `#!/bin/sh
id=$(grep -o '"id":"reelay-test[^"]*' | cut -d'"' -f4)
case $1 in
create) echo "none left" >&2; exit 10 ;;
list) ;;
delete) for id in $id; do echo "{\"id\": \"$id\"}"; done ;;
*) exit 14 ;;
esac
`

// denied is a program of a cloud whose key is not set.
const denied = `#!/bin/sh
case $1 in create | list | delete) echo "the environment of control lacks CLOUD_KEY" >&2; exit 12 ;; *) exit 14 ;; esac
`

func TestProvidersTest(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	program, pools := filepath.Join(folder, "cloud"), filepath.Join(folder, "pools.yaml")
	testrun.WriteProgram(t, program, soldOut)
	testrun.WriteProgram(t, filepath.Join(folder, "denied"), denied)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "data"), nil, 0o600))
	require.NoError(t, os.WriteFile(pools, []byte(`pools:
  - { name: a, provider: command, maxWorkers: 1, settings: { program: other, timeoutSeconds: 10 } }
  - { name: b, provider: gce, maxWorkers: 1 }
`), 0o600))

	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"NeedsAProgram": {nil, terminal.ExitUsage, "PROGRAM is missing"},
		"NeedsAnAnswer": {[]string{program}, terminal.ExitUsage,
			"which may cost money. Continue?\nThis is not a terminal, so nobody was asked and nothing was done: answer with --yes"},
		"NoSuchProgram":           {[]string{program + "x", "--yes"}, terminal.ExitFailed, "the program cloudx is not in the folder"},
		"NoSuchProgramNoQuestion": {[]string{program + "x"}, terminal.ExitFailed, "the program cloudx is not in the folder"},
		"AnotherProgram": {[]string{program, "--file", pools, "--pool", "a"}, terminal.ExitUsage,
			"The program of the pool is other: this tests cloud with the pool's options."},
		"NoKey": {[]string{filepath.Join(folder, "denied"), "--yes"}, terminal.ExitFailed,
			"Fix    Set the credentials and variables of the program in this shell"},
		"OneLineForTheRest": {[]string{filepath.Join(folder, "denied"), "--yes"}, terminal.ExitFailed,
			"untested 12 checks           The check \"list\" must pass first: unknown-verb, delete-unknown, preempt-unknown, create, repeat,"},
		"NotExecutable":        {[]string{filepath.Join(folder, "data"), "--yes"}, terminal.ExitFailed, "make it executable"},
		"ABadName":             {[]string{folder + "/-x", "--yes"}, terminal.ExitFailed, "settings.program must"},
		"TooManyMachines":      {[]string{program, "--yes", "--machines", "6"}, terminal.ExitUsage, "--machines is 6: it must be from 1 to 5"},
		"NoMachines":           {[]string{program, "--yes", "--machines", "0"}, terminal.ExitUsage, "--machines is 0"},
		"ALongWait":            {[]string{program, "--yes", "--wait", "2h"}, terminal.ExitUsage, "--wait is 2h0m0s"},
		"SettingsOfAnotherWay": {[]string{program, "--yes", "--settings", "[]"}, terminal.ExitFailed, "must be a JSON object"},
		"UnknownSettings":      {[]string{program, "--yes", "--settings", `{"image": "x"}`}, terminal.ExitFailed, `settings have no field "image"`},
		"PoolWithoutFile":      {[]string{program, "--yes", "--pool", "a"}, terminal.ExitUsage, "give both"},
		"NoSuchFile":           {[]string{program, "--yes", "--file", pools + "x"}, terminal.ExitFailed, "no such file"},
		"SeveralPools":         {[]string{program, "--yes", "--file", pools}, terminal.ExitFailed, "has 2 pools: name one with --pool"},
		"NoSuchPool":           {[]string{program, "--yes", "--file", pools, "--pool", "c"}, terminal.ExitFailed, "has no pool c"},
		"AnotherProvider":      {[]string{program, "--yes", "--file", pools, "--pool", "b"}, terminal.ExitFailed, "has the provider gce"},
		"Text":                 {[]string{program, "--yes", "--wait", "1s"}, terminal.ExitFailed, "untested create"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, out, errs := call(t, t.Context(), append([]string{"providers", "test"}, c.args...)...)
			require.Equal(t, c.status, status, out+errs)
			require.Contains(t, out+errs, c.says)
			require.LessOrEqual(t, strings.Count(out, "\nuntested "), 2, out)
		})
	}

	status, out, errs := call(t, t.Context(), "providers", "test", program, "--yes", "--wait", "1s", "--json", "--file", pools, "--pool", "a")
	require.Equal(t, terminal.ExitFailed, status, errs)
	require.Contains(t, errs, "5 of 13: creates 2 machines in one call")
	require.Contains(t, errs, "not all checks passed")
	var report command.TestReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Findings, 13)
	require.Equal(t, command.LevelUntested, report.Findings[4].Level)
	require.Contains(t, report.Findings[4].Found, "none left")
	require.Empty(t, report.Remaining)
}
