package change

import (
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestMove(t *testing.T) {
	t.Parallel()

	t.Run("FollowsAnEdgeOrChangesNothing", func(t *testing.T) {
		t.Parallel()

		for _, from := range models.JobStatuses {
			for _, to := range models.JobStatuses {
				c := &Change{Job: &models.Job{Status: from}}

				err := c.Move(to)

				if CanMove(from, to) {
					require.NoError(t, err, "%s to %s", from, to)
					require.Equal(t, to, c.Job.Status)
					continue
				}
				require.ErrorIs(t, err, apierror.New(apierror.CodeConflict, ""), "%s to %s", from, to)
				require.Equal(t, from, c.Job.Status)
			}
		}
	})
}
