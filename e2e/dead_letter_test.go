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
		dir := s.stand(t)
		blocks := s.blocks(t, "operators/dead-letters.md")
		require.Len(t, blocks, 2)

		out := shell(t, dir, strings.ReplaceAll(blocks[0]+blocks[1], "/tmp/rehearsal", filepath.Join(dir, "rehearsal")))

		for _, want := range []string{
			`"failureClass":"POISON","model":"drill","count":3,`,
			`"status":"QUEUED","lane":"CRITICAL","run":2}`,
			`"redriveDeadLetters":2}`,
			`"matched":2,"done":1,"failed":0,"paused":true,`,
			`"paused":false}`,
			`"bulkOperation":{"done":2,"failed":0,"finishedAt":"`,
			`"resolution":"DISCARDED","resolvedBy":"key_`,
		} {
			require.Contains(t, out, want)
		}
	})
}
