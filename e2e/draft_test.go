package e2e

import (
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDraft makes two drafts, continues one, and compares its video with one that was made at
// once.
func TestDraft(t *testing.T) {
	t.Parallel()
	s := common(t)
	c := s.client(t)
	sheet := filepath.Join(t.TempDir(), "sheet.png")
	scene := []string{"--prompt", "a fox in the snow", "--duration", "2", "--pace", "0"}

	out, errs, status := s.command(t, append([]string{"draft", "--seed-list", "7,11", "--steps", "2", "--sheet", sheet, "--json"},
		scene...)...)
	require.Zero(t, status, errs)
	var shown struct {
		Takes, Sheet string
		Drafts       []struct {
			ID, Status string
			Result     any
			Draft      struct {
				Steps     int
				Preview   struct{ ContentType string }
				KeptUntil string
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &shown), out)
	require.Len(t, shown.Drafts, 2)
	for _, draft := range shown.Drafts {
		require.Equal(t, "COMPLETED", draft.Status)
		require.Nil(t, draft.Result, "a draft has no video")
		require.NotEmpty(t, draft.Draft.Preview.ContentType)
		require.NotEmpty(t, draft.Draft.KeptUntil)
	}
	file, err := os.Open(sheet)
	require.NoError(t, err)
	defer file.Close()
	_, err = png.Decode(file)
	require.NoError(t, err, "the contact sheet is a picture")

	continued := s.document(t, "continue", shown.Drafts[1].ID, "--wait")
	again := s.document(t, "continue", shown.Drafts[1].ID)
	whole := s.document(t, append([]string{"submit", "--seed", "11", "--wait"}, scene...)...)

	require.Equal(t, field(t, continued, "id"), field(t, again, "id"), "a draft is continued once")
	first, err := c.Job(t.Context(), field(t, continued, "id"))
	require.NoError(t, err)
	second, err := c.Job(t.Context(), field(t, whole, "id"))
	require.NoError(t, err)
	require.Equal(t, frames(t, c, second), frames(t, c, first))
	history, err := c.JobHistory(t.Context(), first.Id)
	require.NoError(t, err)
	require.Equal(t, 2, *history.Attempts[0].ResumedFromStep)
	listed, errs, status := s.command(t, "takes", shown.Takes, "--sheet", sheet)
	require.Zero(t, status, errs)
	require.Contains(t, listed, "continued by "+first.Id)
}
