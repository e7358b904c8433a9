package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/stretchr/testify/require"
)

func TestDownloadOutput(t *testing.T) {
	t.Parallel()
	url, _ := answering(t, `{"job": {"id": "job_1", "status": "COMPLETED", "output": {"text": "hello"}, "artifacts": []}}`)
	file := filepath.Join(t.TempDir(), "said.json")
	args := []string{"download", "job_1", "--output", file, "--endpoint", url, "--key", "rl_x"}

	status, out, errs := call(t, t.Context(), append(args, "--json")...)

	require.Zero(t, status, errs)
	require.Contains(t, out, `"kind": "output"`)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.JSONEq(t, `{"text": "hello"}`, string(data))
	status, _, errs = call(t, t.Context(), args...)
	require.Equal(t, 1, status)
	require.Contains(t, errs, "--force")
	status, _, errs = call(t, t.Context(), append(args, "--kind", "film")...)
	require.Equal(t, terminal.ExitUsage, status)
	require.Contains(t, errs, `--kind is "film": it must be video, thumbnail, output, preview, spritesheet, log or evidence`)
}
