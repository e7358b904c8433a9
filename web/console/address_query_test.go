package console

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestJobQuery(t *testing.T) {
	t.Parallel()

	t.Run("HasOneAddress", func(t *testing.T) {
		t.Parallel()

		q := jobQuery{Status: []models.JobStatus{models.JobQueued}, Search: "a&b", After: "x"}

		require.Equal(t, "/jobs?after=x&q=a%26b&status=QUEUED", q.path("/jobs"))
		require.Empty(t, q.live())
		require.Equal(t, "/jobs/live", jobQuery{}.live())
	})
}
