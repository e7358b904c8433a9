package main

import (
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/stretchr/testify/require"
)

func TestHaltCommands(t *testing.T) {
	t.Parallel()

	const halted = `[{"what": "LEASES", "by": "night shift", "since": "2026-01-31T12:00:00Z", "reason": "storage is full"}]`
	for name, c := range map[string]struct {
		args      []string
		data      string
		shows     string
		variables map[string]any
	}{
		"halt": {[]string{"halt", "leases", "--reason", "storage is full"}, `{"halt": ` + halted + `}`,
			`^leases: halted by night shift .*ago: storage is full\n$`, map[string]any{"what": []any{"LEASES"}, "reason": "storage is full"}},
		"resume": {[]string{"resume", "all"}, `{"resume": []}`, `^Nothing is halted\.\n$`,
			map[string]any{"what": []any{"SCHEDULES", "LEASES"}}},
		"show":         {[]string{"halt"}, `{"halts": ` + halted + `}`, `^leases: halted by`, nil},
		"show as JSON": {[]string{"halt", "--json"}, `{"halts": []}`, `^\[\]\n$`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, variables := answering(t, c.data)

			status, out, errs := call(t, t.Context(), append(c.args, "--endpoint", url, "--key", "rl_x")...)

			require.Zero(t, status, errs)
			require.Regexp(t, c.shows, out)
			require.Equal(t, c.variables, *variables)
		})
	}
	for _, args := range [][]string{{"halt", "everything", "--reason", "x"}, {"resume"}, {"resume", "leases", "schedules"}} {
		status, _, errs := call(t, t.Context(), args...)
		require.Equal(t, terminal.ExitUsage, status, errs)
	}
	status, _, errs := call(t, t.Context(), "halt", "leases", "--endpoint", "http://127.0.0.1:1", "--key", "rl_x")
	require.NotZero(t, status)
	require.Contains(t, errs, "--reason")
}
