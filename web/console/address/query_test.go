package address

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestJobQuery(t *testing.T) {
	t.Parallel()

	t.Run("HasOneAddress", func(t *testing.T) {
		t.Parallel()

		q := Jobs{Status: []models.JobStatus{models.JobQueued}, Search: "a&b", After: "x"}

		require.Equal(t, "/jobs?after=x&q=a%26b&status=QUEUED", q.Path("/jobs"))
		require.Empty(t, q.Live())
		require.Equal(t, "/jobs/live", Jobs{}.Live())
	})
}
