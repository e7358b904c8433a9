package models_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func FuzzParseVideoID(f *testing.F) {
	id := models.NewJobID()
	shown := models.VideoID(id)
	back, ok := models.ParseVideoID(shown)
	require.True(f, ok)
	require.Equal(f, id, back)
	for _, seed := range []string{shown, "", "video_", string(id), strings.ToUpper(shown), shown + "0", "video_" + id.UUID(), "video_" +
		strings.Repeat("g", 32)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := models.ParseVideoID(text)
		require.Equal(t, ok, id.Valid())
		if ok {
			require.Equal(t, text, models.VideoID(id))
		}
	})
}
