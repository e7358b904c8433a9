package jobs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSearchNote(t *testing.T) {
	t.Parallel()

	for search, has := range map[string]bool{
		"": false, "fox": true, "status:failed fox": true, `"status:failed"`: true, `"a fox"`: true,
		"status:failed": false, `-status:failed age:<1d`: false, `account:"a fox"`: false, `model:ltx,"a fox"`: false,
	} {
		require.Equal(t, has, (&ListOptions{search: search}).note() != "", search)
	}
}
