package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeadLetters(t *testing.T) {
	t.Parallel()

	t.Run("AreSettledAsTheirPageShows", func(t *testing.T) {
		t.Parallel()

		s := start(t, "--agents", "0")
		dir := s.show(t)
		blocks := s.blocks(t, "operators/dead-letters.md")
		require.Len(t, blocks, 2)

		out := shell(t, dir, strings.ReplaceAll(blocks[0]+blocks[1], "/tmp/rehearsal", filepath.Join(dir, "rehearsal")))

		for _, want := range []string{
			"  3      POISON  drill  ",
			" now, run 1\n",
			" runs again; follow it with: reelay watch job_",
			"2 jobs will be redriven; `reelay bulk list` shows the progress\n",
			"paused",
			`"finishedAt": "`,
			" is discarded\n",
		} {
			require.Contains(t, out, want)
		}
	})
}
