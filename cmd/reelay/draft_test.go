package main

import (
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/stretchr/testify/require"
)

func TestDraftOfNoSeeds(t *testing.T) {
	t.Parallel()

	status, _, errs := call(t, t.Context(), "draft", "--prompt", "a fox", "--steps", "2", "--seeds", "0", "--endpoint", "http://127.0.0.1:1",
		"--key", "k")

	require.Equal(t, terminal.ExitUsage, status)
	require.Contains(t, errs, "--seeds must be from 1 to 64")
}

func TestDraftUsage(t *testing.T) {
	t.Parallel()

	t.Run("ShowsWhatBecameOfTheDrafts", func(t *testing.T) {
		t.Parallel()
		url, variables := answering(t,
			`{"draftUsage": {"undecided": {"drafts": 1, "gpuSeconds": 2.5}, "continued": {"drafts": 3, "gpuSeconds": 7},
			"discarded": {"drafts": 0, "gpuSeconds": 0}}}`)

		status, out, errs := call(t, t.Context(), "draft", "usage", "--days", "7", "--endpoint", url, "--key", "rl_x")

		require.Zero(t, status, errs)
		require.Regexp(t, `(?s)undecided +1 +2.5 s.*continued +3 +7.0 s.*discarded +0 +0.0 s`, out)
		require.Equal(t, map[string]any{"days": 7.0}, *variables)
	})
}
