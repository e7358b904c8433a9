package quality

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestComplaints(t *testing.T) {
	t.Parallel()

	t.Run("OfTheHostAreNotOfTheFile", func(t *testing.T) {
		t.Parallel()
		for said, want := range map[string]struct {
			lines int
			first string
		}{
			"Warning: using insecure memory!\n": {0, ""},
			"libva error: vaGetDriverNameByIndex() failed\nWarning: using insecure memory!\n[mov @ 0x1] moov atom not found\n": {1, "moov atom not found"},
			"[h264 @ 0x1] error\nWarning: using insecure memory!\n[h264 @ 0x1] error 2\n":                                      {2, "error"},
			"clip.mp4: Invalid data": {0, "clip.mp4: Invalid data"},
		} {
			program := t.TempDir() + "/ffmpeg"
			// In pieces of a few bytes, as pipes may deliver them.
			testrun.WriteProgram(t, program, fmt.Sprintf("#!/bin/sh\nprintf '%%s' %s | dd bs=3 status=none >&2\n", quote(said)))

			complaints, _, err := run(t.Context(), program, nil, func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })

			require.NoError(t, err)
			require.Equal(t, want.lines, complaints.lines, said)
			require.Equal(t, want.first, complaints.first(), said)
		}
	})

	t.Run("AreBounded", func(t *testing.T) {
		t.Parallel()
		c := &complaints{}
		for range 100 {
			_, err := c.Write([]byte(strings.Repeat("x", 1000)))
			require.NoError(t, err)
		}
		require.LessOrEqual(t, c.text.Len(), maxComplaints)
		require.Less(t, len(c.rest), maxComplaints+1000)
	})
}

// quote quotes a text for the shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'"'"'`) + "'" }
